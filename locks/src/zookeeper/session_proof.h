#ifndef STOCKADE_LOCKS_SRC_ZOOKEEPER_SESSION_PROOF_H_
#define STOCKADE_LOCKS_SRC_ZOOKEEPER_SESSION_PROOF_H_

#include <optional>

#include "absl/time/time.h"
#include "stockade/base/instant.h"

namespace stockade::internal {

// Since when a ZooKeeper session is sure to be counted: from there it lives for its time-out, whichever server leads.
//
// An answer alone proves little. A server other than the leader answers pings and reads by itself, for as long as it
// does not notice that it is cut off; a leader that has been voted out answers syncs so. What is a transaction has gone
// through a majority, so when it was sent no later leader was there, and one that comes counts each session's time
// anew. Yet the leader that there was need not have heard of the session at that moment either: a server reports the
// sessions that it has heard when the leader pings it, twice a tick, and does not with what it forwards. So a
// transaction proves what was *answered* a tick before it was sent: the report has gone to the leader on the same
// connection, in front of it. If the session has changed servers in between, the leader has heard of it then.
//
// (LearnerHandler, LearnerSessionTracker, Leader.processSync and SessionTrackerImpl of ZooKeeper 3.8.)
class SessionProof {
 public:
  // `tick`: at least the servers' tickTime, twice what is needed for a leader that pings in time.
  explicit SessionProof(absl::Duration tick) : tick_(tick) {}

  // A transaction that was sent and answered then, of this session. None: nothing new is proven.
  std::optional<Instant> Committed(Instant sent, Instant answered) {
    if (!heard_) {
      heard_ = {.sent = sent, .answered = answered};
      return std::nullopt;
    }
    if (sent < heard_->answered + tick_) return std::nullopt;
    const Instant proven = heard_->sent;
    heard_ = {.sent = sent, .answered = answered};
    return proven;
  }

 private:
  struct Exchange {
    Instant sent;
    Instant answered;
  };

  const absl::Duration tick_;
  std::optional<Exchange> heard_ = std::nullopt;  // Not proven yet.
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_ZOOKEEPER_SESSION_PROOF_H_

#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_SESSION_PROOF_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_SESSION_PROOF_H_

#include <optional>

#include "absl/time/time.h"
#include "stockade/base/instant.h"

namespace stockade::locks_internal {

// Since when the servers certainly count a ZooKeeper session: from then on it lives for its time-out, whichever server
// leads.
//
// An answer alone proves little. A server other than the leader answers pings and reads by itself until it notices that
// it is cut off, and a leader that has been voted out answers syncs in the same way. A transaction has gone through a
// majority. So there was no later leader when it was sent, and a leader that comes later restarts the time of each
// session. But the leader of that moment need not have heard of the session: a server reports the sessions that it has
// heard from when the leader pings it, twice per tick, and not with the requests that it forwards. So a transaction
// proves what was *answered* a tick before it was sent: the report has gone to the leader on the same connection,
// before the transaction. If the session has changed servers in between, the leader has heard of it then.
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

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_SESSION_PROOF_H_

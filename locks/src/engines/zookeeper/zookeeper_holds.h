#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_HOLDS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_HOLDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"
#include "stockade/locks/lock_engine.h"
#include "zookeeper_janitor.h"

namespace stockade::locks_internal {

// The hold of one owner on one lock.
//
// Invariants, while it is in the table: it belongs to the current session, or to one that is over and will be swept
// soon; count > 0 exactly while held; its node is wanted. The caller that removes it gives its node to the janitor, or
// knows that the node is gone.
struct ZooKeeperHold {
  enum class State {
    kAsked,   // For its node, whose name is not known.
    kQueued,  // The node is there.
    kHeld,    // And is in.
  };

  const HoldKey key;
  const std::shared_ptr<ZooKeeperSession> session;
  const std::string directory;
  const std::string prefix;

  // Only the steps of this hold change these, with the table's mutex held. The steps come one after another, so they
  // may read these without it.
  std::string name = {};
  bool nested = false;  // Within its owner's write, whose place and token it has.
  State state = State::kAsked;
  std::optional<int64_t> token = std::nullopt;  // None: not known yet.

  // The table's mutex guards the members below.
  int64_t count = 0;
  std::string waits_for = {};  // The node before it, where queued and seen so.
  uint64_t newest = 0;         // The newest step's sequence.
  uint64_t entered = 0;        // That of the newest try that acquired.
  Instant deadline = {};       // When it is taken off: a hold by its lease, a place in the queue where no try keeps it.

  ZooKeeperNode node() const { return {.session = session, .directory = directory, .prefix = prefix, .name = name}; }
};

// The holds and places in queues of a service. Thread-safe; nothing blocks. O(log holds).
class ZooKeeperHolds {
 public:
  using HoldPtr = std::shared_ptr<ZooKeeperHold>;

  // `place_life`: how long a place in a queue is kept after the last try for it. `client`: nobody else's name.
  ZooKeeperHolds(Clock* clock, std::string root, std::string client, absl::Duration place_life,
                 std::shared_ptr<ZooKeeperJanitor> janitor);

  enum class Next {
    kAnswered,  // In the step.
    kPeek,      // It may not wait, and has nothing: look whether it would be in.
    kMake,      // A node was noted that is to be made.
    kNest,      // The same, within `write`.
    kLook,      // Where its node stands.
    kRecover,   // Whether its node is there.
    kReenter,   // Whether it still holds.
    kDiscard,   // What is left of a hold that its owner has lost; then it starts again.
  };
  struct Begun {
    Next next = Next::kAnswered;
    HoldPtr hold = nullptr;
    HoldPtr write = nullptr;  // The owner's.
  };
  // `peeked`: it would be in.
  Begun Begin(LockTry& step, const std::shared_ptr<ZooKeeperSession>& session, bool peeked);

  // Of a hold that Begin() gave. Each: false where it has been taken off meanwhile.
  bool Made(const HoldPtr& hold, std::string name, std::optional<int64_t> token);
  bool Queue(const HoldPtr& hold, std::string waits_for);
  bool Enter(const HoldPtr& hold, LockTry& step);
  bool Renew(const HoldPtr& hold, absl::Duration lease);

  // Null: not held.
  HoldPtr FindHeld(const HoldKey& key) const;
  // The first part of a release. Aborted: it is older than what has been run.
  struct Lowered {
    absl::Status status = absl::OkStatus();
    HoldPtr free = nullptr;  // What is to be deleted, and is off the table: a hold, or a place.
    HoldPtr kept = nullptr;  // A hold whose count was lowered, if its node is still there.
    bool held = false;
  };
  Lowered Lower(const LockRelease& release);
  // Takes it off; whether it was there.
  bool TakeOff(const HoldPtr& hold);
  // Takes it off and has its node deleted.
  void Discard(const HoldPtr& hold, ZooKeeperJanitor::Done done);
  // Forgets those of a session that is over.
  void Sweep(const std::shared_ptr<ZooKeeperSession>& session);

  // What a hold waits for; none: it does not wait, as far as is known.
  std::optional<ZooKeeperNode> WaitsFor(const HoldKey& key) const;
  // Of this lock's nodes, those that are held here. O(holds).
  struct HeldNode {
    OwnerId owner;
    int64_t count;
    Instant deadline;
  };
  absl::flat_hash_map<std::string, HeldNode> HeldNodes(std::string_view lock) const;

  std::string DirectoryOf(std::string_view lock) const;

  // Before the first hold. ResourceExhausted: the thread that takes holds off by time cannot be started.
  absl::Status Start() { return expiry_.Start(); }
  // No hold is taken off by time any more.
  void Stop() { expiry_.Stop(); }

 private:
  HoldPtr Add(const HoldKey& key, const std::shared_ptr<ZooKeeperSession>& session) STOCKADE_REQUIRES(mutex_);
  HoldPtr HeldAs(const HoldKey& key, LockKind kind) const STOCKADE_REQUIRES(mutex_);
  bool Has(const HoldPtr& hold) const STOCKADE_REQUIRES(mutex_);
  void Erase(const HoldPtr& hold) STOCKADE_REQUIRES(mutex_);
  void SetDeadline(const HoldPtr& hold, Instant at) STOCKADE_REQUIRES(mutex_);
  void WakeAt(Instant at) STOCKADE_REQUIRES(mutex_);

  void Expire();

  Clock* const clock_;
  const std::string root_;
  const std::string client_;
  const absl::Duration place_life_;
  const std::shared_ptr<ZooKeeperJanitor> janitor_;

  mutable Mutex mutex_;
  absl::flat_hash_map<HoldKey, HoldPtr> holds_ STOCKADE_GUARDED_BY(mutex_);
  std::set<std::pair<Instant, ZooKeeperHold*>> deadlines_ STOCKADE_GUARDED_BY(mutex_);  // Of all of them.
  // When the timer looks at them next. It is not put off for one that has gone: a lock that is acquired and released in
  // turn is not to wake it each time.
  Instant wakes_at_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  // The task for that time, the only one that may run.
  std::optional<TimerQueue::Id> timer_ STOCKADE_GUARDED_BY(mutex_) = std::nullopt;
  uint64_t attempts_ STOCKADE_GUARDED_BY(mutex_) = 0;
  TimerQueue expiry_;  // Last: its tasks use the above.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_HOLDS_H_

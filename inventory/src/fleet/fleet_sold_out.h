#ifndef STOCKADE_INVENTORY_FLEET_FLEET_SOLD_OUT_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_SOLD_OUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "fleet_schema.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade::inventory_internal {

// How a SKU stands between being for sale and being sold out, by one read of its row.
struct FleetLatch {
  FleetMode mode = FleetMode::kOpen;
  int64_t epoch = 0;                            // Of the last latch; greater for each.
  absl::Duration lease = absl::ZeroDuration();  // Of this epoch, for all processes.
  int64_t limbo = 0;                            // Units that wait until all leases have ended.
};

// What a process remembers of SKUs that are sold out: under which leases it refuses requests without the ledger, and
// which units in limbo it will put on sale again. Thread-safe; no call blocks for long.
//
// A read of "latched" is a lease, which counts from when the read was sent. It says that nothing is for sale until the
// lease ends, because units that come back stay in limbo for 1.1 leases from the first of them. The request ids that
// took units cannot change meanwhile (they are frozen); they are loaded after the read that began the epoch, and
// requests with these ids are not refused here. tests/models/fleet_sold_out.pml has the rules, and what happens without
// each of them.
class FleetSoldOut {
 public:
  using Ids = absl::flat_hash_set<uint64_t>;  // FleetKeys::RequestPrint() of request ids.

  // A longer one in the ledger is taken for this.
  static constexpr absl::Duration kLongestLease = absl::Minutes(1);

  // `max_ids`: the largest number of ids that are remembered, of all SKUs together.
  FleetSoldOut(Clock& clock, size_t max_ids) : clock_(clock), max_ids_(max_ids) {}

  // False: no request is refused here.
  bool HasLeases() const { return leased_.load(std::memory_order_relaxed) > 0; }
  // The units that are not sold, by the lease under which a request for `sku` is to be refused; nullopt: the ledger has
  // to be asked. O(1).
  std::optional<int64_t> Refuses(uint64_t sku, uint64_t request_print, bool has_buyer) const;

  // What a read of a SKU has shown that was sent at `sent`. `unsold`: its units that are not sold. `limited`: it has a
  // limit per buyer. True: there is new work, which may be due before the NextWork() that was.
  bool Note(uint64_t sku, const FleetLatch& latch, int64_t unsold, bool limited, Instant sent);
  // How long units stay in limbo from when it was seen.
  static absl::Duration WaitOf(const FleetLatch& latch);
  // Units of `sku` are in limbo, and have been so since now or earlier.
  bool NoteLimbo(uint64_t sku, const FleetLatch& latch);

  // A lower bound of when there is work.
  Instant NextWork() const;
  struct Move {
    uint64_t sku;
    int64_t epoch;
  };
  struct Work {
    std::vector<Move> moves = {};         // All leases of the epoch have ended: limbo is to be put on sale.
    std::vector<uint64_t> renewals = {};  // Rows to be read again, because requests ask for them.
    std::vector<Move> unknown_ids = {};   // The ids that took units are to be loaded.
  };
  // What is due. Work that is not done comes again after a pause.
  Work TakeWork();
  // Whether its ids are still to be loaded.
  bool WantsIds(const Move& of) const;
  // There is work that is not done.
  void ComeAgain() { Schedule(clock_.Now()); }
  // The ids that took units. nullopt: there are more than ids_left(), so the ledger is asked in this epoch.
  void NoteIds(const Move& of, std::optional<Ids> ids);
  size_t ids_left() const;
  // Limbo is on sale again, or the epoch is over.
  void NoteMoved(const Move& move);
  // Calls `done` then, or at `deadline`; perhaps at once.
  void NotifyMoved(const Move& move, Instant deadline, absl::AnyInvocable<void()> done);
  // Calls those who need wait no longer, or all.
  void EndWaits(bool all = false);

  struct Figures {
    int64_t leased_skus = 0;
    int64_t limbo_units = 0;
    absl::Duration oldest_lease = absl::ZeroDuration();  // Since the read of the oldest valid one was sent.
  };
  Figures Read() const;

 private:
  struct Sku {
    int64_t epoch = 0;
    int64_t unsold = 0;
    bool limited = false;
    Instant sent = Instant::InfinitePast();  // The read of the lease.
    Instant lease_end = Instant::InfinitePast();
    Instant next_work = Instant::InfinitePast();  // A renewal, or the loading of ids.
    // Null: not loaded. Never changes in an epoch.
    std::unique_ptr<const Ids> ids = nullptr;
    bool too_many_ids = false;
    // A request asked for the SKU since the lease was renewed.
    mutable std::atomic<bool> asked = false;
  };
  struct Wait {
    Move move;
    Instant deadline;
    absl::AnyInvocable<void()> done;
  };
  struct Limbo {
    int64_t epoch = 0;
    int64_t units = 0;  // At the last read.
    Instant due = {};
  };

  bool Schedule(Instant when);
  void SetIds(Sku& sku, std::unique_ptr<const Ids> ids) STOCKADE_REQUIRES(leases_mutex_);
  void NoteLatchEnded(uint64_t sku, int64_t epoch);
  void EndLimbo(uint64_t sku, int64_t epoch);

  // Each request holds it shared for a moment. Locked after FleetQueues' mutex. First, because it is aligned.
  mutable ReentrantSharedMutex leases_mutex_;
  Clock& clock_;
  const size_t max_ids_;
  size_t known_ids_ STOCKADE_GUARDED_BY(leases_mutex_) = 0;
  std::atomic<size_t> leased_ = 0;  // The size of skus_.
  // Pointers, because an atomic does not move.
  absl::flat_hash_map<uint64_t, std::unique_ptr<Sku>> skus_ STOCKADE_GUARDED_BY(leases_mutex_);

  mutable Mutex mutex_;  // Locked after leases_mutex_.
  std::map<uint64_t, Limbo> limbo_ STOCKADE_GUARDED_BY(mutex_);
  std::vector<Wait> waits_ STOCKADE_GUARDED_BY(mutex_);
  Instant next_work_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_SOLD_OUT_H_

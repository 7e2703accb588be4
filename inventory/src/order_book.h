#ifndef STOCKADE_INVENTORY_ORDER_BOOK_H_
#define STOCKADE_INVENTORY_ORDER_BOOK_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "open_table.h"
#include "order_record.h"
#include "ranked_mutex.h"
#include "request_fingerprint.h"
#include "stockade/base/clock.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::inventory_internal {

// The records of all orders, by request and by id, over stripes with a lock each: those whose time to be forgotten has
// not come whole, the others as a fingerprint of 64 bits of their request id, which is kept for good. A fingerprint
// that a new id happens to share (one in 10^11 among 10^8 old ones) makes that id refused, and nothing taken twice.
//
// Which stripe a request belongs to depends on its id alone, and a new order gets an id that tells the stripe: so each
// call touches the lines of one stripe, and no counter that all share. Orders of a former run have ids that tell
// nothing; they are found through an index of their own.
//
// Only Add(), MakeRoomTo...(), and the calls of recovery allocate. They throw std::bad_alloc if there is no memory,
// and have changed nothing then.
class OrderBook {
 public:
  using Ref = std::shared_ptr<OrderRecord>;
  using Lock = std::unique_lock<Ranked<ReentrantMutex>>;

  struct alignas(64) Stripe {
    explicit Stripe(uint32_t index) : mutex(LockRank::kOrders, index, "inventory orders"), number(index) {}

    Ranked<ReentrantMutex> mutex;

   private:
    friend class OrderBook;

    // With the fingerprint beside it, so that a table that grows reads no record.
    struct Entry {
      uint64_t fingerprint;
      Ref record;
    };
    struct Hash {
      uint64_t operator()(const Entry& entry) const { return entry.fingerprint; }
      uint64_t operator()(uint64_t fingerprint) const { return fingerprint; }
    };
    // Earliest first, of equal ones any.
    struct Deadline {
      Instant at;
      OrderId id;

      friend bool operator<(const Deadline& a, const Deadline& b) { return a.at > b.at; }
    };

    const uint32_t number;
    OpenTable<Entry, Hash> records STOCKADE_GUARDED_BY(mutex);
    // By id, without a gap. The id of the first one is first_id_ + (forgotten_front * stripes) + number, and each
    // following id is higher by the number of stripes. Null: forgotten; the first one is never null. Orders of a former
    // run are not in it.
    std::deque<Ref> made STOCKADE_GUARDED_BY(mutex);
    uint64_t forgotten_front STOCKADE_GUARDED_BY(mutex) = 0;
    // A heap of the held records with a deadline, and of some that were, or that had an earlier one: as many at most,
    // and a few. The first one is due then.
    std::vector<Deadline> due STOCKADE_GUARDED_BY(mutex);
    size_t held_due STOCKADE_GUARDED_BY(mutex) = 0;
    // The ends of a list of the records that have ended, nearly by the time of that. Those of this run ascend by their
    // positions in the ledger, as far as those are not known to be durable.
    OrderRecord* first_ended STOCKADE_GUARDED_BY(mutex) = nullptr;
    OrderRecord* last_ended STOCKADE_GUARDED_BY(mutex) = nullptr;
    OpenTable<uint64_t, Hash> forgotten STOCKADE_GUARDED_BY(mutex);
    std::atomic<Instant> earliest_due{Instant::InfiniteFuture()};  // Written with mutex held.
  };

  struct Found {
    Ref record = nullptr;    // Null: there is none. One that is forgotten may still be here.
    bool forgotten = false;  // There was one, and its time to be forgotten has come.
  };

  // `retention`: how long after its end, or its last return, an order is remembered.
  OrderBook(size_t stripes, absl::Duration retention);

  uint64_t FingerprintOf(const std::string& request_id) const { return fingerprint_(request_id); }

  // Of a former run, before any record is added: its key, the fingerprints of ids that took, and the last order id.
  // InvalidArgument: that id leaves no room for others.
  absl::Status TakeOver(FingerprintKey key, const std::vector<uint64_t>& forgotten, OrderId last_id);

  // Everything up to `position` in the ledger is durable. Only such records are forgotten. Thread-safe.
  void NoteDurable(uint64_t position);

  size_t stripe_count() const { return stripes_.size(); }
  Stripe& stripe(size_t index) { return *stripes_[index]; }
  // Their number times the upper bits, as a fraction of 2^16: without a division.
  Stripe& StripeOf(uint64_t fingerprint) { return *stripes_[(fingerprint >> 48) * stripes_.size() >> 16]; }
  // The stripe of the order. Null: there is no such order.
  Stripe* StripeOfOrder(OrderId id);

  // Locks both in their order. They may be one. `other`: null if there is none.
  static std::array<Lock, 2> LockBoth(Stripe& one, Stripe* other);

  // The earliest deadline in a stripe. May be earlier than it is, for a moment; of what was added before, never later.
  Instant EarliestDue(size_t index) const { return stripes_[index]->earliest_due.load(std::memory_order_seq_cst); }

  // Reads the clock only if there is a record.
  Found Find(const Stripe& stripe, uint64_t fingerprint, const std::string& request_id, Clock& clock) const
      STOCKADE_REQUIRES(stripe.mutex);
  // Null: no order that is remembered.
  Ref FindById(const Stripe& stripe, OrderId id, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  // The id of the next record that is added to the stripe.
  OrderId NextId(const Stripe& stripe) const STOCKADE_REQUIRES(stripe.mutex) {
    return first_id_ + (stripe.forgotten_front + stripe.made.size()) * stripes_.size() + stripe.number;
  }
  // Adds a record with that id, whose request id is new to the book. True: EarliestDue() of the stripe has changed.
  // O(log n), mostly O(1); forgets up to two others, unless there is no memory for their fingerprints.
  bool Add(Stripe& stripe, Ref record, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  // Adds a record of a former run, while nobody else uses the book, in the order in which they ended. InvalidArgument:
  // its id, or its request's, is there; or its id is 0, or leaves no room for others.
  absl::Status AddRecovered(Stripe& stripe, Ref record, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  // A held record ends.
  void End(Stripe& stripe, OrderRecord& record, OrderState state, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  // Extend() may be called once more.
  static void MakeRoomToExtend(Stripe& stripe) STOCKADE_REQUIRES(stripe.mutex) { MakeRoomForDue(stripe, 1); }
  // A held record with a deadline gets a later one. O(log n), mostly O(1).
  void Extend(Stripe& stripe, OrderRecord& record, absl::Duration by) STOCKADE_REQUIRES(stripe.mutex);
  // Units of an order that has ended come back: it is remembered from `now` on.
  void Prolong(Stripe& stripe, OrderRecord& record, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  // A held record whose deadline is not after `now`; null: none.
  Ref FirstDue(Stripe& stripe, Instant now) STOCKADE_REQUIRES(stripe.mutex);

  // The record, however long ago it ended, if it was not durable when it could have been forgotten. Null: none such.
  Ref FindUndecided(const Stripe& stripe, OrderId id) STOCKADE_REQUIRES(stripe.mutex);
  // The opposite of Add(), of the last record added to the stripe that has not been withdrawn. Its id is not used
  // again.
  void Withdraw(Stripe& stripe, const Ref& record) STOCKADE_REQUIRES(stripe.mutex);
  // Calls `visit` with each record that has ended, and whose end may not be durable.
  template <typename Visit>
  void VisitUndecidedEnds(const Stripe& stripe, const Visit& visit) const STOCKADE_REQUIRES(stripe.mutex) {
    const uint64_t durable = durable_.load(std::memory_order_relaxed);
    for (const OrderRecord* record = stripe.last_ended; record != nullptr && record->position > durable;
         record = record->ended_before) {
      visit(*record);
    }
  }
  // Lets Reopen() be called for each of those.
  void MakeRoomToReopen(Stripe& stripe) STOCKADE_REQUIRES(stripe.mutex);
  // The opposite of End(). The record becomes due at `due_at`, not at its deadline; infinite: never.
  void Reopen(Stripe& stripe, OrderRecord& record, Instant due_at) STOCKADE_REQUIRES(stripe.mutex);
  // The opposite of Extend(). O(n).
  void Shorten(Stripe& stripe, OrderRecord& record, absl::Duration by) STOCKADE_REQUIRES(stripe.mutex);

 private:
  bool Forgotten(const OrderRecord& record, Instant now) const { return record.ended_at + retention_ <= now; }
  bool MayForget(const OrderRecord& record, Instant now) const {
    return Forgotten(record, now) && record.position <= durable_.load(std::memory_order_relaxed);
  }
  // Needs a free place in stripe.due.
  bool AddDue(Stripe& stripe, const OrderRecord& record, Instant at) STOCKADE_REQUIRES(stripe.mutex);
  static void MakeRoomForDue(Stripe& stripe, size_t more) STOCKADE_REQUIRES(stripe.mutex);
  static const Stripe::Entry* FindEntry(const Stripe& stripe, uint64_t fingerprint, const std::string& request_id)
      STOCKADE_REQUIRES(stripe.mutex);
  static bool IsForgotten(const Stripe& stripe, uint64_t fingerprint) STOCKADE_REQUIRES(stripe.mutex);
  static void AddForgotten(Stripe& stripe, uint64_t fingerprint) STOCKADE_REQUIRES(stripe.mutex);
  static void EraseEntry(Stripe& stripe, const OrderRecord& record) STOCKADE_REQUIRES(stripe.mutex);
  // In place of those that the record has.
  void ReplaceDue(Stripe& stripe, const OrderRecord& record, Instant at) STOCKADE_REQUIRES(stripe.mutex);
  static void AddEnded(Stripe& stripe, OrderRecord& record) STOCKADE_REQUIRES(stripe.mutex);
  void DropPlace(Stripe& stripe, OrderId id) STOCKADE_REQUIRES(stripe.mutex);
  // Drops the places in stripe.due of records that are not held, or are due later: the first one is none of them.
  void DropStaleDue(Stripe& stripe) STOCKADE_REQUIRES(stripe.mutex);
  static void DropFromEnded(Stripe& stripe, OrderRecord& record) STOCKADE_REQUIRES(stripe.mutex);
  void ForgetSome(Stripe& stripe, Instant now) STOCKADE_REQUIRES(stripe.mutex);
  void Forget(Stripe& stripe, const OrderRecord& record) STOCKADE_REQUIRES(stripe.mutex);
  // Null, or a null one: none. Stays while the stripe is locked.
  const Ref* Remembered(const Stripe& stripe, OrderId id) STOCKADE_REQUIRES(stripe.mutex);

  const absl::Duration retention_;
  const std::vector<std::unique_ptr<Stripe>> stripes_;
  RequestFingerprint fingerprint_{RequestFingerprint::RandomKey()};
  OrderId first_id_ = 1;  // Of this run's orders the lowest. Changed by TakeOver() and AddRecovered() alone.
  std::atomic<uint64_t> durable_{0};
  // Orders of a former run, by id: those that are in a stripe. Its mutex is held alone, or below a stripe's.
  Mutex recovered_mutex_;
  absl::flat_hash_map<OrderId, Ref> recovered_ STOCKADE_GUARDED_BY(recovered_mutex_);
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_ORDER_BOOK_H_

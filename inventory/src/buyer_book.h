#ifndef STOCKADE_INVENTORY_BUYER_BOOK_H_
#define STOCKADE_INVENTORY_BUYER_BOOK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "item.h"
#include "open_table.h"
#include "ranked_mutex.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::inventory_internal {

// Units that buyers hold and have bought of items with a limit per buyer, over stripes with a lock each. They count as
// long as the item is for sale, whether their orders are remembered or not.
class BuyerBook {
 public:
  // The analysis does not see it, because callers lock a stripe only if an item has a limit.
  using Lock = std::unique_lock<Ranked<ReentrantMutex>>;

  explicit BuyerBook(size_t stripes) {
    stripes_.reserve(stripes);
    for (size_t i = 0; i < stripes; ++i) stripes_.push_back(std::make_unique<Stripe>(static_cast<uint32_t>(i)));
  }

  // What the calls below about this buyer need.
  [[nodiscard]] Lock LockFor(const std::string& buyer) { return Lock(StripeOf(buyer).mutex); }

  // Of all buyers.
  [[nodiscard]] std::vector<Lock> LockAll() {
    locks_internal::ThreadRecord::Reserve(stripes_.size() + locks_internal::ThreadRecord::kUsualHolds);
    std::vector<Lock> locks;
    locks.reserve(stripes_.size());
    for (const auto& stripe : stripes_) locks.emplace_back(stripe->mutex);
    return locks;
  }

  int64_t Units(const Item& item, const std::string& buyer) {
    Stripe& stripe = StripeOf(buyer);
    stripe.mutex.AssertHeld();  // By a Lock of the caller.
    const Entry* const found = Find(stripe, item, buyer);
    return found == nullptr ? 0 : found->units;
  }

  // Lets Add() have an entry to add to, which may have no units. Throws std::bad_alloc, and has changed nothing then.
  void MakeRoom(const Item& item, const std::string& buyer) {
    Stripe& stripe = StripeOf(buyer);
    stripe.mutex.AssertHeld();  // By a Lock of the caller.
    if (Find(stripe, item, buyer) != nullptr) return;
    Entry added{.hash = HashOf(item, buyer), .item = &item, .buyer = buyer, .units = 0};
    stripe.entries.MakeRoom();
    stripe.entries.Insert(std::move(added));
  }

  // Allocates nothing. `change` may be below zero, but not what comes of it. Needs MakeRoom() if it is above zero. If
  // it is zero, an entry without units is removed.
  void Add(const Item& item, const std::string& buyer, int64_t change) noexcept {
    Stripe& stripe = StripeOf(buyer);
    stripe.mutex.AssertHeld();  // By a Lock of the caller.
    const Entry* const found = Change(stripe, item, buyer, change);
    if (found != nullptr && found->units == 0) stripe.entries.Erase(found);
  }

  // As Add(), but an entry without units stays until DropEmpty(): an older record that is undone after this one may
  // give it units again, for which there is no memory then.
  void AddUndone(const Item& item, const std::string& buyer, int64_t change) noexcept {
    Stripe& stripe = StripeOf(buyer);
    stripe.mutex.AssertHeld();  // By a Lock of the caller.
    const Entry* const found = Change(stripe, item, buyer, change);
    if (found != nullptr && found->units == 0) stripe.has_empty = true;
  }

  // Needs LockAll(). O(buyers) of the stripes in which AddUndone() left an entry without units.
  void DropEmpty() noexcept {
    for (const auto& stripe : stripes_) {
      stripe->mutex.AssertHeld();  // By LockAll().
      if (!std::exchange(stripe->has_empty, false)) continue;
      stripe->entries.EraseIf([](const Entry& entry) { return entry.units == 0; });
    }
  }

  // Takes the stripes, one after the other. O(all buyers).
  void Forget(const Item& item) {
    for (const auto& stripe : stripes_) {
      const MutexLock lock(stripe->mutex);
      stripe->entries.EraseIf([&](const Entry& entry) {
        if (entry.item != &item) return false;
        NoteOver(entry, -1);
        return true;
      });
    }
  }

  // Buyers that have more units of a SKU than its limit allows.
  int64_t over_limit() const { return over_limit_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    uint64_t hash;
    const Item* item;
    std::string buyer;
    int64_t units;
  };
  struct EntryHash {
    uint64_t operator()(const Entry& entry) const { return entry.hash; }
  };
  using Entries = OpenTable<Entry, EntryHash>;
  struct alignas(64) Stripe {
    explicit Stripe(uint32_t index) : mutex(LockRank::kBuyers, index, "inventory buyers") {}

    Ranked<ReentrantMutex> mutex;
    // None is zero, except between MakeRoom() and Add(), and between AddUndone() and DropEmpty().
    Entries entries STOCKADE_GUARDED_BY(mutex);
    bool has_empty STOCKADE_GUARDED_BY(mutex) = false;  // Perhaps: AddUndone() left one.
  };

  static uint64_t HashOf(const Item& item, const std::string& buyer) { return absl::HashOf(&item, buyer); }
  static Entry* Find(Stripe& stripe, const Item& item, const std::string& buyer) STOCKADE_REQUIRES(stripe.mutex) {
    return stripe.entries.Find(HashOf(item, buyer),
                               [&](const Entry& entry) { return entry.item == &item && entry.buyer == buyer; });
  }

  const Entry* Change(Stripe& stripe, const Item& item, const std::string& buyer, int64_t change)
      STOCKADE_REQUIRES(stripe.mutex) {
    Entry* const found = Find(stripe, item, buyer);
    if (found == nullptr) return nullptr;
    NoteOver(*found, -1);
    found->units += change;
    NoteOver(*found, 1);
    return found;
  }

  void NoteOver(const Entry& entry, int64_t change) {
    if (entry.units > entry.item->per_buyer_limit) over_limit_.fetch_add(change, std::memory_order_relaxed);
  }

  Stripe& StripeOf(const std::string& buyer) { return *stripes_[std::hash<std::string>()(buyer) % stripes_.size()]; }

  std::vector<std::unique_ptr<Stripe>> stripes_;
  std::atomic<int64_t> over_limit_ = 0;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_BUYER_BOOK_H_

#ifndef STOCKADE_INVENTORY_BUYER_BOOK_H_
#define STOCKADE_INVENTORY_BUYER_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "item.h"
#include "ranked_mutex.h"
#include "stockade/base/mutex.h"
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
    std::vector<Lock> locks;
    locks.reserve(stripes_.size());
    for (const auto& stripe : stripes_) locks.emplace_back(stripe->mutex);
    return locks;
  }

  int64_t Units(const Item& item, const std::string& buyer) {
    Stripe& stripe = StripeOf(buyer);
    stripe.mutex.AssertHeld();  // By a Lock of the caller.
    const auto found = stripe.units.find({&item, buyer});
    return found == stripe.units.end() ? 0 : found->second;
  }

  // `change` may be below zero, but not what comes of it.
  void Add(const Item& item, const std::string& buyer, int64_t change) {
    Stripe& stripe = StripeOf(buyer);
    stripe.mutex.AssertHeld();  // By a Lock of the caller.
    const auto found = stripe.units.try_emplace({&item, buyer}, 0).first;
    found->second += change;
    if (found->second == 0) stripe.units.erase(found);
  }

  // Takes the stripes, one after the other. O(all buyers).
  void Forget(const Item& item) {
    for (const auto& stripe : stripes_) {
      const MutexLock lock(stripe->mutex);
      absl::erase_if(stripe->units, [&](const auto& entry) { return entry.first.first == &item; });
    }
  }

 private:
  struct alignas(64) Stripe {
    explicit Stripe(uint32_t index) : mutex(LockRank::kBuyers, index, "inventory buyers") {}

    Ranked<ReentrantMutex> mutex;
    absl::flat_hash_map<std::pair<const Item*, std::string>, int64_t> units
        STOCKADE_GUARDED_BY(mutex);  // None is zero.
  };

  Stripe& StripeOf(const std::string& buyer) { return *stripes_[std::hash<std::string>()(buyer) % stripes_.size()]; }

  std::vector<std::unique_ptr<Stripe>> stripes_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_BUYER_BOOK_H_

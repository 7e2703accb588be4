#include "ranked_mutex.h"

#ifndef NDEBUG

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Place = std::pair<LockRank, uint32_t>;

// Whether the thread's thread_locals have been destroyed. An Inventory with static storage duration is destroyed later;
// the order of its locks is not checked then. Trivial, so it outlives them.
constinit thread_local bool ended = false;

struct Held {
  ~Held() { ended = true; }
  std::vector<Place> places;  // In the order of locking.
};

// What the calling thread holds, or null at its end.
std::vector<Place>* HeldByThisThread() {
  if (ended) return nullptr;
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wexit-time-destructors"  // `ended` says that it is gone.
#endif
  thread_local Held held;
#ifdef __clang__
#pragma clang diagnostic pop
#endif
  return &held.places;
}

std::string_view Name(LockRank rank) {
  switch (rank) {
    case LockRank::kSkuChanges: return "SKU changes";
    case LockRank::kBuyers: return "buyers";
    case LockRank::kOrders: return "orders";
    case LockRank::kItem: return "item";
    case LockRank::kCatalogue: return "catalogue";
  }
  return "unknown";
}

}  // namespace

void CheckLockOrder(LockRank rank, uint32_t index) {
  const std::vector<Place>* const held = HeldByThisThread();
  if (held == nullptr) return;
  for (const auto& [other, other_index] : *held) {
    if (Place(other, other_index) < Place(rank, index)) continue;
    Fatal(Concat("Inventory: lock ", Name(rank), " ", index, " is taken after lock ", Name(other), " ", other_index));
  }
}

void NoteLocked(LockRank rank, uint32_t index) {
  std::vector<Place>* const held = HeldByThisThread();
  if (held == nullptr) return;
  try {
    held->emplace_back(rank, index);
  } catch (const std::bad_alloc&) {  // The lock is held already. Its order is not checked.
  }
}

void NoteUnlocked(LockRank rank, uint32_t index) {
  std::vector<Place>* const held = HeldByThisThread();
  if (held == nullptr) return;
  const auto found = std::find(held->rbegin(), held->rend(), Place(rank, index));
  if (found != held->rend()) held->erase(std::next(found).base());
}

}  // namespace stockade::inventory_internal

#endif  // NDEBUG

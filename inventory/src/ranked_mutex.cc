#include "ranked_mutex.h"

#ifndef NDEBUG

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Place = std::pair<LockRank, uint32_t>;

// What the thread holds, in the order of locking.
thread_local std::vector<Place> held;

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
  for (const auto& [other, other_index] : held) {
    if (Place(other, other_index) < Place(rank, index)) continue;
    Fatal(Concat("Inventory: lock ", Name(rank), " ", index, " is taken after lock ", Name(other), " ", other_index));
  }
}

void NoteLocked(LockRank rank, uint32_t index) { held.emplace_back(rank, index); }

void NoteUnlocked(LockRank rank, uint32_t index) {
  const auto found = std::find(held.rbegin(), held.rend(), Place(rank, index));
  if (found != held.rend()) held.erase(std::next(found).base());
}

}  // namespace stockade::inventory_internal

#endif  // NDEBUG

#include "published_holds.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/futex.h"

namespace stockade::internal {
namespace {

// Sequentially consistent: the heavy side's load, see asymmetric_fence.h; and an acquire of what the thread did.
bool IsPublished(const Hold& hold, uintptr_t key) {
  const uintptr_t lock = hold.lock.load(std::memory_order_seq_cst);
  return (lock & ~Hold::kTags) == key && (lock & Hold::kPublishedRead) != 0;
}

void Mark(Hold& hold) { hold.wanted.store(1, std::memory_order_seq_cst); }

// Calls visit(hold) for the entries in question.
template <typename Visit>
void ForEachEntry(uint32_t entry, ThreadRecord* record, Visit visit) {
  if (record != nullptr) return visit(record->entry(entry));
  for (ThreadRecord* each = ThreadRecord::First(); each != nullptr; each = each->next()) visit(each->entry(entry));
}

std::vector<Hold*> FindPublished(uintptr_t key, uint32_t entry, ThreadRecord* record) {
  HeavyFence();
  std::vector<Hold*> found;
  const Hold* const mine = &ThreadRecord::Mine().entry(entry);
  ForEachEntry(entry, record, [&](Hold& hold) {
    if (&hold != mine && IsPublished(hold, key)) found.push_back(&hold);
  });
  return found;
}

// The entry is marked and fenced. A wake-up uses the mark up, so after one the entry is marked and fenced anew: a thread
// sleeps only if it has seen the other there after a fence that came after its mark.
//
// An entry serves several locks, one after the other, and a thread that is late may mark it for one that has left,
// without having fenced yet: its mark can make another one sleep who should not. So what was marked in vain is taken
// back, which wakes whoever sleeps on it.
bool AwaitDeparture(Hold& hold, uintptr_t key, SteadyDeadline deadline) {
  while (IsPublished(hold, key)) {
    if (!FutexWait(hold.wanted, 1, deadline)) return !IsPublished(hold, key);
    Mark(hold);
    HeavyFence();
  }
  hold.WakeIfWanted();
  return true;
}

}  // namespace

bool SeesPublished(uintptr_t key, uint32_t entry, ThreadRecord* record) {
  bool any = false;
  ForEachEntry(entry, record, [&](Hold& hold) { any |= IsPublished(hold, key); });
  return any;
}

bool HasPublished(uintptr_t key, uint32_t entry, ThreadRecord* record) {
  return !FindPublished(key, entry, record).empty();
}

bool DrainPublished(uintptr_t key, uint32_t entry, ThreadRecord* record, SteadyDeadline deadline) {
  // Who was not there at this look cannot be in.
  const std::vector<Hold*> found = FindPublished(key, entry, record);
  if (found.empty()) return true;
  for (Hold* const hold : found) Mark(*hold);
  HeavyFence();  // One for all marks.
  return std::all_of(found.begin(), found.end(), [&](Hold* hold) { return AwaitDeparture(*hold, key, deadline); });
}

}  // namespace stockade::internal

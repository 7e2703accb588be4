#include "published_holds.h"

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

// `mark` is what Hold::Mark() returned, and a fence has come after it. An entry serves several locks, one after the
// other, and those who wait for either share the mark. So a thread sleeps only on the very mark after which it has
// fenced itself and seen the other still there: neither on a later one, which is for another lock's hold, nor on one
// that somebody else has set and not fenced yet (tests/models/shared_entry.pml).
bool AwaitDeparture(Hold& hold, uint32_t mark, uintptr_t key, SteadyDeadline deadline) {
  while (IsPublished(hold, key)) {
    if (!FutexWait(hold.wanted, mark, deadline)) return !IsPublished(hold, key);
    const uint32_t now = hold.Mark();
    if (now == mark) continue;
    mark = now;
    HeavyFence();
  }
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
  std::vector<uint32_t> marks;
  marks.reserve(found.size());
  for (Hold* const hold : found) marks.push_back(hold->Mark());
  HeavyFence();  // One for all marks.
  for (size_t i = 0; i < found.size(); ++i) {
    if (!AwaitDeparture(*found[i], marks[i], key, deadline)) return false;
  }
  return true;
}

}  // namespace stockade::internal

#include "published_holds.h"

#include <array>
#include <atomic>
#include <cstddef>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/futex.h"

namespace stockade::locks_internal {
namespace {

// Sequentially consistent: the heavy side's load, see asymmetric_fence.h; and an acquire of what the thread did.
bool IsPublished(const Hold& hold, uintptr_t key) {
  const uintptr_t lock = hold.lock.load(std::memory_order_seq_cst);
  return (lock & ~Hold::kTags) == key && (lock & Hold::kPublishedRead) != 0;
}

// The records in question: `record` alone, or from `record` to the end where `all`.
ThreadRecord* Next(ThreadRecord* record, bool all) { return all ? record->next() : nullptr; }

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

bool SeesPublished(uintptr_t key, uint32_t entry, ThreadRecord* record, const ThreadRecord* except) {
  const bool all = record == nullptr;
  for (ThreadRecord* at = all ? ThreadRecord::First() : record; at != nullptr; at = Next(at, all)) {
    if (at != except && IsPublished(at->entry(entry), key)) return true;
  }
  return false;
}

bool HasPublished(uintptr_t key, uint32_t entry, ThreadRecord* record) {
  HeavyFence();
  return SeesPublished(key, entry, record, &ThreadRecord::Mine());
}

// A thread that this search does not find cannot hold the lock, because the search comes after the fence. It works in
// batches, with one fence for the marks of each batch. It uses no memory but the stack, because a lock that allocates
// could not guard an allocator.
bool DrainPublished(uintptr_t key, uint32_t entry, ThreadRecord* record, SteadyDeadline deadline) {
  struct Marked {
    Hold* hold;
    uint32_t mark;
  };
  std::array<Marked, 16> batch;
  const bool all = record == nullptr;
  const ThreadRecord* const mine = &ThreadRecord::Mine();
  HeavyFence();
  ThreadRecord* at = all ? ThreadRecord::First() : record;
  while (at != nullptr) {
    size_t size = 0;
    for (; at != nullptr && size < batch.size(); at = Next(at, all)) {
      Hold& hold = at->entry(entry);
      if (at != mine && IsPublished(hold, key)) batch[size++] = {&hold, hold.Mark()};
    }
    if (size == 0) break;
    HeavyFence();
    for (size_t i = 0; i < size; ++i) {
      if (!AwaitDeparture(*batch[i].hold, batch[i].mark, key, deadline)) return false;
    }
  }
  return true;
}

}  // namespace stockade::locks_internal

#include "published_readers.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/futex.h"
#include "stockade/locks/thread_record.h"

namespace stockade::internal {
namespace {

// Sequentially consistent: the heavy side's load, see asymmetric_fence.h; and an acquire of what the reader did.
bool IsPublished(const Hold& hold, uintptr_t key) {
  return hold.lock.load(std::memory_order_seq_cst) == (key | Hold::kPublishedTag);
}

void Mark(Hold& hold) { hold.wanted.store(1, std::memory_order_seq_cst); }

template <typename Visit>
void ForEachOtherRecord(Visit visit) {
  const ThreadRecord* const mine = &ThreadRecord::Mine();
  for (ThreadRecord* record = ThreadRecord::First(); record != nullptr; record = record->next()) {
    if (record != mine) visit(*record);
  }
}

// The entry is marked and fenced. A wake-up uses the mark up, so after one the entry is marked and fenced anew: a thread
// sleeps only if it has seen the reader there after a fence that came after its mark.
//
// An entry serves several locks, one after the other, and a writer that is late may mark it for a reader that has left,
// without having fenced yet: its mark can make another one sleep who should not. It takes back what it has marked in
// vain, waking whoever sleeps on it.
bool AwaitDeparture(Hold& hold, uintptr_t key, SteadyDeadline deadline) {
  while (IsPublished(hold, key)) {
    if (!FutexWait(hold.wanted, 1, deadline)) return !IsPublished(hold, key);
    Mark(hold);
    HeavyFence();
  }
  hold.WakeWriters();
  return true;
}

}  // namespace

bool SeesPublishedReader(uintptr_t key, uint32_t entry) {
  bool any = false;
  ForEachOtherRecord([&](ThreadRecord& record) { any |= IsPublished(record.entry(entry), key); });
  return any;
}

bool HasPublishedReader(uintptr_t key, uint32_t entry) {
  HeavyFence();
  return SeesPublishedReader(key, entry);
}

bool DrainPublishedReaders(uintptr_t key, uint32_t entry, SteadyDeadline deadline) {
  if (!HasPublishedReader(key, entry)) return true;
  std::vector<Hold*> marked;  // One fence for all marks.
  ForEachOtherRecord([&](ThreadRecord& record) {
    if (IsPublished(record.entry(entry), key)) {
      Mark(record.entry(entry));
      marked.push_back(&record.entry(entry));
    }
  });
  HeavyFence();
  // Who was not there at the first look cannot be in.
  return std::all_of(marked.begin(), marked.end(), [&](Hold* hold) { return AwaitDeparture(*hold, key, deadline); });
}

}  // namespace stockade::internal

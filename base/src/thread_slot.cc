#include "stockade/base/thread_slot.h"

#include <array>
#include <atomic>
#include <bit>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/hazard_row.h"
#include "stockade/base/mutex.h"

namespace stockade::base_internal {
namespace {

// Which slots are taken. Never destroyed: threads outlive static destructors.
class SlotTable {
 public:
  static SlotTable& Get() {
    static SlotTable* const table = new SlotTable;
    return *table;
  }

  uint32_t Take() {
    const MutexLock lock(mutex_);
    for (size_t word = 0; word < free_.size(); ++word) {
      if (free_[word] == 0) continue;
      const int bit = std::countr_zero(free_[word]);
      free_[word] &= free_[word] - 1;
      const auto slot = static_cast<uint32_t>(word * 64 + bit);
      if (slot >= used_.load(std::memory_order_relaxed)) used_.store(slot + 1, std::memory_order_seq_cst);
      return slot;
    }
    return kNoSlot;
  }

  void Return(uint32_t slot) {
    const MutexLock lock(mutex_);
    free_[slot / 64] |= uint64_t{1} << (slot % 64);
  }

  uint32_t used() const { return used_.load(std::memory_order_seq_cst); }

 private:
  SlotTable() { free_.fill(~uint64_t{0}); }

  Mutex mutex_;
  std::atomic<uint32_t> used_{0};                                                // Written with mutex_ held.
  std::array<uint64_t, kMaxThreadSlots / 64> free_ STOCKADE_GUARDED_BY(mutex_);  // A set bit is a free slot.
};

// Gives the slot back when the thread ends. From then on the thread has none, for destructors that run later still.
struct SlotReturner {
  uint32_t slot;
  ~SlotReturner() {
    thread_slot_detail::slot = kNoSlot;
    hazard_row_detail::light_row = nullptr;
    SlotTable::Get().Return(slot);
  }
};

}  // namespace

namespace thread_slot_detail {

constinit thread_local uint32_t slot = kUnassigned;

uint32_t Assign() {
  InitAsymmetricFence();  // A thread with a slot may use the light side of the fence.
  const uint32_t taken = SlotTable::Get().Take();
  slot = taken;
  if (taken != kNoSlot) {
    const bool forked = fork_detail::generation.load(std::memory_order_relaxed) != 0;
    if (InlineLightStoreWorks() && !forked) hazard_row_detail::light_row = &hazard_row_detail::rows[taken];
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wexit-time-destructors"  // It is run when its thread ends.
#endif
    thread_local SlotReturner returner{taken};
#ifdef __clang__
#pragma clang diagnostic pop
#endif
    (void)returner;
  }
  return taken;
}

}  // namespace thread_slot_detail

uint32_t ThreadSlotsUsed() { return SlotTable::Get().used(); }

}  // namespace stockade::base_internal

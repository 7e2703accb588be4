#ifndef STOCKADE_BASE_HAZARD_ROW_H_
#define STOCKADE_BASE_HAZARD_ROW_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/thread_slot.h"

namespace stockade::internal {

// What one thread says of the shared objects that it uses without a lock: hazard pointers (Michael, IEEE TPDS 2004)
// with the order between the reader's store and its second look made by the side that frees (asymmetric_fence.h), and
// pins that outlast the look and may be given to other threads.
//
//   reader:  LightStore(row.reads, p);  look again whether p is still where it was found;  use p;  row.reads = null
//   remover: take p away (seq_cst);  HeavyFence();  for all rows: p is in `reads`? then later, else free it
//
// Invariants: `caller` and `reads` are written by the thread that has the slot, and null outside of a read. A pin is
// set by that thread, from zero, while `reads` protects what is pinned; so a remover that looks at `reads` first and at
// the pins then misses none. A pin is cleared by whoever owns it, on any thread.
struct alignas(64) HazardRow {
  static constexpr size_t kPins = 6;
  // In a pin: it has been handed over, its owner has a count instead. Pinned objects have even addresses.
  static constexpr uintptr_t kHandedOver = 1;

  // A read of what `object` has; `object` must not be destroyed meanwhile.
  class Read {
   public:
    [[gnu::always_inline]] Read(HazardRow& row, const void* object) : row_(row) { LightStore(row.caller, object); }
    [[gnu::always_inline]] ~Read() { End(); }
    // Before the destructor; the thread may read anew then.
    [[gnu::always_inline]] void End() {
      row_.reads.store(nullptr, std::memory_order_release);
      row_.caller.store(nullptr, std::memory_order_release);
    }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

   private:
    HazardRow& row_;
  };

  // Null: all are taken. `object` is protected by `reads`.
  std::atomic<uintptr_t>* TryPin(const void* object) {
    for (std::atomic<uintptr_t>& pin : pins) {
      // Acquire: what the last owner did, perhaps on another thread, happens before what a remover does that sees this.
      if (pin.load(std::memory_order_acquire) != 0) continue;
      pin.store(reinterpret_cast<uintptr_t>(object), std::memory_order_release);
      return &pin;
    }
    return nullptr;
  }

  // False: it had been handed over, and the caller has a count to give back.
  static bool Unpin(std::atomic<uintptr_t>& pin) {
    return (pin.exchange(0, std::memory_order_acq_rel) & kHandedOver) == 0;
  }

  std::atomic<const void*> caller{nullptr};
  std::atomic<const void*> reads{nullptr};
  std::array<std::atomic<uintptr_t>, kPins> pins{};
};

namespace hazard_row_detail {
extern constinit HazardRow rows[kMaxThreadSlots];
}  // namespace hazard_row_detail

// Of the thread that has the slot. Null: there is none for it, and the thread must not read without a lock.
inline HazardRow* HazardRowOf(uint32_t slot) {
  return slot < kMaxThreadSlots ? &hazard_row_detail::rows[slot] : nullptr;
}
inline HazardRow* ThisHazardRow() { return HazardRowOf(ThisThreadSlot()); }

// Of all threads that may have begun a read before the caller's last HeavyFence().
std::span<HazardRow> HazardRows();

// Until no thread is in a Read of `object`; the caller sees to it that none begins. Yields meanwhile.
void AwaitReads(const void* object);

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_HAZARD_ROW_H_

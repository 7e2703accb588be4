#ifndef STOCKADE_BASE_HAZARD_ROW_H_
#define STOCKADE_BASE_HAZARD_ROW_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/export.h"
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

  // A read of what `object` has; `object` must not be destroyed meanwhile. One a thread at a time. Or none.
  class Read {
   public:
    Read() = default;
    Read(HazardRow& row, const void* object) : row_(&row) { LightStore(row.caller, object); }
    // Goes on with one that was released.
    explicit Read(HazardRow* open) : row_(open) {}
    [[gnu::always_inline]] ~Read() { End(); }
    Read(Read&& other) noexcept : row_(other.Release()) {}
    Read& operator=(Read&&) = delete;

    // `row` is ThisLightRow().
    [[gnu::always_inline]] static Read Light(HazardRow& row, const void* object) {
      InlineLightStore(row.caller, object);
      return Read(&row);
    }

    HazardRow* row() const { return row_; }
    // Leaves the read open, for whoever takes it.
    [[nodiscard]] HazardRow* Release() { return std::exchange(row_, nullptr); }
    // The thread may read anew from then on.
    [[gnu::always_inline]] void End() {
      if (row_ == nullptr) return;
      row_->reads.store(nullptr, std::memory_order_release);
      row_->caller.store(nullptr, std::memory_order_release);
      row_ = nullptr;
    }

   private:
    HazardRow* row_ = nullptr;
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
STOCKADE_EXPORT extern constinit HazardRow rows[kMaxThreadSlots];
// Set with the thread's slot, and null again once that is given back.
STOCKADE_EXPORT extern constinit thread_local HazardRow* light_row;
}  // namespace hazard_row_detail

// The calling thread's. Null: there is none for it, and it must not read without a lock.
inline HazardRow* ThisHazardRow() {
  const uint32_t slot = ThisThreadSlot();
  return slot < kMaxThreadSlots ? &hazard_row_detail::rows[slot] : nullptr;
}

// The same by one load, of a thread that has called that before, where InlineLightStoreWorks(). Else, and in a forked
// child, null.
inline HazardRow* ThisLightRow() { return hazard_row_detail::light_row; }

// Of all threads that may have begun a read before the caller's last HeavyFence().
STOCKADE_EXPORT std::span<HazardRow> HazardRows();

// Until no thread is in a Read of `object`; the caller sees to it that none begins. Yields meanwhile.
STOCKADE_EXPORT void AwaitReads(const void* object);

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_HAZARD_ROW_H_

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
#include "stockade/base/floors.h"
#include "stockade/base/thread_slot.h"

namespace stockade::base_internal {

// The shared objects that one thread uses without a lock: hazard pointers (Michael, IEEE TPDS 2004) and pins. The order
// between a reader's store and its second check comes from the remover's fence (asymmetric_fence.h). A pin lives longer
// than a read and may be passed to another thread.
//
//   reader:  LightStore(row.reads, p);  check that p is still where it was found;  use p;  row.reads = null
//   remover: remove p (seq_cst);  HeavyFence();  for all rows: if p is in `reads`, free it later; otherwise free it now
//
// Invariants: `caller` and `reads` are written by the thread that has the slot, and are null outside of a read. That
// thread sets a pin, from zero, while `reads` protects the object. A remover that checks `reads` first and the pins
// afterwards therefore misses none. The owner of a pin clears it, on any thread.
struct alignas(64) HazardRow {
  static constexpr size_t kPins = 6;
  // Flag in a pin: the pin has been handed over, and its owner has a reference count instead. Pinned objects have even
  // addresses.
  static constexpr uintptr_t kHandedOver = 1;

  // A read of data that belongs to `object`, which must not be destroyed meanwhile. A thread has at most one. May be
  // empty.
  class Read {
   public:
    Read() = default;
    Read(HazardRow& row, const void* object) : row_(&row) { LightStore(row.caller, object); }
    // Continues a read that Release() left open.
    explicit Read(HazardRow* open) : row_(open) {}
    [[gnu::always_inline]] ~Read() { End(); }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;

    // `row` is ThisLightRow().
    [[gnu::always_inline]] static Read Light(HazardRow& row, const void* object) {
      InlineLightStore(row.caller, object);
      return Read(&row);
    }

    HazardRow* row() const { return row_; }
    // Leaves the read open; the caller passes the row to another Read.
    [[nodiscard]] HazardRow* Release() { return std::exchange(row_, nullptr); }
    // Ends the read. The thread may start another one afterwards.
    [[gnu::always_inline]] void End() {
      if (row_ == nullptr) return;
      row_->reads.store(nullptr, std::memory_order_release);
      row_->caller.store(nullptr, std::memory_order_release);
      row_ = nullptr;
    }

   private:
    HazardRow* row_ = nullptr;
  };

  // Returns null if all pins are in use. `object` must be protected by `reads`.
  std::atomic<uintptr_t>* TryPin(const void* object) {
    for (std::atomic<uintptr_t>& pin : pins) {
      // Acquire: what the previous owner did, perhaps on another thread, happens before what a remover does that sees
      // this pin.
      if (pin.load(std::memory_order_acquire) != 0) continue;
      pin.store(reinterpret_cast<uintptr_t>(object), std::memory_order_release);
      return &pin;
    }
    return nullptr;
  }

  // Returns false if the pin had been handed over; the caller then has a reference count to give back.
  static bool Unpin(std::atomic<uintptr_t>& pin) {
    return (pin.exchange(0, std::memory_order_acq_rel) & kHandedOver) == 0;
  }

  std::atomic<const void*> caller{nullptr};
  std::atomic<const void*> reads{nullptr};
  std::array<std::atomic<uintptr_t>, kPins> pins{};
};

namespace hazard_row_detail {
STOCKADE_EXPORT extern constinit HazardRow rows[kMaxThreadSlots];
// Set together with the thread's slot, and null again after the slot is returned.
STOCKADE_EXPORT extern constinit thread_local HazardRow* light_row;
}  // namespace hazard_row_detail

// The calling thread's row. Null if the thread has none; it must not read without a lock then.
inline HazardRow* ThisHazardRow() {
  const uint32_t slot = ThisThreadSlot();
  return slot < kMaxThreadSlots ? &hazard_row_detail::rows[slot] : nullptr;
}

// Like ThisHazardRow(), by one load, for a thread that has called that before, if InlineLightStoreWorks(). Otherwise,
// and in a forked child, null.
inline HazardRow* ThisLightRow() { return hazard_row_detail::light_row; }

// The rows of all threads that may have begun a read before the caller's last HeavyFence().
STOCKADE_EXPORT std::span<HazardRow> HazardRows();

// Waits until no thread is in a Read of `object`, and yields meanwhile. The caller ensures that no new one begins.
STOCKADE_EXPORT void AwaitReads(const void* object);

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_HAZARD_ROW_H_

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
// thread sets a pin, from null, while `reads` protects the object. A remover that checks `reads` first and the pins
// afterwards therefore misses none. The owner of a pin clears it, on any thread.
//
// A remover that frees a pinned object hands the pin over: its owner gets a reference count instead.
//
//   owner:   LightStore(pin.object, null);  if pin.gift is set, exchange it for null; who gets it gives the count back
//   remover: count; gift = p, from null;  HeavyFence();  if the pin still has p, confirm the gift; otherwise take it
//   back
//
// A gift has a count of its object, which belongs to the thread that takes the gift out. If the remover still sees the
// pin after its fence, its owner will see the gift. Then it is confirmed, and removers do not take it back.
struct alignas(64) HazardRow {
  static constexpr size_t kPins = 6;
  // Flag in a gift. Pinned objects have even addresses.
  static constexpr uintptr_t kConfirmed = 1;

  struct Pin {
    std::atomic<const void*> object{nullptr};
    std::atomic<uintptr_t> gift{0};  // The object that was handed over, perhaps with kConfirmed.
  };

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
  Pin* TryPin(const void* object) {
    for (Pin& pin : pins) {
      // Acquire: what the previous owner did, perhaps on another thread, happens before what a remover does that sees
      // this pin.
      const bool taken = pin.object.load(std::memory_order_acquire) != nullptr;
      if (taken || pin.gift.load(std::memory_order_relaxed) != 0) continue;
      pin.object.store(object, std::memory_order_release);
      return &pin;
    }
    return nullptr;
  }

  // Returns the object of which the caller has to give back a reference count, because the pin had been handed over.
  // Null: none.
  static const void* Unpin(Pin& pin) {
    LightStore(pin.object, static_cast<const void*>(nullptr));
    if (pin.gift.load(std::memory_order_seq_cst) == 0) [[likely]] {
      return nullptr;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address is stored together with a flag in an integer.
    return reinterpret_cast<const void*>(pin.gift.exchange(0, std::memory_order_acq_rel) & ~kConfirmed);
  }

  // For a remover that sees `object` in the pin and has a count of it for the gift. Returns false if another remover is
  // between Offer() and Confirm().
  static bool Offer(Pin& pin, const void* object) {
    uintptr_t none = 0;
    return pin.gift.compare_exchange_strong(none, reinterpret_cast<uintptr_t>(object), std::memory_order_seq_cst);
  }
  static bool IsHandedOver(const Pin& pin, const void* object) {
    return pin.gift.load(std::memory_order_acquire) == (reinterpret_cast<uintptr_t>(object) | kConfirmed);
  }
  enum class Offered {
    kHandedOver,
    kUnpinned,   // The pin's owner has left, and has the gift or none.
    kTakenBack,  // The same, and the caller has the count again.
    kUnknown,    // Another thread has taken the gift, so the pin may have none: offer one again.
  };
  // After a HeavyFence().
  static Offered Confirm(Pin& pin, const void* object) {
    uintptr_t gift = reinterpret_cast<uintptr_t>(object);
    if (pin.object.load(std::memory_order_seq_cst) != object) {
      const bool taken = pin.gift.compare_exchange_strong(gift, 0, std::memory_order_acq_rel);
      return taken ? Offered::kTakenBack : Offered::kUnpinned;
    }
    const bool confirmed = pin.gift.compare_exchange_strong(gift, gift | kConfirmed, std::memory_order_acq_rel);
    return confirmed ? Offered::kHandedOver : Offered::kUnknown;
  }

  std::atomic<const void*> caller{nullptr};
  std::atomic<const void*> reads{nullptr};
  std::array<Pin, kPins> pins{};
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

#ifndef STOCKADE_BASE_THREAD_SLOT_H_
#define STOCKADE_BASE_THREAD_SLOT_H_

#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

// A small number that belongs to one running thread, used as an index into per-thread cells. A thread gets the lowest
// free number and returns it when it ends, so numbers stay dense and two running threads never share one. A thread with
// a slot has called InitAsymmetricFence(). Reuse of a slot synchronizes: the previous owner's writes happen before the
// next owner's reads.
//
// kNoSlot means that the thread has no slot, because more than kMaxThreadSlots threads run or because its thread_local
// objects have been destroyed. Such callers use a shared cell with read-modify-writes.
inline constexpr uint32_t kMaxThreadSlots = 1024;
inline constexpr uint32_t kNoSlot = UINT32_MAX;

namespace thread_slot_detail {
inline constexpr uint32_t kUnassigned = UINT32_MAX - 1;
STOCKADE_EXPORT extern constinit thread_local uint32_t slot;
STOCKADE_EXPORT uint32_t Assign();
}  // namespace thread_slot_detail

// The calling thread's slot. A thread's first call locks a mutex; later ones are one load of a thread_local.
inline uint32_t ThisThreadSlot() {
  const uint32_t slot = thread_slot_detail::slot;
  if (slot != thread_slot_detail::kUnassigned) [[likely]] {
    return slot;
  }
  return thread_slot_detail::Assign();
}

// Like ThisThreadSlot(), by one load. For a thread that has not called that before, the result is at least
// kMaxThreadSlots.
inline uint32_t ThisThreadSlotIfAny() { return thread_slot_detail::slot; }

// An upper bound (exclusive) of all slots that are or were in use. A thread raises it (seq_cst) before its first
// ThisThreadSlot() returns.
STOCKADE_EXPORT uint32_t ThreadSlotsUsed();

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_THREAD_SLOT_H_

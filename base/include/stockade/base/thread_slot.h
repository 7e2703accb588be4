#ifndef STOCKADE_BASE_THREAD_SLOT_H_
#define STOCKADE_BASE_THREAD_SLOT_H_

#include <cstdint>

#include "stockade/base/export.h"

namespace stockade::internal {

// A small number that belongs to one running thread: an index into per-thread cells. The lowest free number is given
// out, and comes back when the thread ends, so numbers stay dense as threads come and go and two running threads never
// share one. A thread that has one has called InitAsymmetricFence(). Handing a slot on synchronizes: what the old owner
// wrote happens before what the new one reads.
//
// kNoSlot means that the thread has none: more than kMaxThreadSlots threads run, or the thread is past the destruction
// of its thread_locals. Such callers use a shared cell with read-modify-writes.
inline constexpr uint32_t kMaxThreadSlots = 1024;
inline constexpr uint32_t kNoSlot = UINT32_MAX;

namespace thread_slot_detail {
inline constexpr uint32_t kUnassigned = UINT32_MAX - 1;
STOCKADE_EXPORT extern constinit thread_local uint32_t slot;
STOCKADE_EXPORT uint32_t Assign();
}  // namespace thread_slot_detail

// The calling thread's slot. The first call of a thread takes a mutex; later ones are one load of a thread_local.
inline uint32_t ThisThreadSlot() {
  const uint32_t slot = thread_slot_detail::slot;
  if (slot != thread_slot_detail::kUnassigned) [[likely]] {
    return slot;
  }
  return thread_slot_detail::Assign();
}

// The same by one load; of a thread that has not called that, it is not below kMaxThreadSlots.
inline uint32_t ThisThreadSlotIfAny() { return thread_slot_detail::slot; }

// All slots that are or were taken are below it. A thread has raised it (seq_cst) before its first ThisThreadSlot()
// returns.
STOCKADE_EXPORT uint32_t ThreadSlotsUsed();

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_THREAD_SLOT_H_

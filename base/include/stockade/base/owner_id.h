#ifndef STOCKADE_BASE_OWNER_ID_H_
#define STOCKADE_BASE_OWNER_ID_H_

#include <cstdint>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade {

// Identifies the owner of a lock: a 64-bit number that is never reused within the process. Zero means no owner.
using OwnerId = uint64_t;
inline constexpr OwnerId kNoOwner = 0;

// Returns a new id, for an owner that is not a thread (a task, a coroutine).
STOCKADE_EXPORT OwnerId NewOwnerId();

namespace base_internal::owner_id_detail {
STOCKADE_EXPORT extern constinit thread_local OwnerId this_thread;
STOCKADE_EXPORT OwnerId AssignToThisThread();
}  // namespace base_internal::owner_id_detail

// The calling thread's id, assigned by its first call. Unlike a pthread_t or a slot it is never assigned to another
// thread. Usable in destructors of thread_local objects. Costs one load of a thread_local.
inline OwnerId ThisThreadOwnerId() {
  const OwnerId id = base_internal::owner_id_detail::this_thread;
  if (id != kNoOwner) [[likely]] {
    return id;
  }
  return base_internal::owner_id_detail::AssignToThisThread();
}

}  // namespace stockade

#endif  // STOCKADE_BASE_OWNER_ID_H_

#include "stockade/base/owner_id.h"

#include <atomic>

namespace stockade {

OwnerId NewOwnerId() {
  // Relaxed: only uniqueness is asked for, and a read-modify-write gives each caller its own value.
  static constinit std::atomic<OwnerId> next{kNoOwner + 1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

namespace base_internal::owner_id_detail {

constinit thread_local OwnerId this_thread = kNoOwner;

OwnerId AssignToThisThread() { return this_thread = NewOwnerId(); }

}  // namespace base_internal::owner_id_detail
}  // namespace stockade

#include "stockade/locks/reentrant_shared_mutex.h"

#include "stockade/base/log.h"

namespace stockade {

std::shared_lock<ReentrantSharedMutex> Downgrade(std::unique_lock<ReentrantSharedMutex>&& held) {
  if (!held.owns_lock()) base_internal::Fatal("Downgrade() of a std::unique_lock that owns no ReentrantSharedMutex");
  held.mutex()->downgrade();
  return std::shared_lock(*held.release(), std::adopt_lock);
}

std::unique_lock<ReentrantSharedMutex> TryUpgrade(std::shared_lock<ReentrantSharedMutex>&& held) {
  if (!held.owns_lock()) base_internal::Fatal("TryUpgrade() of a std::shared_lock that owns no ReentrantSharedMutex");
  if (!held.mutex()->try_upgrade()) return {};
  return std::unique_lock(*held.release(), std::adopt_lock);
}

}  // namespace stockade

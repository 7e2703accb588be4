#include "hold.h"

#include <string_view>

#include "shown_lock.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {

bool LeaseState::IsLost() const {
  const MutexLock lock(hold->mutex);
  return hold->loss.has_value() && !released.load(std::memory_order_relaxed);
}

bool LeaseState::LossIsLogged() const {
  const MutexLock lock(hold->mutex);
  return hold->loss == LossReason::kExpired || hold->loss == LossReason::kGone;
}

void LeaseState::TellLost() {
  {
    const MutexLock lock(mutex);
    if (released.load(std::memory_order_relaxed)) return;
    telling = std::this_thread::get_id();
  }
  lost_source.request_stop();
  std::vector<Executor::Task> after;
  {
    const MutexLock lock(mutex);
    telling.reset();
    after.swap(after_telling);
  }
  told.NotifyAll();
  for (Executor::Task& task : after) std::move(task)();
}

bool LeaseState::MarkReleased() {
  const MutexLock lock(mutex);
  return !released.exchange(true, std::memory_order_relaxed);
}

void LeaseState::AwaitTold() {
  const MutexLock lock(mutex);
  while (telling && *telling != std::this_thread::get_id()) told.Wait(mutex);
}

bool LeaseState::RunOnceTold(Executor::Task& task) {
  const MutexLock lock(mutex);
  if (!telling) return false;
  after_telling.push_back(std::move(task));
  return true;
}

absl::Status LostError(const HoldKey& key, LossReason reason) {
  std::string_view why;
  switch (reason) {
    case LossReason::kExpired: why = "its time was over before it was renewed or released"; break;
    case LossReason::kGone:
      why =
          "the engine no longer has it: it was force-released, the engine lost it, or an application has written into "
          "its key";
      break;
    case LossReason::kServiceEnded: why = "its service was destroyed"; break;
    case LossReason::kReleasedAll: why = "its service released all leases"; break;
  }
  return absl::FailedPreconditionError(Concat(ShownLock(key.name), " (", LockKindName(key.kind), ") was lost: ", why));
}

}  // namespace stockade::locks_internal

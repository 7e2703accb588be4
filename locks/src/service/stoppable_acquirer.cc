#include "stoppable_acquirer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "stockade/base/start_thread.h"

namespace stockade::locks_internal {
namespace {

// An engine that answers lets the acquire end within this time, and its place in a queue is given up then.
constexpr std::chrono::milliseconds kGrace(20);

}  // namespace

absl::StatusOr<LockLease> StoppableAcquirer::Run(const std::stop_token& stop, const absl::Status& cancelled,
                                                 const Acquire& acquire) {
  const auto call = std::make_shared<Call>();
  std::thread thread;
  if (!StartThread(thread, [call, acquire] { RunCall(*call, acquire); }).ok()) return acquire();
  const MutexLock lock(call->mutex);
  const auto has_outcome = [&call]() STOCKADE_REQUIRES(call->mutex) { return call->outcome.has_value(); };
  if (!call->returned.wait(call->mutex, stop, has_outcome) &&
      !call->returned.wait_for(call->mutex, kGrace, has_outcome)) {
    call->left = true;
    const MutexUnlock unlocked(call->mutex);
    Leave(call, std::move(thread));
    return cancelled;
  }
  absl::StatusOr<LockLease> outcome = *std::move(call->outcome);
  const MutexUnlock unlocked(call->mutex);
  thread.join();
  return outcome;
}

void StoppableAcquirer::RunCall(Call& call, const Acquire& acquire) {
  absl::StatusOr<LockLease> outcome = acquire();
  {
    const MutexLock lock(call.mutex);
    if (!call.left) call.outcome = std::move(outcome);
  }
  call.returned.notify_all();
  outcome = absl::CancelledError();  // Releases what nobody waits for.
  const MutexLock lock(call.mutex);
  call.ended = true;
}

void StoppableAcquirer::Leave(std::shared_ptr<Call> call, std::thread thread) {
  std::vector<Left> ended;
  {
    const MutexLock lock(mutex_);
    left_.push_back({std::move(call), std::move(thread)});
    const auto runs = [](const Left& left) {
      const MutexLock call_lock(left.call->mutex);
      return !left.call->ended;
    };
    const auto first_ended = std::stable_partition(left_.begin(), left_.end(), runs);
    ended.assign(std::make_move_iterator(first_ended), std::make_move_iterator(left_.end()));
    left_.erase(first_ended, left_.end());
  }
  for (Left& left : ended) left.thread.join();
}

void StoppableAcquirer::Stop() {
  std::vector<Left> left;
  {
    const MutexLock lock(mutex_);
    left = std::exchange(left_, {});
  }
  for (Left& one : left) one.thread.join();
}

}  // namespace stockade::locks_internal

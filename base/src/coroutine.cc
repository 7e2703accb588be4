#include "stockade/base/coroutine.h"

#include <cstddef>
#include <new>
#include <string>

#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/base/unknown_outcome.h"

namespace stockade::base_internal {
namespace {

constexpr std::string_view kStopped = ": the stop was requested";
constexpr std::string_view kLate = ": the deadline has passed";

// For the deadlines of all calls. Never destroyed: coroutines may wait at exit.
TimerQueue& Timers() {
  static TimerQueue& timers = *new TimerQueue(Clock::System());
  return timers;
}

}  // namespace

// Without memory of the heap: a hit names it, and hits need none.
InlineExecutor& CallbackExecutor() {
  alignas(InlineExecutor) static std::byte storage[sizeof(InlineExecutor)];
  static InlineExecutor& executor = *new (storage) InlineExecutor;
  return executor;
}

struct PendingCall::ResumeTask {
  explicit ResumeTask(std::shared_ptr<PendingCall> pending) : call(std::move(pending)) {}
  ResumeTask(ResumeTask&&) noexcept = default;
  ~ResumeTask() {
    if (call != nullptr) call->Dropped();
  }

  void operator()() {
    if (const std::shared_ptr<PendingCall> waiting = std::exchange(call, nullptr)) waiting->Resume();
  }

  std::shared_ptr<PendingCall> call;
};

void PendingCall::OnStop::operator()() const noexcept {
  // What this does may destroy it.
  if (const std::shared_ptr<PendingCall> waiting = call.lock())
    waiting->EndWait(absl::StatusCode::kCancelled, kStopped);
}

absl::Status PendingCall::MayBegin() const {
  if (on_.stop.stop_requested()) return Ended(absl::StatusCode::kCancelled, kStopped, false);
  if (on_.deadline == Instant::InfiniteFuture()) return absl::OkStatus();
  if (Clock::System()->Now() >= on_.deadline) return Ended(absl::StatusCode::kDeadlineExceeded, kLate, false);
  return Timers().Start();
}

void PendingCall::Watch() noexcept {
  try {
    if (on_.stop.stop_possible()) on_stop_.emplace(on_.stop, OnStop{weak_from_this()});
    if (on_.deadline == Instant::InfiniteFuture()) return;
    const TimerQueue::Id timer = Timers().Schedule(on_.deadline, [weak = weak_from_this()] {
      if (const std::shared_ptr<PendingCall> call = weak.lock())
        call->EndWait(absl::StatusCode::kDeadlineExceeded, kLate);
    });
    {
      const MutexLock lock(mutex_);
      if (TakesAnswer()) {
        timer_ = timer;
        return;
      }
    }
    Timers().Cancel(timer);
  } catch (...) {  // std::bad_alloc.
    EndWait(absl::StatusCode::kResourceExhausted, ": there is no memory to watch its deadline");
  }
}

void PendingCall::EndTimer() {
  std::optional<TimerQueue::Id> timer;
  {
    const MutexLock lock(mutex_);
    timer.swap(timer_);
  }
  if (timer.has_value()) Timers().Cancel(*timer);
}

absl::Status PendingCall::Ended(absl::StatusCode code, std::string_view why, bool begun) const noexcept {
  if (begun && !call_.unknown.empty()) {
    return StatusOfUnknownOutcome(code, [&] { return Concat(call_.name, why, "; ", call_.unknown); });
  }
  return StatusWithText(code,
                        [&] { return Concat(call_.name, why, call_.unknown.empty() ? "" : "; nothing has changed"); });
}

void PendingCall::EndWait(absl::StatusCode code, std::string_view why) noexcept {
  {
    const MutexLock lock(mutex_);
    if (!TakesAnswer()) return;
  }
  AnswerWith(Ended(code, why, true));  // The call may answer it first.
  stop_.request_stop();
}

void PendingCall::CallbackDropped() noexcept {
  EndWait(absl::StatusCode::kResourceExhausted, ": an executor destroyed the answer");
}

void PendingCall::Suspend(std::coroutine_handle<> frame) {
  const std::shared_ptr<PendingCall> self = shared_from_this();
  {
    const MutexLock lock(mutex_);
    frame_ = frame;
    if (!BeginScheduling()) return;
  }
  Schedule();
}

bool PendingCall::BeginScheduling() {
  if (!answered_ || frame_ == nullptr) return false;
  scheduler_ = std::this_thread::get_id();
  return true;
}

void PendingCall::Answered(bool awaited) {
  EndTimer();
  if (awaited) Schedule();
}

void PendingCall::Leave(std::shared_ptr<PendingCall> call) {
  if (call->fork_.InForkedChild()) {
    // It is the parent's, and what it needs for its end is not here.
    new (std::nothrow) std::shared_ptr<PendingCall>(std::move(call));
    return;
  }
  call->LeaveNow();
}

void PendingCall::LeaveNow() {
  {
    const MutexLock lock(mutex_);
    if (resumed_) Fatal(Concat(call_.name, ": a coroutine was destroyed while another thread resumes it"));
    left_ = true;
    while (scheduler_.has_value() && *scheduler_ != std::this_thread::get_id()) unscheduled_.Wait(mutex_);
  }
  EndTimer();
  stop_.request_stop();
  Discard();
}

void PendingCall::Schedule() {
  const std::shared_ptr<PendingCall> self = shared_from_this();
  bool accepted = true;
  try {
    on_.executor.Schedule(ResumeTask(self));
  } catch (...) {
    accepted = false;
  }
  bool dropped = false;
  {
    const MutexLock lock(mutex_);
    scheduler_.reset();
    scheduled_ = accepted;
    dropped = accepted && dropped_;
    unscheduled_.NotifyAll();
  }
  if (dropped) Discard();
  if (accepted) return;
  Log(LogSeverity::kError, "an executor threw; a coroutine goes on where the answer of its call is");
  const absl::Status ran = GuardCallback<absl::Status>("a coroutine", [&] {
    Resume();
    return absl::OkStatus();
  });
  if (!ran.ok()) Log(LogSeverity::kError, std::string(ran.message()));
}

void PendingCall::Resume() {
  std::coroutine_handle<> frame;
  {
    const MutexLock lock(mutex_);
    if (left_ || resumed_) return;
    resumed_ = true;
    frame = frame_;
  }
  frame.resume();
}

// An executor that throws destroys the task, too, and then the frame is resumed all the same: so the answer is kept
// until the executor has accepted the task.
void PendingCall::Dropped() {
  {
    const MutexLock lock(mutex_);
    if (left_ || resumed_) return;
    dropped_ = true;
    if (!scheduled_) return;
  }
  Discard();
}

void PendingCall::AwaitedTwice() { Fatal("an awaitable of Stockade was awaited twice"); }

}  // namespace stockade::base_internal

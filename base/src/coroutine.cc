#include "stockade/base/coroutine.h"

#include <cstddef>
#include <new>
#include <string>

#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {
namespace {

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

  void operator()() { std::exchange(call, nullptr)->Resume(); }

  std::shared_ptr<PendingCall> call;
};

void PendingCall::OnStop::operator()() const noexcept {
  // What this does may destroy it.
  if (const std::shared_ptr<PendingCall> waiting = call.lock()) waiting->GiveUp(absl::StatusCode::kCancelled);
}

absl::Status PendingCall::MayBegin() const {
  if (on_.stop.stop_requested()) return Late(absl::StatusCode::kCancelled, false);
  if (on_.deadline == Instant::InfiniteFuture()) return absl::OkStatus();
  if (Clock::System()->Now() >= on_.deadline) return Late(absl::StatusCode::kDeadlineExceeded, false);
  return Timers().Start();
}

void PendingCall::Watch() noexcept {
  try {
    if (on_.stop.stop_possible()) on_stop_.emplace(on_.stop, OnStop{weak_from_this()});
    if (on_.deadline == Instant::InfiniteFuture()) return;
    const TimerQueue::Id timer = Timers().Schedule(on_.deadline, [weak = weak_from_this()] {
      if (const std::shared_ptr<PendingCall> call = weak.lock()) call->GiveUp(absl::StatusCode::kDeadlineExceeded);
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
    GiveUp(absl::StatusCode::kResourceExhausted);
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

absl::Status PendingCall::Late(absl::StatusCode code, bool begun) const noexcept {
  return StatusWithText(code, [&] {
    const std::string_view why = code == absl::StatusCode::kCancelled          ? ": the stop was requested"
                                 : code == absl::StatusCode::kDeadlineExceeded ? ": the deadline has passed"
                                                                               : ": there is no memory to wait";
    std::string text = Concat(call_.name, why);
    if (!call_.unknown.empty()) text += begun ? Concat("; ", call_.unknown) : "; nothing has changed";
    return text;
  });
}

void PendingCall::GiveUp(absl::StatusCode code) noexcept {
  {
    const MutexLock lock(mutex_);
    if (!TakesAnswer()) return;
  }
  AnswerWith(Late(code, true));  // The call may answer it first.
  stop_.request_stop();
}

void PendingCall::Suspend(std::coroutine_handle<> frame) {
  const std::shared_ptr<PendingCall> self = shared_from_this();
  {
    const MutexLock lock(mutex_);
    frame_ = frame;
    if (!answered_) return;
  }
  Schedule();
}

void PendingCall::Answered(bool awaited) {
  EndTimer();
  if (awaited) Schedule();
}

void PendingCall::Leave() {
  {
    const MutexLock lock(mutex_);
    if (resumed_) Fatal(Concat(call_.name, ": a coroutine was destroyed while another thread resumes it"));
    left_ = true;
  }
  EndTimer();
  stop_.request_stop();
  Discard();
}

void PendingCall::Schedule() {
  const std::shared_ptr<PendingCall> self = shared_from_this();
  try {
    on_.executor.Schedule(ResumeTask(self));
  } catch (...) {
    Log(LogSeverity::kError, "an executor threw; a coroutine goes on where the answer of its call is");
    const absl::Status ran = GuardCallback<absl::Status>("a coroutine", [&] {
      Resume();
      return absl::OkStatus();
    });
    if (!ran.ok()) Log(LogSeverity::kError, std::string(ran.message()));
    return;
  }
  {
    const MutexLock lock(mutex_);
    scheduled_ = true;
    if (!dropped_) return;
  }
  Discard();
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

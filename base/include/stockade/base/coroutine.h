#ifndef STOCKADE_BASE_COROUTINE_H_
#define STOCKADE_BASE_COROUTINE_H_

// The part that stockade/cache/coroutine.h, stockade/locks/coroutine.h and stockade/inventory/coroutine.h share. Apart
// from stockade/asio/, no other header of the library needs <coroutine>.
#include <concepts>
#include <coroutine>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"

namespace stockade {

// The executor on which a coroutine goes on after a call, and how long it waits for one. Every call copies it, so one
// object serves a whole request:
//
//   const AwaitOn on(executor, request.stop_token(), Clock::System()->Now() + absl::Milliseconds(300));
//   const absl::StatusOr<Handle> page = co_await GetAwait(pages, id, on);
//
// A coroutine that waits is resumed by executor.Schedule(), and so on a thread of that executor. If Schedule() throws,
// it is resumed on the thread that has the answer, which is logged; so it is with an InlineExecutor, which is for tests
// only, because that thread is the library's. If the executor destroys the task without running it, the coroutine stays
// suspended, and what the call had acquired for it is given back. (On its way the answer may pass another executor,
// such as LockServiceOptions::executor, for which its own header holds. If that one destroys it, the call is
// ResourceExhausted.)
//
// A coroutine may be destroyed while it waits, by the thread that would resume it, or before the executor runs the
// task. Then the call is left as if the stop had been requested. It must not be destroyed by another thread while it is
// being resumed (aborts if the call has not returned yet). Afterwards nobody uses the executor for it any more: if a
// thread is about to resume it, its destruction waits until executor.Schedule() has returned there, so do not destroy
// it while you hold a lock that Schedule() takes. In a forked child, destroying it does nothing else, and no
// call may be made.
//
// A call begins on the coroutine's thread, which it blocks for as long as the call with a callback would: for short
// locks only, unless its header says otherwise.
//
// A class with a constructor, because g++ 12 destroys an aggregate twice that is made within a co_await expression.
struct AwaitOn {
  // NOLINTNEXTLINE(google-explicit-constructor): for {executor, stop}.
  AwaitOn(Executor& executor_in, std::stop_token stop_in = {}, Instant deadline_in = Instant::InfiniteFuture())
      : executor(executor_in), stop(std::move(stop_in)), deadline(deadline_in) {}

  // The same, until the earlier of the two deadlines.
  AwaitOn By(Instant earlier) const { return {executor, stop, earlier < deadline ? earlier : deadline}; }

  Executor& executor;    // Must outlive the calls.
  std::stop_token stop;  // A call that waits is answered with Cancelled at once.
  Instant deadline;      // On Clock::System(). A call that waits is then answered with DeadlineExceeded at once.
};

namespace base_internal {

// The call, for messages.
struct AwaitedCall {
  std::string_view name;
  // For the caller, if it ends early; empty if it has no effect then.
  std::string_view unknown;
};

// An executor for callbacks of calls below an awaiter: these only pass the answer on.
STOCKADE_EXPORT InlineExecutor& CallbackExecutor();

// A call for which a coroutine waits. The awaiter in the coroutine's frame, the callback of the call, and the task that
// resumes the frame share it, so it may outlive the frame. Thread-safe.
//
// The first answer counts: that of the call, or of the stop, or of the deadline.
//
// Invariants: only the task that has set resumed_ touches the frame, and it sets that only if left_ is false. An answer
// that came is either given to the frame, or discarded by the one who sets left_ or loses the task: no lease waits
// where nobody takes it.
class STOCKADE_EXPORT PendingCall : public std::enable_shared_from_this<PendingCall> {
 public:
  PendingCall(const AwaitedCall& call, const AwaitOn& on) : call_(call), on_(on) {}
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;
  virtual ~PendingCall() = default;

  // Requested once nobody waits for the call any more.
  std::stop_token stop() const { return stop_.get_token(); }

  // Before the call begins. Cancelled, DeadlineExceeded: it must not begin any more. ResourceExhausted: its deadline
  // would not be noticed.
  absl::Status MayBegin() const;
  // Once it has begun: from here on the stop and the deadline answer it.
  void Watch() noexcept;
  // By the awaiter, once. The frame may be resumed, and gone, before this returns.
  void Suspend(std::coroutine_handle<> frame) STOCKADE_EXCLUDES(mutex_);
  // By the awaiter's end, if it has not taken the answer.
  static void Leave(std::shared_ptr<PendingCall> call);
  // By the end of the callback, if it has not been called.
  void CallbackDropped() noexcept;

  [[noreturn]] static void AwaitedTwice();

 protected:
  // False: the answer that is to be stored comes too late.
  bool TakesAnswer() const STOCKADE_REQUIRES(mutex_) { return !answered_ && !left_; }
  // An answer is being stored. Whether a frame waits for it, which Answered() is then told.
  bool MarkAnswered() STOCKADE_REQUIRES(mutex_) {
    answered_ = true;
    return BeginScheduling();
  }
  void Answered(bool awaited) STOCKADE_EXCLUDES(mutex_);
  virtual void AnswerWith(absl::Status status) STOCKADE_EXCLUDES(mutex_) = 0;
  virtual void Discard() STOCKADE_EXCLUDES(mutex_) = 0;

  Mutex mutex_;

 private:
  struct OnStop {
    std::weak_ptr<PendingCall> call;
    void operator()() const noexcept;
  };
  struct ResumeTask;

  void EndWait(absl::StatusCode code, std::string_view why) noexcept;
  absl::Status Ended(absl::StatusCode code, std::string_view why, bool begun) const noexcept;
  void LeaveNow() STOCKADE_EXCLUDES(mutex_);
  // True: there are a frame and an answer, and this thread is to call Schedule().
  bool BeginScheduling() STOCKADE_REQUIRES(mutex_);
  void Schedule() STOCKADE_EXCLUDES(mutex_);
  void Resume() STOCKADE_EXCLUDES(mutex_);
  void Dropped() STOCKADE_EXCLUDES(mutex_);
  void EndTimer() STOCKADE_EXCLUDES(mutex_);

  const AwaitedCall call_;
  const AwaitOn on_;
  const ForkGuard fork_;
  std::stop_source stop_;
  // Set before the call may be answered by it, and destroyed with this: so nobody waits for it while it runs.
  std::optional<std::stop_callback<OnStop>> on_stop_;

  std::optional<TimerQueue::Id> timer_ STOCKADE_GUARDED_BY(mutex_);
  std::coroutine_handle<> frame_ STOCKADE_GUARDED_BY(mutex_);  // Null: not suspended.
  bool answered_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool resumed_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool left_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool scheduled_ STOCKADE_GUARDED_BY(mutex_) = false;                    // The executor has accepted the task.
  std::optional<std::thread::id> scheduler_ STOCKADE_GUARDED_BY(mutex_);  // The thread that uses the executor.
  CondVar unscheduled_;                                                   // scheduler_ has become none.
  bool dropped_ STOCKADE_GUARDED_BY(mutex_) = false;                      // The task was destroyed before it ran.
};

template <typename Result>
class PendingResult final : public PendingCall {
 public:
  using PendingCall::PendingCall;

  // On any thread, perhaps within the call. A result that comes too late is destroyed.
  void Answer(Result result) STOCKADE_EXCLUDES(mutex_) {
    bool awaited = false;
    {
      const MutexLock lock(mutex_);
      if (!TakesAnswer()) return;
      result_.emplace(std::move(result));
      awaited = MarkAnswered();
    }
    Answered(awaited);
  }

  Result Take() STOCKADE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return *std::exchange(result_, std::nullopt);
  }

 private:
  void AnswerWith(absl::Status status) override { Answer(std::move(status)); }
  void Discard() override {
    std::optional<Result> unwanted;  // Destroyed without the mutex: it may call the user's code.
    const MutexLock lock(mutex_);
    unwanted.swap(result_);
  }

  std::optional<Result> result_ STOCKADE_GUARDED_BY(mutex_);
};

// The callback of the call. Small enough to need no allocation of its own.
template <typename Result>
class AnswerAwaiter {
 public:
  explicit AnswerAwaiter(std::shared_ptr<PendingResult<Result>> call) : call_(std::move(call)) {}
  AnswerAwaiter(AnswerAwaiter&& other) noexcept = default;
  AnswerAwaiter& operator=(AnswerAwaiter&&) = delete;
  ~AnswerAwaiter() {
    if (call_ != nullptr) call_->CallbackDropped();
  }

  void operator()(Result result) { std::exchange(call_, nullptr)->Answer(std::move(result)); }

 private:
  std::shared_ptr<PendingResult<Result>> call_;
};

// A call that has begun: its answer if that was there at once, or else the call. Awaited once.
template <typename ResultT>
class [[nodiscard("co_await it")]] Awaiter {
 public:
  using Result = ResultT;
  using Pending = PendingResult<Result>;

  // `begin` begins the call: it returns the answer, or nothing and sets its argument. So the answer of a hit is made
  // where it stays.
  template <std::invocable<std::shared_ptr<Pending>&> Begin>
  explicit Awaiter(const Begin& begin) : at_once_(begin(call_)) {}
  Awaiter(Awaiter&& other) noexcept = default;
  Awaiter& operator=(Awaiter&&) = delete;
  ~Awaiter() {
    if (call_ != nullptr) [[unlikely]]
      Leave();
  }

  Awaiter&& operator co_await() && { return std::move(*this); }

  bool await_ready() const noexcept { return at_once_.has_value(); }
  // Not inline: clang 16 may keep locals of it in the frame, which may be gone before it returns (llvm #56301).
  [[gnu::noinline]] void await_suspend(std::coroutine_handle<> frame) {
    const std::shared_ptr<Pending> call = call_;
    if (call == nullptr) PendingCall::AwaitedTwice();
    call->Suspend(frame);
  }
  Result await_resume() {
    if (at_once_.has_value()) [[likely]]
      return *std::move(at_once_);
    const std::shared_ptr<Pending> call = std::move(call_);
    return call->Take();
  }

 private:
  // Not inline, for the sake of hits.
  [[gnu::noinline]] void Leave() { PendingCall::Leave(std::move(call_)); }

  std::shared_ptr<Pending> call_;
  std::optional<Result> at_once_;
};

// The arguments of a call that begins when it is awaited. Start has `Result`, `kCall`, and Begin(stop, done), which may
// throw before it takes `done`.
template <typename Start>
class [[nodiscard("co_await it")]] LazyAwaiter {
 public:
  using Result = typename Start::Result;
  using Pending = PendingResult<Result>;

  LazyAwaiter(Start start, const AwaitOn& on) : start_(std::move(start)), on_(on) {}
  // g++ 12 also moves what operator co_await() returns. After that, this cannot be awaited.
  LazyAwaiter(LazyAwaiter&& other) noexcept
      : start_(std::move(other.start_)), on_(other.on_), begun_(std::exchange(other.begun_, true)) {}
  LazyAwaiter& operator=(LazyAwaiter&&) = delete;
  ~LazyAwaiter() {
    if (call_ != nullptr) PendingCall::Leave(std::move(call_));
  }

  LazyAwaiter&& operator co_await() && { return std::move(*this); }

  bool await_ready() noexcept {
    try {
      call_ = std::make_shared<Pending>(Start::kCall, on_);
    } catch (const std::bad_alloc&) {
      return true;
    }
    return false;
  }
  [[gnu::noinline]] void await_suspend(std::coroutine_handle<> frame) {
    if (begun_) PendingCall::AwaitedTwice();
    begun_ = true;
    const std::shared_ptr<Pending> call = call_;
    Start start = std::move(start_);
    // From here on the frame may be gone.
    call->Suspend(frame);
    Begin(call, start);
  }
  Result await_resume() {
    if (call_ == nullptr) return absl::Status(absl::StatusCode::kResourceExhausted, {});
    const std::shared_ptr<Pending> call = std::move(call_);
    return call->Take();
  }

 private:
  static void Begin(const std::shared_ptr<Pending>& call, Start& start) {
    absl::Status begun = call->MayBegin();
    if (begun.ok()) {
      begun = GuardCallback<absl::Status>(Start::kCall.name, [&]() -> absl::Status {
        try {
          std::move(start).Begin(call->stop(), AnswerAwaiter<Result>(call));
        } catch (const std::bad_alloc&) {
          return absl::Status(absl::StatusCode::kResourceExhausted, {});
        }
        return absl::OkStatus();
      });
    }
    if (begun.ok()) return call->Watch();
    call->Answer(std::move(begun));
  }

  Start start_;
  AwaitOn on_;
  std::shared_ptr<Pending> call_;
  bool begun_ = false;
};

}  // namespace base_internal

// The functions ...Await() return an object of such a type: movable, awaited once, as an rvalue. `Result` is the type
// that co_await returns.
template <typename T>
concept StockadeAwaitable = requires(T awaitable) {
  typename T::Result;
  { std::move(awaitable).operator co_await() } -> std::same_as<T&&>;
};

}  // namespace stockade

#endif  // STOCKADE_BASE_COROUTINE_H_

#ifndef STOCKADE_ASIO_CALLS_H_
#define STOCKADE_ASIO_CALLS_H_

// The part that stockade/asio/cache.h, locks.h and inventory.h share. It is for standalone Asio 1.22 or newer, or for
// Boost.Asio 1.74 or newer if STOCKADE_USE_BOOST_ASIO is defined. A program may use both, in different sources: their
// classes are different.
//
// Their calls Async...(..., token) take any completion token: use_awaitable, a callback, use_future, deferred. A
// handler
//   - runs on its associated executor, and without one on that of the object, and never within the call that begins it;
//   - is kept in memory of its associated allocator, which is freed before it runs;
//   - is work for both executors until it is posted, so io_context::run() does not return before;
//   - may be cancelled through its cancellation slot (not with Boost 1.74, which has none).
// The first answer counts, that of the call or of the cancellation. A post that throws destroys the handler, which is
// logged. A call throws if a copy of its arguments or of the handler throws, or the handler's allocator: then it has
// not begun.
//
// An execution context may be destroyed while calls wait: their handlers are destroyed with it, and the calls are left
// as if they had been cancelled. So may a cache, a lock service or an inventory: the handlers get Cancelled. If
// a handler has an executor of another context, a thread of the library may use that context for a moment after the
// handler has run: do not destroy it before its run() has returned for want of work. Contexts that were made with
// ASIO_CONCURRENCY_HINT_UNSAFE cannot be used. A call may not be made in a forked child.
#ifdef STOCKADE_USE_BOOST_ASIO
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/version.hpp>
#define STOCKADE_ASIO_FLAVOR boost_asio
#define STOCKADE_ASIO_NAMESPACE boost::asio
#if BOOST_ASIO_VERSION >= 101900
#define STOCKADE_ASIO_HAS_SLOTS
#include <boost/asio/associated_cancellation_slot.hpp>
#endif
#else
#include <asio/any_io_executor.hpp>
#include <asio/associated_allocator.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/version.hpp>
#define STOCKADE_ASIO_FLAVOR standalone_asio
#define STOCKADE_ASIO_NAMESPACE asio
#if ASIO_VERSION >= 101900
#define STOCKADE_ASIO_HAS_SLOTS
#include <asio/associated_cancellation_slot.hpp>
#endif
#endif

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "stockade/base/coroutine.h"
#include "stockade/base/floors.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/mutex.h"
#include "stockade/base/strings.h"
#include "stockade/base/unknown_outcome.h"

namespace stockade {
inline namespace STOCKADE_ASIO_FLAVOR {
namespace asio_internal {

using namespace base_internal;
namespace net = ::STOCKADE_ASIO_NAMESPACE;

// A call that has not posted its handler.
class AsioCallBase {
 public:
  virtual ~AsioCallBase() = default;
  // Destroys the handler, and leaves the call.
  virtual void Abandon() noexcept = 0;
};

// The calls of one execution context. The context's service and the calls share it, so it may outlive the context.
// Thread-safe.
//
// Invariant: only the thread that has marked a call as its own uses the handler, and the context exists until that
// thread has taken the call off. So nobody uses a handler or the context after Close().
class AsioCalls {
 public:
  // False: the context is at its end.
  bool Add(std::shared_ptr<AsioCallBase> call) STOCKADE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (closed_) return false;
    AsioCallBase* const key = call.get();
    calls_.emplace(key, Entry{std::move(call)});
    return true;
  }

  // False: another thread has the handler, or had it. Otherwise this one has it until EndPost().
  bool BeginPost(AsioCallBase* call) STOCKADE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = calls_.find(call);
    if (found == calls_.end() || found->second.posting) return false;
    found->second.posting = true;
    return true;
  }
  void EndPost(AsioCallBase* call) STOCKADE_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    calls_.erase(call);
    posted_.NotifyAll();
  }

  // By the end of the context. Blocks while a thread posts a handler.
  void Close() STOCKADE_EXCLUDES(mutex_) {
    if (fork_.InForkedChild()) return;  // The calls are the parent's, and so may be the lock of mutex_.
    const MutexLock lock(mutex_);
    closed_ = true;
    while (!calls_.empty()) {
      const auto found = std::ranges::find_if(calls_, [](const auto& entry) { return !entry.second.posting; });
      if (found == calls_.end()) {
        posted_.Wait(mutex_);
        continue;
      }
      std::shared_ptr<AsioCallBase> call = std::move(found->second.call);
      calls_.erase(found);
      const MutexUnlock unlocked(mutex_);
      call->Abandon();  // Which may end, or begin, other calls.
      call = nullptr;
    }
  }

 private:
  struct Entry {
    std::shared_ptr<AsioCallBase> call;
    bool posting = false;
  };

  const ForkGuard fork_;
  Mutex mutex_;
  CondVar posted_;
  bool closed_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::unordered_map<AsioCallBase*, Entry> calls_ STOCKADE_GUARDED_BY(mutex_);
};

// Takes part in the end of an execution context, which destroys the handlers of its pending calls, as Asio's own
// services do.
class AsioCallsService final : public net::execution_context::service {
 public:
  using key_type = AsioCallsService;
  static inline net::execution_context::id id;

  explicit AsioCallsService(net::execution_context& context) : net::execution_context::service(context) {}
  // A service that is made while the context ends is not shut down.
  ~AsioCallsService() override { calls_->Close(); }
  const std::shared_ptr<AsioCalls>& calls() const { return calls_; }

 private:
  void shutdown() override { calls_->Close(); }

  const std::shared_ptr<AsioCalls> calls_ = std::make_shared<AsioCalls>();
};

// A handler and its result, on the way to the handler's executor.
template <typename Handler, typename Result>
struct Delivery {
  using allocator_type = net::associated_allocator_t<Handler>;
  allocator_type get_allocator() const noexcept { return net::get_associated_allocator(handler); }

  void operator()() {
#ifdef STOCKADE_ASIO_HAS_SLOTS
    if (auto slot = net::get_associated_cancellation_slot(handler); slot.is_connected()) slot.clear();
#endif
    std::move(handler)(std::move(result));
  }

  Handler handler;
  Result result;
};

// A handler with the work guards of its call, in memory of the handler's allocator.
template <typename Result>
class Completion {
 public:
  struct Deleter {
    void operator()(Completion* completion) const { completion->Destroy(); }
  };
  using Pointer = std::unique_ptr<Completion, Deleter>;

  // Posts the handler, and destroys this before.
  virtual void Post(Result result) = 0;
  virtual void Destroy() = 0;

 protected:
  ~Completion() = default;
};

template <typename Result, typename Handler>
class HandlerCompletion final : public Completion<Result> {
 public:
  static typename Completion<Result>::Pointer Make(Handler handler, const net::any_io_executor& io) {
    Allocator allocator(net::get_associated_allocator(handler));
    HandlerCompletion* const memory = Traits::allocate(allocator, 1);
    try {
      return typename Completion<Result>::Pointer(new (memory) HandlerCompletion(std::move(handler), io));
    } catch (...) {
      Traits::deallocate(allocator, memory, 1);
      throw;
    }
  }

  void Post(Result result) override {
    const auto io_guard = std::move(io_guard_);
    const auto guard = std::move(guard_);
    net::post(guard.get_executor(), TakeOut(std::move(result)));
  }
  void Destroy() override { const Freed freed(this); }

 private:
  using Allocator =
      typename std::allocator_traits<net::associated_allocator_t<Handler>>::template rebind_alloc<HandlerCompletion>;
  using Traits = std::allocator_traits<Allocator>;
  using Executor = net::associated_executor_t<Handler, net::any_io_executor>;

  HandlerCompletion(Handler handler, const net::any_io_executor& io)
      : io_guard_(io), guard_(net::get_associated_executor(handler, io)), handler_(std::move(handler)) {}
  ~HandlerCompletion() = default;

  // Frees it at the end of a scope in which the handler may be moved away.
  class Freed {
   public:
    explicit Freed(HandlerCompletion* completion)
        : completion_(completion), allocator_(net::get_associated_allocator(completion->handler_)) {}
    ~Freed() {
      completion_->~HandlerCompletion();
      Traits::deallocate(allocator_, completion_, 1);
    }
    Freed(const Freed&) = delete;
    Freed& operator=(const Freed&) = delete;

   private:
    HandlerCompletion* const completion_;
    Allocator allocator_;
  };

  Delivery<Handler, Result> TakeOut(Result result) {
    const Freed freed(this);
    return {std::move(handler_), std::move(result)};
  }

  net::executor_work_guard<net::any_io_executor> io_guard_;
  net::executor_work_guard<Executor> guard_;
  Handler handler_;
};

// A call, which its callback, its cancellation slot and the list share. It may outlive the context. Thread-safe. The
// first answer counts: that of the call, or of a cancellation.
template <typename Result>
class AsioCall final : public AsioCallBase, public std::enable_shared_from_this<AsioCall<Result>> {
 public:
  AsioCall(const AwaitedCall& call, std::shared_ptr<AsioCalls> calls, typename Completion<Result>::Pointer completion)
      : call_(call), calls_(std::move(calls)), completion_(std::move(completion)) {}
  AsioCall(const AsioCall&) = delete;
  AsioCall& operator=(const AsioCall&) = delete;

  // Requested once nobody waits for the call any more.
  std::stop_token stop() const { return stop_.get_token(); }

  // False: the context is at its end, and the call must not begin.
  bool Add() { return calls_->Add(this->shared_from_this()); }
  // Once it has begun.
  void CancelOn(const std::stop_token& stop) {
    if (stop.stop_possible()) on_stop_.emplace(stop, OnStop{this->weak_from_this()});
  }

  void Answer(Result result) noexcept {
    if (!calls_->BeginPost(this)) return;
    const absl::Status posted = GuardCallback<absl::Status>("a handler is lost: its post", [&] {
      completion_.release()->Post(std::move(result));
      return absl::OkStatus();
    });
    if (!posted.ok()) Log(LogSeverity::kError, std::string_view(posted.message().data(), posted.message().size()));
    calls_->EndPost(this);
  }
  void Cancel() noexcept { End(absl::StatusCode::kCancelled, ": the operation was cancelled"); }
  void CallbackDropped() noexcept { End(absl::StatusCode::kResourceExhausted, ": an executor destroyed the answer"); }

 private:
  struct OnStop {
    std::weak_ptr<AsioCall> call;
    void operator()() const noexcept {
      if (const std::shared_ptr<AsioCall> waiting = call.lock()) waiting->Cancel();
    }
  };

  void End(absl::StatusCode code, std::string_view why) noexcept {
    Answer(call_.unknown.empty()
               ? StatusWithText(code, [&] { return Concat(call_.name, why); })
               : StatusOfUnknownOutcome(code, [&] { return Concat(call_.name, why, "; ", call_.unknown); }));
    stop_.request_stop();
  }
  void Abandon() noexcept override {
    stop_.request_stop();
    completion_.reset();
  }

  const AwaitedCall call_;
  const std::shared_ptr<AsioCalls> calls_;
  typename Completion<Result>::Pointer completion_;  // Of the one whom AsioCalls lets post or abandon it.
  std::stop_source stop_;
  std::optional<std::stop_callback<OnStop>> on_stop_;
};

// The callback of the call.
template <typename Result>
class AsioAnswer {
 public:
  explicit AsioAnswer(std::shared_ptr<AsioCall<Result>> call) : call_(std::move(call)) {}
  AsioAnswer(AsioAnswer&& other) noexcept = default;
  AsioAnswer& operator=(AsioAnswer&&) = delete;
  ~AsioAnswer() {
    if (call_ != nullptr) call_->CallbackDropped();
  }

  void operator()(Result result) {
    if (const auto call = std::exchange(call_, nullptr)) call->Answer(std::move(result));
  }

 private:
  std::shared_ptr<AsioCall<Result>> call_;
};

// The cancellations of a slot that a call obeys.
enum class CancelledBy {
  kAny,       // It has no effect then that its caller has to know of.
  kTerminal,  // Its outcome is unknown then.
  kNone,
};

#ifdef STOCKADE_ASIO_HAS_SLOTS
template <typename Result, CancelledBy kBy>
struct OnCancel {
  std::weak_ptr<AsioCall<Result>> call;  // The slot may outlive it.

  template <typename Type>
  void operator()(Type type) const {
    constexpr auto kNone = net::cancellation_type::none;
    if (kBy == CancelledBy::kTerminal ? (type & net::cancellation_type::terminal) == kNone : type == kNone) return;
    if (const auto waiting = call.lock()) waiting->Cancel();
  }
};
#endif

// The executor of an object, on which handlers run that have none of their own, and the calls of its context.
struct AsioContext {
  explicit AsioContext(net::any_io_executor executor_in) : executor(std::move(executor_in)) {
    if (!executor) throw net::execution::bad_executor();  // Some versions of Asio would crash.
    calls = net::use_service<AsioCallsService>(net::query(executor, net::execution::context)).calls();
  }

  net::any_io_executor executor;
  std::shared_ptr<AsioCalls> calls;
};

// Begins a call once its handler is known. Start has `Result`, `kCall`, and Begin(stop, done), which may throw, and may
// have user_stop().
template <typename Start, CancelledBy kBy>
class Initiation {
 public:
  using executor_type = net::any_io_executor;

  Initiation(const AsioContext& context, Start start) : context_(context), start_(std::move(start)) {}
  executor_type get_executor() const noexcept { return context_.executor; }

  template <typename Handler>
  void operator()(Handler&& handler) {
    using Result = typename Start::Result;
    // This object is in a frame of the handler's, which another thread may end before Begin() has returned.
    Start start = std::move(start_);
#ifdef STOCKADE_ASIO_HAS_SLOTS
    auto slot = net::get_associated_cancellation_slot(handler);
#endif
    auto completion =
        HandlerCompletion<Result, std::decay_t<Handler>>::Make(std::forward<Handler>(handler), context_.executor);
    const auto call = std::make_shared<AsioCall<Result>>(Start::kCall, context_.calls, std::move(completion));
#ifdef STOCKADE_ASIO_HAS_SLOTS
    if constexpr (kBy != CancelledBy::kNone) {
      if (slot.is_connected()) slot.template emplace<OnCancel<Result, kBy>>(call);
    }
#endif
    if (!call->Add()) return;
    std::stop_token user_stop;
    if constexpr (requires { start.user_stop(); }) user_stop = start.user_stop();
    const absl::Status begun = GuardCallback<absl::Status>(Start::kCall.name, [&] {
      try {
        std::move(start).Begin(call->stop(), AsioAnswer<Result>(call));
      } catch (const std::bad_alloc&) {
        return absl::Status(absl::StatusCode::kResourceExhausted, {});
      }
      return absl::OkStatus();
    });
    if (!begun.ok()) call->Answer(begun);
    call->CancelOn(user_stop);  // Not before: the handler may destroy what Begin() uses.
  }

 private:
  AsioContext context_;
  Start start_;
};

template <CancelledBy kBy, typename Start, typename Token>
auto BeginCall(const AsioContext& context, Start start, Token&& token) {
  return net::async_initiate<Token, void(typename Start::Result)>(Initiation<Start, kBy>(context, std::move(start)),
                                                                  token);
}

}  // namespace asio_internal
}  // namespace STOCKADE_ASIO_FLAVOR
}  // namespace stockade

#endif  // STOCKADE_ASIO_CALLS_H_

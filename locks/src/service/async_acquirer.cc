#include "async_acquirer.h"

#include <algorithm>
#include <optional>
#include <stop_token>

#include "acquisition.h"
#include "engine_status.h"
#include "service_core.h"
#include "stockade/base/start_thread.h"

namespace stockade::locks_internal {
namespace {

constexpr size_t kMostTogether = 256;
// Until a step of the same hold, which another thread has sent, is looked for again.
constexpr absl::Duration kStepPause = absl::Milliseconds(1);

}  // namespace

class AsyncAcquirer::Op final : public Waiter {
 public:
  Op(AsyncAcquirer& acquirer, std::string_view name, const AcquireOptions& options, LockService::Callback callback)
      : acquirer_(acquirer), done(std::move(callback)) {
    acquisition.emplace(acquirer.core_, name, options, std::nullopt, *this, /*may_block=*/false);
  }

  void Wake() override { acquirer_.Ready(*this); }

  struct OnStop {
    Op* op;
    void operator()() const { op->acquirer_.Stopped(*op); }
  };

 private:
  AsyncAcquirer& acquirer_;

 public:
  LockService::Callback done;
  std::optional<Acquisition> acquisition;             // None once done.
  std::optional<std::stop_callback<OnStop>> on_stop;  // None once done.
  bool ready = true;             // In ready_, or to be put there by Add(). Guarded by its acquirer's mutex.
  bool told = false;             // `done` has been called: Cancelled. Guarded by its acquirer's mutex.
  std::optional<Instant> timer;  // In timers_.
};

AsyncAcquirer::AsyncAcquirer(ServiceCore& core) : core_(core) {}
AsyncAcquirer::~AsyncAcquirer() = default;

absl::Status AsyncAcquirer::Add(std::string_view name, const AcquireOptions& options, LockService::Callback& done) {
  {
    const MutexLock lock(mutex_);
    if (!stopping_ && !thread_.joinable()) {
      if (absl::Status started = StartThread(thread_, [this] { Run(); }); !started.ok()) return started;
    }
  }
  auto made = std::make_unique<Op>(*this, name, options, std::move(done));
  Op* const op = made.get();
  {
    const MutexLock lock(mutex_);
    if (stopping_) {
      done = std::move(op->done);
    } else {
      ops_.emplace(op, std::move(made));
      // Neither the thread nor its stop token touches it yet: see Op::ready.
    }
  }
  if (made != nullptr) return Ending();
  if (options.stop.stop_possible()) op->on_stop.emplace(options.stop, Op::OnStop{op});
  const MutexLock lock(mutex_);
  PushReady(*op);
  return absl::OkStatus();
}

void AsyncAcquirer::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyOne();
  if (thread_.joinable()) thread_.join();
}

void AsyncAcquirer::Ready(Op& op) {
  const MutexLock lock(mutex_);
  if (!std::exchange(op.ready, true)) PushReady(op);
}

// Invokes the callback at once: the thread may be waiting for the engine.
void AsyncAcquirer::Stopped(Op& op) {
  LockService::Callback done;
  absl::Status cancelled;
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(op.ready, true)) PushReady(op);
    op.told = true;
    done = std::move(op.done);
    cancelled = CallerGaveUp(op.acquisition->name());
  }
  core_.Schedule([done = std::move(done), cancelled]() mutable { done(cancelled); });
}

void AsyncAcquirer::PushReady(Op& op) {
  ready_.push_back(&op);
  changed_.NotifyOne();
}

void AsyncAcquirer::Run() {
  Clock& clock = *core_.options().clock;
  const MutexLock lock(mutex_);
  for (;;) {
    const Instant first = timers_.empty() ? Instant::InfiniteFuture() : timers_.begin()->first;
    if (ready_.empty() && !stopping_ && clock.Now() < first) {
      changed_.WaitUntil(clock, mutex_, first);
      continue;
    }
    std::vector<Op*> ops = std::exchange(ready_, {});
    if (stopping_) {
      ops.clear();
      for (const auto& [op, owned] : ops_) ops.push_back(op);
    }
    for (Op* const op : ops) op->ready = false;
    const bool last = stopping_;

    const MutexUnlock unlocked(mutex_);
    for (const Instant now = clock.Now(); !timers_.empty() && timers_.begin()->first <= now;) {
      Op* const op = timers_.begin()->second;
      timers_.erase(timers_.begin());
      op->timer.reset();
      if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
    }
    Advance(ops);
    if (last) return;
  }
}

void AsyncAcquirer::Advance(const std::vector<Op*>& ops) {
  std::vector<Op*> tries;
  for (Op* const op : ops) {
    if (!op->acquisition->Look()) {
      Settle(*op, op->acquisition->look_at());
    } else if (op->acquisition->BeginTry()) {
      tries.push_back(op);
      if (tries.size() == kMostTogether) TryTogether(std::exchange(tries, {}));
    } else {
      Settle(*op, core_.options().clock->Now() + kStepPause);
    }
  }
  if (!tries.empty()) TryTogether(tries);
}

void AsyncAcquirer::TryTogether(const std::vector<Op*>& ops) {
  std::vector<LockTry> calls;
  calls.reserve(ops.size());
  for (Op* const op : ops) calls.push_back(std::move(op->acquisition->call()));
  core_.engine().TryMany(calls);
  for (size_t i = 0; i < ops.size(); ++i) {
    Acquisition& acquisition = *ops[i]->acquisition;
    acquisition.call() = std::move(calls[i]);
    acquisition.EndTry();
    const bool again = acquisition.Look();
    Settle(*ops[i], again ? Instant::InfinitePast() : acquisition.look_at());
  }
}

void AsyncAcquirer::Settle(Op& op, Instant again) {
  if (op.timer) {
    timers_.erase({*op.timer, &op});
    op.timer.reset();
  }
  if (!op.acquisition->done()) {
    op.timer = again;
    timers_.emplace(again, &op);
    return;
  }
  op.on_stop.reset();
  absl::StatusOr<LockLease> outcome = op.acquisition->TakeOutcome();
  // From here on nobody makes it ready any more.
  op.acquisition.reset();
  const bool told = [&] {
    const MutexLock lock(mutex_);
    return op.told;
  }();
  if (told) {  // `done` has been called. A lease that comes now has no user: its destructor releases it.
    core_.Schedule([outcome = std::move(outcome)] {});
  } else {
    core_.Schedule([done = std::move(op.done), outcome = std::move(outcome)]() mutable { done(std::move(outcome)); });
  }
  std::unique_ptr<Op> last;  // Declared first: destroyed after the mutex is let go.
  const MutexLock lock(mutex_);
  if (op.ready) std::erase(ready_, &op);
  const auto entry = ops_.find(&op);
  last = std::move(entry->second);
  ops_.erase(entry);
}

}  // namespace stockade::locks_internal

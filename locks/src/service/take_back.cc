#include "take_back.h"

#include <algorithm>
#include <utility>

#include "service_core.h"
#include "stockade/base/log.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);

}  // namespace

void TakeBack::Add(HoldKey key, std::shared_ptr<HoldRecord> record, Instant until) {
  const MutexLock lock(mutex_);
  debts_.push_front({std::move(key), std::move(record), until});  // Before those that the engine has not answered.
  Start();
}

void TakeBack::Post(Executor::Task release) {
  const MutexLock lock(mutex_);
  releases_.push_back(std::move(release));
  Start();
}

void TakeBack::Start() {
  if (!thread_.joinable() && !stopping_) {
    if (const absl::Status started = StartThread(thread_, [this] { Run(); }); !started.ok()) {
      Log(LogSeverity::kWarning,
          Concat("lock service '", core_.options().name, "': releases are delayed: ", started.message()));
    }
  }
  changed_.NotifyOne();
}

void TakeBack::Stop() {
  bool started = false;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    started = thread_.joinable();
  }
  changed_.NotifyOne();
  if (started) {
    thread_.join();
  } else {
    Run();  // What no thread could be started for.
  }
  std::deque<Debt> left;  // Declared first: destroyed after the mutex is released.
  const MutexLock lock(mutex_);
  for (const Debt& debt : debts_) core_.holds().Unpin(*debt.record);
  left.swap(debts_);
}

void TakeBack::Run() {
  Clock& clock = *core_.options().clock;
  const MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && debts_.empty() && releases_.empty()) changed_.Wait(mutex_);
    if (!releases_.empty()) {
      Executor::Task release = std::move(releases_.front());
      releases_.pop_front();
      const MutexUnlock unlocked(mutex_);
      std::move(release)();
      release = nullptr;
      continue;
    }
    if (debts_.empty()) return;
    const Debt debt = std::move(debts_.front());
    debts_.pop_front();
    bool done = false;
    {
      const MutexUnlock unlocked(mutex_);
      done = Try(debt);
      if (done) core_.holds().Unpin(*debt.record);
    }
    if (done) continue;
    debts_.push_back(debt);
    const Instant again = clock.Now() + kPause;
    while (!stopping_ && releases_.empty() && clock.Now() < again) changed_.WaitUntil(clock, mutex_, again);
    if (stopping_ && releases_.empty()) return;
  }
}

bool TakeBack::Try(const Debt& debt) {
  const Instant now = core_.options().clock->Now();
  if (now >= debt.until) return true;
  LockRelease release;
  if (!debt.record->LockSteps(*core_.options().clock, now + core_.options().engine_timeout)) return false;
  core_.GiveUp(debt.key, *debt.record, release,
               std::min<absl::Duration>(core_.options().engine_timeout, debt.until - now));
  debt.record->UnlockSteps();
  return release.status.ok();
}

}  // namespace stockade::locks_internal

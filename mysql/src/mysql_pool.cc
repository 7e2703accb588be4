#include "stockade/mysql/internal/mysql_pool.h"

#include <random>

#include "stockade/base/backoff.h"
#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::mysql_internal {
namespace {

// Between failed attempts to connect.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

}  // namespace

MySqlPool::MySqlPool(MySqlTarget target, int most, std::unique_ptr<MySqlConnection> first, EventFd stop)
    : target_(std::move(target)), most_(most), stop_(std::move(stop)) {
  idle_.push_back(std::move(first));
}

MySqlPool::~MySqlPool() {
  Stop();
  if (opener_.joinable()) opener_.join();
}

void MySqlPool::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.Set();
  changed_.NotifyAll();
  wanted_.NotifyAll();
}

absl::StatusOr<MySqlPool::Lent> MySqlPool::Borrow(Use use, Instant deadline) {
  std::vector<std::unique_ptr<MySqlConnection>> stale;  // Declared first: closed without the mutex.
  const MutexLock lock(mutex_);
  const uint64_t failures_before = failures_;
  for (;;) {
    if (stopping_)
      return absl::UnavailableError(Concat("MySQL at ", target_.Endpoint(), ": the pool is being destroyed"));
    const bool may = MayLend(use);
    const bool late = Clock::System()->Now() >= deadline;
    while (may && !late && !idle_.empty()) {
      std::unique_ptr<MySqlConnection> connection = std::move(idle_.back());
      idle_.pop_back();
      if (connection->Stale()) {
        stale.push_back(std::move(connection));
        continue;
      }
      ++lent_;
      if (use == Use::kStep) ++lent_for_steps_;
      return Lent(this, use, std::move(connection));
    }
    const bool failed = failures_ != failures_before;
    if (failed && !absl::IsUnavailable(last_failure_)) return last_failure_;
    if (late) {
      if (failed) return last_failure_;
      return absl::UnavailableError(
          may ? Concat("MySQL at ", target_.Endpoint(), ": no connection in time")
              : Concat("MySQL at ", target_.Endpoint(), ": all ", most_, " connections are in use"));
    }
    if (may) {
      if (!opener_.joinable()) {
        const absl::Status started = StartThread(opener_, [this] { Open(); });
        if (!started.ok()) {
          return absl::Status(started.code(), Concat("MySQL at ", target_.Endpoint(), ": ", started.message()));
        }
      }
      ++missing_;
      wanted_.NotifyOne();
    }
    changed_.WaitUntil(*Clock::System(), mutex_, deadline);
    if (may) --missing_;
  }
}

void MySqlPool::Return(std::unique_ptr<MySqlConnection> connection, Use use) {
  {
    const MutexLock lock(mutex_);
    --lent_;
    if (use == Use::kStep) --lent_for_steps_;
    if (!connection->broken()) idle_.push_back(std::move(connection));
  }
  changed_.NotifyAll();
}

void MySqlPool::Open() {
  Backoff backoff(kFirstPause, kLongestPause, std::random_device()());
  const MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && (missing_ == 0 || !idle_.empty() || lent_ >= most_)) wanted_.Wait(mutex_);
    if (stopping_) return;
    absl::StatusOr<std::unique_ptr<MySqlConnection>> opened;
    {
      const MutexUnlock unlocked(mutex_);
      opened = MySqlConnection::Open(target_, stop_.get());
    }
    if (opened.ok()) {
      backoff.Reset();
      idle_.push_back(*std::move(opened));
      changed_.NotifyAll();
      continue;
    }
    last_failure_ = opened.status();
    // The first connection has used the files of TLS, so they are being replaced.
    if (absl::IsInvalidArgument(last_failure_)) last_failure_ = absl::UnavailableError(last_failure_.message());
    ++failures_;
    changed_.NotifyAll();
    const Instant again = Clock::System()->Now() + backoff.Next();
    while (!stopping_ && Clock::System()->Now() < again) wanted_.WaitUntil(*Clock::System(), mutex_, again);
  }
}

}  // namespace stockade::mysql_internal

#include "mysql_pool.h"

#include <random>

#include "stockade/base/backoff.h"
#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::internal {
namespace {

// Between attempts to connect that fail.
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
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_.Set();
  changed_.notify_all();
  wanted_.notify_all();
}

absl::StatusOr<MySqlPool::Lent> MySqlPool::Borrow(Use use, Instant deadline) {
  std::vector<std::unique_ptr<MySqlConnection>> stale;  // Declared first: closed without the mutex.
  std::unique_lock lock(mutex_);
  const uint64_t failures_before = failures_;
  for (;;) {
    if (stopping_) return absl::UnavailableError("the lock service is being destroyed");
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
          may ? Concat("MySQL at ", target_.url.Endpoint(), ": no connection in time")
              : Concat("MySQL at ", target_.url.Endpoint(), ": all ", most_, " connections are in use"));
    }
    if (may) {
      if (!opener_.joinable()) {
        const absl::Status started = StartThread(opener_, [this] { Open(); });
        if (!started.ok()) {
          return absl::Status(started.code(), Concat("MySQL at ", target_.url.Endpoint(), ": ", started.message()));
        }
      }
      ++missing_;
      wanted_.notify_one();
    }
    Clock::System()->WaitUntil(changed_, lock, deadline);
    if (may) --missing_;
  }
}

void MySqlPool::Return(std::unique_ptr<MySqlConnection> connection, Use use) {
  {
    const std::lock_guard lock(mutex_);
    --lent_;
    if (use == Use::kStep) --lent_for_steps_;
    if (!connection->broken()) idle_.push_back(std::move(connection));
  }
  changed_.notify_all();
}

void MySqlPool::Open() {
  Backoff backoff(kFirstPause, kLongestPause, std::random_device()());
  std::unique_lock lock(mutex_);
  for (;;) {
    wanted_.wait(lock, [this] { return stopping_ || (missing_ > 0 && idle_.empty() && lent_ < most_); });
    if (stopping_) return;
    lock.unlock();
    absl::StatusOr<std::unique_ptr<MySqlConnection>> opened = MySqlConnection::Open(target_, stop_.get());
    lock.lock();
    if (opened.ok()) {
      backoff.Reset();
      idle_.push_back(*std::move(opened));
      changed_.notify_all();
      continue;
    }
    last_failure_ = opened.status();
    ++failures_;
    changed_.notify_all();
    const Instant again = Clock::System()->Now() + backoff.Next();
    while (!stopping_ && Clock::System()->Now() < again) Clock::System()->WaitUntil(wanted_, lock, again);
  }
}

}  // namespace stockade::internal

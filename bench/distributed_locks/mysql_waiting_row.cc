// What the database is asked while threads wait for a lock that another client holds.
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "distributed_locks/mysql_rows.h"
#include "distributed_locks/mysql_session.h"
#include "distributed_locks/plain_mysql.h"

namespace stockade::bench {
namespace {

constexpr size_t kWaiters = 16;
constexpr char kName[] = "held";

class Waiting {
 public:
  explicit Waiting(const std::string& sockets)
      : sockets_(sockets), ours_(OpenOurMySqlLocks(sockets)), status_(sockets), holder_(MakeTableLock(sockets, kName)) {
    for (size_t i = 0; i < kWaiters; ++i) plain_.push_back(MakeTableLock(sockets, kName));
  }

  double Ours(absl::Duration span) {
    return Measure(span, [&](size_t) {
      LockLease lease = Require(ours_->service().Acquire(kName), "Acquire");
      Require(lease.Release(), "Release");
    });
  }
  double Plain(absl::Duration span) {
    return Measure(span, [&](size_t waiter) {
      plain_[waiter]->Acquire();
      plain_[waiter]->Release();
    });
  }

 private:
  // Queries a second, once all wait and have waited for long enough to ask no oftener than they will.
  double Measure(absl::Duration span, const std::function<void(size_t waiter)>& take) {
    holder_->Acquire();
    std::vector<std::thread> waiters;
    waiters.reserve(kWaiters);
    for (size_t i = 0; i < kWaiters; ++i) waiters.emplace_back(take, i);
    absl::SleepFor(5 * span);
    const int64_t before = Questions();
    absl::SleepFor(10 * span);
    const int64_t asked = Questions() - before - 1;  // But for the question itself.
    holder_->Release();
    for (std::thread& waiter : waiters) waiter.join();
    return static_cast<double>(asked) / absl::ToDoubleSeconds(10 * span);
  }

  int64_t Questions() {
    return std::atoll(
        status_.Ask("SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QUESTIONS'")
            .c_str());
  }

  const std::string sockets_;
  const std::shared_ptr<OurLocks> ours_;
  MySqlSession status_;
  const std::unique_ptr<PlainMySqlLock> holder_;
  std::vector<std::unique_ptr<PlainMySqlLock>> plain_;
};

}  // namespace

void AddMySqlWaitingRow(Suite& suite, const std::function<const DiskServer&()>& server) {
  suite.Add({.name = "MySQL: 16 threads wait, statements", .unit = "1/s", .peer = "libmariadb, each asks"},
            {.prepare = [=](const Scale& scale) -> Contestants {
              const auto waiting = std::make_shared<Waiting>(server().address());
              return {[=](Worker&) { return waiting->Ours(scale.span); },
                      [=](Worker&) { return waiting->Plain(scale.span); }};
            }});
}

}  // namespace stockade::bench

#ifndef STOCKADE_LOCKS_SRC_SERVICE_TAKE_BACK_H_
#define STOCKADE_LOCKS_SRC_SERVICE_TAKE_BACK_H_

#include <deque>
#include <memory>
#include <thread>

#include "hold.h"
#include "stockade/base/executor.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::locks_internal {

// Takes back tries whose outcome stayed unknown, and places in queues of callers who could not wait for it, after they
// have left: until the engine has answered, or what it may have granted has lapsed by itself. And sends the releases
// for which nobody waits. One thread, which starts with the first; if it cannot be started, which is logged, the next
// one tries again.
class TakeBack {
 public:
  explicit TakeBack(ServiceCore& core) : core_(core) {}
  TakeBack(const TakeBack&) = delete;
  TakeBack& operator=(const TakeBack&) = delete;

  // `record`: of `key`, pinned for this. `until`: when it has lapsed.
  void Add(HoldKey key, std::shared_ptr<HoldRecord> record, Instant until);
  // Runs `release` once, before all debts.
  void Post(Executor::Task release);
  // Tries what is left, as long as the engine answers, and joins the thread; the rest is left to lapse. By one thread.
  void Stop();

 private:
  struct Debt {
    HoldKey key;
    std::shared_ptr<HoldRecord> record;
    Instant until;
  };

  void Start() STOCKADE_REQUIRES(mutex_);
  void Run();
  // False: to be tried again.
  bool Try(const Debt& debt) STOCKADE_EXCLUDES(mutex_);

  ServiceCore& core_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Executor::Task> releases_ STOCKADE_GUARDED_BY(mutex_);
  std::deque<Debt> debts_ STOCKADE_GUARDED_BY(mutex_);
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started with mutex_ held.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_SERVICE_TAKE_BACK_H_

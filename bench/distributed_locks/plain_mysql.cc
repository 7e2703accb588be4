#include "distributed_locks/plain_mysql.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "distributed_locks/mysql_session.h"
#include "mysql_lock_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/locks/mysql_lock_service.h"

namespace stockade::bench {
namespace {

class NamedLock final : public PlainMySqlLock {
 public:
  NamedLock(const std::string& sockets, const std::string& name)
      : session_(sockets),
        acquire_(base_internal::Concat("SELECT GET_LOCK('", name, "', 60)")),
        release_(base_internal::Concat("SELECT RELEASE_LOCK('", name, "')")) {}

  void Acquire() override { Call(acquire_); }
  void Release() override { Call(release_); }

 private:
  void Call(const std::string& statement) {
    if (session_.Ask(statement) != "1")
      base_internal::Fatal(base_internal::Concat("bench: MariaDB did not do ", statement));
  }

  MySqlSession session_;
  const std::string acquire_;
  const std::string release_;
};

class TableLock final : public PlainMySqlLock {
 public:
  TableLock(const std::string& sockets, std::string name)
      : session_(sockets),
        scripts_(options_.table_prefix, NewClientId()),
        hold_({.name = std::move(name), .owner = NewOwnerId()}) {
    session_.Ask("USE locks; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
  }

  void Acquire() override {
    for (absl::Duration pause = options_.poll_interval_min; !Try();) {
      absl::SleepFor(pause);
      pause = std::min<absl::Duration>(2 * pause, options_.poll_interval_max);
    }
  }
  void Release() override {
    if (session_.Ask(scripts_.Release({.hold = hold_, .sequence = ++sequence_}).statements) != "1") {
      base_internal::Fatal("bench: a plain lock was not released");
    }
  }

 private:
  static std::string NewClientId() {
    constexpr size_t kSize = 16;
    std::random_device random;
    std::string id;
    while (id.size() < kSize) id += static_cast<char>(random());
    return id;
  }

  bool Try() {
    const LockTry step = {.hold = hold_, .lease = options_.service.watchdog_lease, .sequence = ++sequence_};
    return session_.Ask(scripts_.Try(step).statements) == "1";
  }

  const MySqlLockOptions options_;
  MySqlSession session_;
  const locks_internal::MySqlLockScripts scripts_;
  const HoldKey hold_;
  uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<PlainMySqlLock> MakeTableLock(const std::string& sockets, const std::string& name) {
  return std::make_unique<TableLock>(sockets, name);
}

std::unique_ptr<PlainMySqlLock> MakeNamedLock(const std::string& sockets, const std::string& name) {
  return std::make_unique<NamedLock>(sockets, name);
}

LockRun RunOf(MakePlainMySqlLock make, std::string sockets) {
  return [make = std::move(make), sockets = std::move(sockets)](Worker& worker, bool own_names, absl::Duration span) {
    const std::string name = own_names ? "plain" + std::to_string(worker.thread()) : "plain";
    const std::unique_ptr<PlainMySqlLock> lock = make(sockets, name);
    return worker.RunFor(span, 1, [&](size_t, int64_t) {
      lock->Acquire();
      lock->Release();
    });
  };
}

}  // namespace stockade::bench

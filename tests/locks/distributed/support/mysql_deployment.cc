#include "locks/distributed/support/mysql_deployment.h"

#include <utility>

#include "locks/distributed/support/connect_lock_service.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

std::unique_ptr<LockService> MySqlDeployment::NewClient(LockServiceOptions options) {
  return ConnectLockService(url(), std::move(options));
}

int64_t MySqlDeployment::Queued(const std::string& name) {
  base_internal::Fatal(base_internal::Concat("MySQL has no fair locks, such as ", name));
}

bool MySqlDeployment::Listened(const std::string& name) {
  // Longer than a waiter is silent.
  constexpr absl::Duration kPatience = absl::Milliseconds(300);
  const std::string asked =
      base_internal::Concat("SELECT COUNT(*) FROM mysql.general_log WHERE user_host LIKE 'stockade%' AND LOCATE(HEX('",
                            name, "'), argument)");
  server_.Query("TRUNCATE TABLE mysql.general_log");
  server_.Query("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = 1");
  const Instant deadline = Clock::System()->Now() + kPatience;
  bool listened = false;
  while (!listened && Clock::System()->Now() < deadline) listened = server_.Value(asked) != "0";
  server_.Query("SET GLOBAL general_log = 0");
  return listened;
}

void MySqlDeployment::KillServerOf(const std::string&) {
  server_.Kill();
  server_.Restart();
}

}  // namespace stockade::testing

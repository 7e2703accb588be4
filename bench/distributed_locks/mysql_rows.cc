// A lock service beside the same statements sent by hand, and beside the database's own locks.
#include "distributed_locks/mysql_rows.h"

#include <memory>
#include <string>
#include <utility>

#include "distributed_locks/load_rows.h"
#include "distributed_locks/mysql_session.h"
#include "distributed_locks/plain_mysql.h"
#include "distributed_locks/rows.h"
#include "stockade/base/strings.h"
#include "stockade/locks/mysql_lock_service.h"

namespace stockade::bench {

std::shared_ptr<OurLocks> OpenOurMySqlLocks(const std::string& sockets) {
  MySqlSession(sockets).Ask("CREATE DATABASE IF NOT EXISTS locks");
  return std::make_shared<OurLocks>(MySqlLockService::Connect(
      base_internal::Concat("mysql://root@localhost/locks?create_schema=1&socket=", sockets, "/socket")));
}

void AddMySqlRows(Suite& suite) {
  constexpr auto kKind = DiskServer::Kind::kMariaDb;
  if (const absl::Status here = DiskServer::Check(kKind, suite); !here.ok()) {
    suite.LeaveOut("MySQL's rows", std::string(here.message()));
    return;
  }
  const auto server = DiskServer::OnDemand(kKind);
  const auto add = [&](const std::string& peer, const std::string& target, MakePlainMySqlLock make) {
    AddLoadRows(suite, "MySQL", peer, target, [server, make = std::move(make)](const Scale&) -> LockSides {
      const std::string sockets = server().address();
      return {RunOf(OpenOurMySqlLocks(sockets)), RunOf(make, sockets)};
    });
  };
  add("libmariadb, same statements", "<= 1.2", &MakeTableLock);
  add("GET_LOCK()", "-", &MakeNamedLock);
  AddMySqlWaitingRow(suite, server);
}

}  // namespace stockade::bench

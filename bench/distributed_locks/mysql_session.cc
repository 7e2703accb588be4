#include "distributed_locks/mysql_session.h"

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr unsigned kDeadlock = 1213;  // ER_LOCK_DEADLOCK

}  // namespace

MySqlSession::MySqlSession(const std::string& sockets) : session_(mysql_init(nullptr), &mysql_close) {
  const std::string socket = sockets + "/socket";
  if (mysql_real_connect(session_.get(), nullptr, "root", nullptr, nullptr, 0, socket.c_str(),
                         CLIENT_MULTI_STATEMENTS) == nullptr) {
    base_internal::Fatal(base_internal::Concat("bench: MariaDB: connect: ", mysql_error(session_.get())));
  }
}

std::string MySqlSession::Ask(std::string_view statements) {
  for (;;) {
    std::string answer;
    int code = mysql_real_query(session_.get(), statements.data(), statements.size());
    for (; code == 0; code = mysql_next_result(session_.get())) {
      const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> rows(mysql_store_result(session_.get()),
                                                                  &mysql_free_result);
      if (rows == nullptr) continue;
      while (const MYSQL_ROW row = mysql_fetch_row(rows.get())) answer = row[0] != nullptr ? row[0] : "";
    }
    if (code < 0) return answer;
    if (mysql_errno(session_.get()) == kDeadlock) continue;
    base_internal::Fatal(base_internal::Concat("bench: MariaDB: ", mysql_error(session_.get()), ": ", statements));
  }
}

}  // namespace stockade::bench

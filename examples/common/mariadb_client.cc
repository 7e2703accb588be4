#include "common/mariadb_client.h"

#include <mysql.h>

#include <charconv>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace examples {
namespace {

constexpr unsigned kTimeoutSeconds = 20;

absl::Status ErrorOf(st_mysql* session) {
  const unsigned error = mysql_errno(session);
  const std::string text = absl::StrCat("MariaDB: ", mysql_error(session));
  // The connector's own numbers, and "server shutdown in progress".
  const bool unanswered = error == 0 || (error >= 2000 && error < 3000) || error == 1053;
  return unanswered ? absl::UnavailableError(text) : absl::InternalError(text);
}

void TakeRows(MYSQL_RES* result, MariaDbRows& rows) {
  const unsigned columns = mysql_num_fields(result);
  while (MYSQL_ROW row = mysql_fetch_row(result)) {
    MariaDbRow& values = rows.emplace_back();
    for (unsigned i = 0; i < columns; ++i) values.emplace_back(row[i] == nullptr ? "" : row[i]);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MariaDbClient>> MariaDbClient::Connect(const std::string& socket,
                                                                      const std::string& database) {
  // Not thread-safe in the connector unless this has run before.
  [[maybe_unused]] static const int initialized = mysql_library_init(0, nullptr, nullptr);
  MYSQL* const session = mysql_init(nullptr);
  if (session == nullptr) return absl::ResourceExhaustedError("MariaDB's connector: out of memory");
  std::unique_ptr<MariaDbClient> client(new MariaDbClient(session));
  mysql_options(session, MYSQL_OPT_CONNECT_TIMEOUT, &kTimeoutSeconds);
  mysql_options(session, MYSQL_OPT_READ_TIMEOUT, &kTimeoutSeconds);
  mysql_options(session, MYSQL_OPT_WRITE_TIMEOUT, &kTimeoutSeconds);
  if (mysql_real_connect(session, nullptr, "root", "", database.empty() ? nullptr : database.c_str(), 0, socket.c_str(),
                         CLIENT_MULTI_STATEMENTS) == nullptr) {
    return ErrorOf(session);
  }
  return client;
}

MariaDbClient::~MariaDbClient() { mysql_close(session_); }

absl::Status MariaDbClient::Failed() {
  absl::Status error = ErrorOf(session_);
  broken_ = broken_ || absl::IsUnavailable(error);
  return error;
}

absl::StatusOr<MariaDbRows> MariaDbClient::Run(std::string_view statements) {
  MariaDbRows rows;
  if (mysql_real_query(session_, statements.data(), statements.size()) != 0) return Failed();
  for (;;) {
    const std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> result(mysql_store_result(session_),
                                                                          &mysql_free_result);
    if (result != nullptr) {
      TakeRows(result.get(), rows);
    } else if (mysql_field_count(session_) > 0) {
      return Failed();
    }
    const int more = mysql_next_result(session_);
    if (more > 0) return Failed();
    if (more < 0) return rows;  // That was the last one.
  }
}

absl::StatusOr<int64_t> MariaDbClient::QueryInt(std::string_view statement) {
  const absl::StatusOr<MariaDbRows> rows = Run(statement);
  if (!rows.ok()) return rows.status();
  if (rows->size() != 1 || rows->front().size() != 1) {
    return absl::InternalError(absl::StrCat("MariaDB: not one value: ", std::string(statement)));
  }
  const std::string& text = rows->front().front();
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || rest != text.data() + text.size()) {
    return absl::InternalError(absl::StrCat("MariaDB: '", text, "' is not a number: ", std::string(statement)));
  }
  return value;
}

int64_t MariaDbClient::inserted_id() const { return static_cast<int64_t>(mysql_insert_id(session_)); }

}  // namespace examples

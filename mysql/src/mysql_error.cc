#include "stockade/mysql/internal/mysql_error.h"

#include <algorithm>
#include <iterator>

#include "stockade/base/strings.h"

namespace stockade::mysql_internal {
namespace {

using absl::StatusCode;

struct Entry {
  unsigned error;
  MySqlMeaning meaning;
};

// By number. The headers of the two servers name some of them differently, and lack the other's.
constexpr Entry kMeanings[] = {
    {1020, {StatusCode::kUnavailable, MySqlRemedy::kRunAgain}},          // The row has changed since it was read.
    {1021, {StatusCode::kUnavailable, MySqlRemedy::kNone}},              // Disk full.
    {1037, {StatusCode::kUnavailable, MySqlRemedy::kNone}},              // Out of memory, this and the next.
    {1038, {StatusCode::kUnavailable, MySqlRemedy::kNone}},              //
    {1040, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Too many connections.
    {1041, {StatusCode::kUnavailable, MySqlRemedy::kNone}},              // Out of resources.
    {1042, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Bad host, this and the next.
    {1043, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         //
    {1044, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},    // To the database; see 1142.
    {1045, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},    // Wrong password.
    {1047, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Galera: this node is not of the majority.
    {1049, {StatusCode::kFailedPrecondition, MySqlRemedy::kReconnect}},  // No such database.
    {1053, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Shutdown.
    {1054, {StatusCode::kFailedPrecondition, MySqlRemedy::kNone}},       // No such column.
    {1077, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Shutdown, this and the next.
    {1079, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         //
    {1114, {StatusCode::kUnavailable, MySqlRemedy::kNone}},              // Table full.
    {1129, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Blocked after many errors.
    {1130, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},    // From this host.
    {1142, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},  // To the table: sessions keep their first rights
    {1143, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},  // to the database. To the column.
    {1146, {StatusCode::kFailedPrecondition, MySqlRemedy::kNone}},     // No such table.
    {1152, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // Connection aborted.
    {1158, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // Network, these four.
    {1159, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       //
    {1160, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       //
    {1161, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       //
    {1203, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // Too many connections of the user.
    {1205, {StatusCode::kUnavailable, MySqlRemedy::kRollBack}},        // Lock wait.
    {1206, {StatusCode::kUnavailable, MySqlRemedy::kRunAgain}},        // Too many locks.
    {1213, {StatusCode::kUnavailable, MySqlRemedy::kRunAgain}},        // Deadlock.
    {1226, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // The user's resources.
    {1227, {StatusCode::kPermissionDenied, MySqlRemedy::kNone}},       // Needs a privilege.
    {1290, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // Read-only server.
    {1317, {StatusCode::kUnavailable, MySqlRemedy::kRollBack}},        // KILL QUERY.
    {1370, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},  // To a routine.
    {1665, {StatusCode::kFailedPrecondition, MySqlRemedy::kNone}},     // binlog_format is STATEMENT.
    {1698, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},  // No password.
    {1792, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // Read-only transaction.
    {1836, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // Read-only mode.
    {1927, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},       // KILL, MariaDB.
    {1969, {StatusCode::kUnavailable, MySqlRemedy::kRollBack}},        // max_statement_time, MariaDB.
    {2059, {StatusCode::kFailedPrecondition, MySqlRemedy::kReconnect}},  // An authentication that is not installed.
    {3024, {StatusCode::kUnavailable, MySqlRemedy::kRollBack}},          // max_execution_time, MySQL.
    {3100, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Group replication.
    {3101, {StatusCode::kUnavailable, MySqlRemedy::kRunAgain}},          // Group replication: a conflict at COMMIT.
    {3118, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},    // Account locked, MySQL.
    {3169, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // KILL, MySQL.
    {4031, {StatusCode::kUnavailable, MySqlRemedy::kReconnect}},         // Idle for too long, MySQL.
    {4151, {StatusCode::kPermissionDenied, MySqlRemedy::kReconnect}},    // Account locked, MariaDB.
    {5010, {StatusCode::kFailedPrecondition, MySqlRemedy::kReconnect}},  // An authentication that is not allowed.
};

}  // namespace

MySqlMeaning MeaningOfMySqlError(unsigned error) {
  const auto found = std::ranges::lower_bound(kMeanings, error, {}, &Entry::error);
  if (found != std::end(kMeanings) && found->error == error) return found->meaning;
  if (IsMySqlClientError(error)) return {StatusCode::kUnavailable, MySqlRemedy::kReconnect};
  return {};
}

absl::Status MySqlErrorStatus(unsigned error, std::string_view text) {
  return absl::Status(MeaningOfMySqlError(error).code, Concat("MySQL error ", error, ": ", text));
}

}  // namespace stockade::mysql_internal

#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_SCHEMA_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_SCHEMA_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/status.h"

namespace stockade::locks_internal {

// "`stockade_locks`": a row for each name. Every step locks it first, so that the steps of one name are one after
// another; it is never locked by a client that may stop, as a step is one packet. It has the newest fencing token.
std::string MySqlLocksTable(std::string_view prefix);

// "`stockade_lock_holds`": a row for each owner's hold, and for 20 s after it ended, to know steps that come late.
// Times are in microseconds since 1970, UTC, on the database's clock. Invariants:
//  - hold_count > 0 and expires_at in the future: it is held. What has lapsed becomes hold_count = 0 before anybody
//  else
//    is let in: a renewal that was on its way then finds nothing to renew.
//  - sequence is of the newest step that changed the row; newest_step says what that was, and was answered
//    (MySqlNewestStep).
std::string MySqlHoldsTable(std::string_view prefix);

// The statements that make both, one after another.
std::string MySqlSchema(std::string_view prefix);

// Statements that need the rights that locks need, and change no rows.
std::string MySqlRightsQuery(std::string_view prefix);

// Asks for the columns of both tables. CheckMySqlSchema() reads the answer: FailedPrecondition says what is missing or
// different.
std::string MySqlSchemaQuery(std::string_view prefix);
// Of a column: its table, the engine and the comment of that, its name, its type, and its place in the primary key.
using MySqlSchemaRow = std::tuple<std::string, std::optional<std::string>, std::optional<std::string>, std::string,
                                  std::string, std::optional<int64_t>>;
absl::Status CheckMySqlSchema(std::string_view prefix, std::span<const MySqlSchemaRow> answer);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_SCHEMA_H_

#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_SCRIPTS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_SCRIPTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mysql_poller.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/mysql/internal/mysql_reading.h"

namespace stockade::locks_internal {

// What a hold's row says of its newest step.
enum class MySqlNewestStep : uint8_t {
  kTry = 0,
  kReleased = 1,    // These three: a release, and what it was answered.
  kNotHeld = 2,     // It had been held.
  kNeverHeard = 3,  // Of the hold, so that it may have been released before without being remembered.
};

// Statements that are sent in one packet, and decide by the session's variables.
struct MySqlPacket {
  std::string statements = {};
  size_t commit = 0;  // The place of COMMIT: what fails before it has changed nothing.
};

// The steps of locks as statements, and what the database answers to them. Values go as numbers and as hexadecimal
// literals. Immutable; thread-safe; sends nothing.
class MySqlLockScripts {
 public:
  // `client_id`: 16 random bytes, which no other client has.
  MySqlLockScripts(std::string_view table_prefix, std::string_view client_id);

  MySqlPacket Try(const LockTry& step) const;
  MySqlPacket Release(const LockRelease& step) const;
  // One UPDATE for each, from place 1 on, whose matched rows say whether it is held. Sort them by SortForRenewal():
  // clients that lock rows in one order have no deadlocks.
  MySqlPacket Renew(std::span<LockRenewal* const> renewals) const;
  static void SortForRenewal(std::vector<LockRenewal*>& renewals);
  MySqlPacket ForceRelease(std::string_view name) const;
  std::string Inspect(std::string_view name, OwnerId owner) const;
  std::string Ask(std::span<const std::string> names) const;
  // Deletes at most `most` rows of each table; the second only where tokens are forgotten.
  std::string Purge(absl::Duration token_retention, int most) const;

  // The rows that the statements return, which are the same for all packets of a kind. Each function below fills in
  // what the engine has to set, from the rows of an answer that is OK. The answer, the count, the token, and the time
  // until the lock is free, in microseconds.
  using TryRow =
      std::tuple<std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>>;
  static void TakeAnswer(const TryRow& row, LockTry& step);
  // The answer, whether the hold has ended, and the other holds of the name. Gives whether others may enter now who
  // could not before.
  using ReleaseRow = std::tuple<std::optional<int64_t>, std::optional<bool>, std::optional<int64_t>>;
  static bool TakeAnswer(const ReleaseRow& row, LockRelease& step);
  // The kind that was released, and one that no lock has. FailedPrecondition: the name has a row that is no lock's.
  using ForceReleaseRow = std::tuple<std::optional<int64_t>, std::optional<int64_t>>;
  static absl::StatusOr<std::optional<LockKind>> ForceReleaseAnswer(const ForceReleaseRow& row, std::string_view name);
  // What is left of the lock in microseconds, its kind, the owner's holds, and a kind that no lock has.
  using InspectRow =
      std::tuple<std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>, std::optional<int64_t>>;
  static absl::StatusOr<LockState> InspectAnswer(const InspectRow& row, std::string_view name);
  // The place of a name, a kind, and what changes with each hold of that kind.
  using AskRow = std::tuple<uint64_t, int64_t, uint64_t>;
  static std::vector<NameState> AskAnswer(std::span<const AskRow> rows, size_t names);

 private:
  // What the three that change a name begin with.
  std::string BeginStep(std::string_view name) const;
  std::string Owner(OwnerId owner) const;

  const std::string locks_;
  const std::string holds_;
  const std::string client_id_;  // In hexadecimal.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_SCRIPTS_H_

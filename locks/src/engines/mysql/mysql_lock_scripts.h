#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_SCRIPTS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_SCRIPTS_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "mysql_poller.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/mysql/internal/mysql_reply.h"

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

  // Each fills in what the engine has to set, from the last rows of an answer that is OK. TakeAnswer() of a release
  // gives whether others may enter now who could not before.
  static void TakeAnswer(const MySqlReply& reply, LockTry& step);
  static bool TakeAnswer(const MySqlReply& reply, LockRelease& step);
  // FailedPrecondition: the name has a row that is no lock's.
  static absl::StatusOr<std::optional<LockKind>> ForceReleaseAnswer(const MySqlReply& reply, std::string_view name);
  static absl::StatusOr<LockState> InspectAnswer(const MySqlReply& reply, std::string_view name);
  static std::vector<NameState> AskAnswer(const MySqlReply& reply, size_t names);

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

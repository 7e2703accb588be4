#ifndef STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_ENGINE_H_
#define STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_ENGINE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mysql_lock_scripts.h"
#include "mysql_poller.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/instant.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/mysql_lock_service.h"
#include "stockade/mysql/internal/mysql_pool.h"

namespace stockade::locks_internal {

// Returns the target of a URL for MySqlLockService::Connect(), and overrides `options` by its parameters. Does not
// validate `options`.
absl::StatusOr<MySqlTarget> ParseMySqlLockUrl(std::string_view url, MySqlLockOptions& options);

// Locks in two tables of a database.
class MySqlLockEngine final : public LockEngine {
 public:
  // As MySqlLockService::Connect(). `options` are valid, except that the URL's values are checked here.
  static absl::StatusOr<std::unique_ptr<MySqlLockEngine>> Connect(std::string_view url, MySqlLockOptions options);
  ~MySqlLockEngine() override;

  std::string_view kind() const override { return "mysql"; }
  std::string_view id() const override { return id_; }
  bool Supports(LockKind kind) const override { return kind != LockKind::kFair; }

  // One after another on one connection; one whose row another has locked comes again after the rest.
  void TryMany(std::span<LockTry> tries) override;
  // In one transaction; one that fails is left out, and the rest sent again.
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override;
  // As TryMany(), on any connections.
  void ReleaseMany(std::span<LockRelease> releases) override;
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override;
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override;

  // For tests: how often the database was asked for those who wait.
  uint64_t questions() const { return poller_.questions(); }

 private:
  MySqlLockEngine(MySqlTarget target, std::unique_ptr<MySqlConnection> first, EventFd stop,
                  const MySqlLockOptions& options);

  struct Outcome {
    MySqlReply reply = {};
    bool unknown = false;  // Not OK: it may have been run, or may be yet.
  };
  // One packet on a connection, again if the database rolled it back for another's sake, until `deadline`.
  Outcome RunStep(const MySqlPacket& packet, std::span<const MySqlSink> results, Instant deadline);
  // Whether it only waited for a row in vain, and has the time to do so once more.
  static bool MayWaitAgain(const Outcome& outcome, Instant deadline);
  // Runs the packet once, and again only after deadlocks.
  static Outcome RunOnce(MySqlConnection& connection, const MySqlPacket& packet, std::span<const MySqlSink> results,
                         Instant deadline, const std::function<void()>& on_sent = nullptr);
  // False: it only waited for a row in vain, and has the time to do so once more.
  bool ReleaseOnce(LockRelease& release, Instant deadline);
  std::vector<LockRenewal*> RenewTogether(std::vector<LockRenewal*> renewals, Instant deadline);

  std::optional<std::vector<NameState>> Ask(std::span<const std::string> names);
  bool Purge();

  const std::string id_;
  const MySqlLockScripts scripts_;
  const absl::Duration engine_timeout_;
  const absl::Duration token_retention_;
  MySqlPool pool_;
  MySqlPoller poller_;  // The last: its thread uses the others.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_MYSQL_MYSQL_LOCK_ENGINE_H_

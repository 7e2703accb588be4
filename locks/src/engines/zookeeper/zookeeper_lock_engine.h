#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_LOCK_ENGINE_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_LOCK_ENGINE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/zookeeper_lock_service.h"
#include "zookeeper_connection.h"
#include "zookeeper_holds.h"
#include "zookeeper_janitor.h"
#include "zookeeper_round.h"
#include "zookeeper_url.h"

namespace stockade::locks_internal {

// Locks as nodes of ZooKeeper; zookeeper_nodes.h has how. Re-entries are counted here, and leases that end before their
// session are ended from here.
//
// The engine, the table, the janitor, the connection and the session have a mutex each. None is held while another is
// taken or a request is sent, except the session's own.
class ZooKeeperLockEngine final : public LockEngine {
 public:
  static absl::StatusOr<std::unique_ptr<ZooKeeperLockEngine>> Connect(std::string_view url,
                                                                      ZooKeeperLockOptions options);
  ~ZooKeeperLockEngine() override;

  std::string_view kind() const override { return "zookeeper"; }
  std::string_view id() const override { return id_; }
  bool Supports(LockKind) const override { return true; }
  bool TokensSurviveFailover() const override { return true; }
  bool Queues(LockKind) const override { return true; }

  void TryMany(std::span<LockTry> tries) override;
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override;
  void ReleaseMany(std::span<LockRelease> releases) override;
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override;
  // The engine must outlive what it returns.
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override;

 private:
  struct Listener;
  class NodeWatch;

  ZooKeeperLockEngine(ZooKeeperSessionOptions session, absl::Duration place_life, std::string id);

  // Makes the root unless it exists, and checks that it can be read. If a session ends meanwhile, goes on with the
  // next.
  absl::Status CheckRoot(Instant until);
  // The same in one session. Unavailable: the session did not answer, and the call may be repeated.
  absl::Status MakeRoot(ZooKeeperSession& session, Instant until);
  // The children of a lock, behind a sync, and the session that has answered; none where there is no such lock.
  absl::StatusOr<std::vector<std::string>> ListChildren(std::shared_ptr<ZooKeeperSession>& session,
                                                        std::string_view name, Instant until);
  // A release that waits for an answer.
  struct Leaving {
    LockRelease* release;
    ZooKeeperHolds::Lowered lowered;
    size_t answer;  // Its place in the round.
  };
  // None: it is answered without the servers. Sets `asked` to the session that it asked, if any.
  std::optional<Leaving> BeginRelease(LockRelease& release, ZooKeeperRound& round,
                                      std::shared_ptr<ZooKeeperSession>& asked);
  void EndRelease(const Leaving& leaving, int code);
  // Notifies the listener of this hold when the node before it is deleted, or at once if none is known.
  void Listen(const HoldKey& hold);
  void TellAll();

  const ZooKeeperSessionOptions session_options_;
  const std::string id_;
  Clock* const clock_;

  Mutex mutex_;
  absl::flat_hash_map<HoldKey, std::shared_ptr<Listener>> listeners_ STOCKADE_GUARDED_BY(mutex_);

  const std::shared_ptr<ZooKeeperJanitor> janitor_;
  ZooKeeperHolds holds_;
  ZooKeeperConnection connection_;  // Last: its thread, and what it calls, use the above.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_LOCK_ENGINE_H_

#ifndef STOCKADE_REDIS_SENTINELS_H_
#define STOCKADE_REDIS_SENTINELS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asking_order.h"
#include "connect.h"
#include "link.h"
#include "stockade/base/instant.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_url.h"

namespace stockade::redis_internal {

// The Sentinels of a URL, and those that these know of: they tell where the master is. Thread-safe; all that takes a
// deadline blocks until then at the most.
class Sentinels {
 public:
  Sentinels(const RedisUrl& url, const RedisOptions& options, std::shared_ptr<TlsConfig> tls);

  // Connects to the server that the Sentinels name, asked one after another until one names a server that itself says
  // that it is a master. FailedPrecondition where those that answer do not know the master's name, else mostly
  // Unavailable; the text tells what each has said.
  absl::StatusOr<std::unique_ptr<Link>> ConnectToMaster(Instant deadline);

  // Connects to `server`, which a Sentinel has named. Unavailable where it is no master.
  absl::StatusOr<std::unique_ptr<Link>> ConnectAsMaster(const RedisEndpoint& server, Instant deadline) const;

  // Connects to a replica that a Sentinel names as up, one of them at random, and that itself says that it follows its
  // master. Unavailable where there is none, with the reason.
  absl::StatusOr<std::unique_ptr<Link>> ConnectToReplica(Instant deadline);

  // For a caller that watches one Sentinel: the Sentinel to use, a connection to it, the master that it names, and a
  // way to report that it was of no use.
  RedisEndpoint Next() const { return order_.Get().front(); }
  absl::StatusOr<std::unique_ptr<Link>> Connect(const RedisEndpoint& sentinel, Instant deadline) const;
  absl::StatusOr<RedisEndpoint> AskForMaster(Link& sentinel, Instant deadline);
  void Failed(const RedisEndpoint& sentinel) { order_.Failed(sentinel); }

 private:
  absl::StatusOr<RedisEndpoint> AskForMasterAt(const RedisEndpoint& sentinel, Instant deadline);
  absl::StatusOr<std::vector<RedisEndpoint>> AskForReplicasAt(const RedisEndpoint& sentinel, Instant deadline) const;
  absl::StatusOr<std::unique_ptr<Link>> ConnectAsReplica(const RedisEndpoint& server, Instant deadline) const;

  const std::string master_name_;
  const LinkIdentity at_master_;
  const LinkIdentity at_sentinels_;
  const size_t max_reply_bytes_;
  const AllowedHosts allowed_hosts_;
  AskingOrder order_;
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SENTINELS_H_

#ifndef STOCKADE_CACHE_REDIS_CACHE_TIER_H_
#define STOCKADE_CACHE_REDIS_CACHE_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/redis/redis_options.h"

namespace stockade {

class LockService;

// Options of a RedisCacheTier. All processes that share caches should use the same values.
struct STOCKADE_EXPORT RedisCacheTierOptions {
  // The tier's name in Redis: all its keys begin with "sc1:{<prefix>}:". Tiers of the same prefix on the same Redis are
  // one tier, so two services need two prefixes. Required: 1 to 64 printable ASCII characters without blanks and
  // braces. In a cluster the prefix selects the slot, and thus the node; open several tiers to use several nodes.
  std::string prefix = {};

  // How often the tier reads the journal of invalidations. An invalidation by another process takes effect within this
  // time, plus a round trip, as long as Redis can be reached. Usually a message makes it take effect within
  // milliseconds. Jittered by a tenth. At least 1 ms and at most a quarter of max_staleness.
  Duration heartbeat = absl::Milliseconds(250);

  // Whether the process publishes its invalidations and the ends of its loads by pub/sub, and subscribes to those of
  // others. If false, the processes find them by polling. For servers and proxies without pub/sub, and for fleets in
  // which the number of processes times that of invalidations per second is more than Redis can send.
  bool pubsub = true;

  // How outdated a value may be that a process serves from its memory, at most, also while Redis cannot be reached: the
  // time from an invalidation that Redis has accepted to the last moment at which another process serves the old value.
  // Longer values let processes that are cut off from Redis use their memory for longer. 10 ms to 1 h.
  Duration max_staleness = absl::Seconds(10);

  // The time limit of a call to Redis. If Redis answers nothing for that long, calls stop waiting for it until a
  // heartbeat succeeds. Replaces redis.command_timeout. 1 ms to 1 min.
  Duration timeout = absl::Milliseconds(500);

  // How long the right to load a key outlives its loader. It is renewed every quarter of this time. If a loader is
  // killed, another process loads the key after at most this time and a tenth, and usually after 0.4 to 0.75 of it:
  // Redis detects that a killed process has no subscription, except in a cluster of Redis 6.2. 10 ms to 1 min, and at
  // least 3 * heartbeat is advised.
  Duration lease = absl::Seconds(2);

  // How long the lease of one load is renewed. A load that takes longer loses its lease, and its value is not stored in
  // Redis. At least `lease`.
  Duration max_load = absl::Minutes(1);

  // The number of invalidations that the journal keeps, approximately. A process that has missed more drops all that it
  // has in memory. 100 to 10,000,000; an entry takes some 50 bytes of Redis's memory, plus the key or tag.
  int64_t journal_length = 10'000;

  // The longest life of a value in Redis, its grace period included. 1 s to 366 days.
  Duration max_ttl = absl::Hours(24);

  // The largest encoded value. Larger ones are not stored in Redis. 0 to 256 MiB, and at least 64 KiB less than
  // redis.max_reply_bytes and redis.max_unsent_bytes.
  size_t max_value_bytes = size_t{1} << 20;

  // The locks of updates of strict caches (LoadingCacheOptions::strict); null: the tier has no such caches. Any service
  // that has kWrite and fencing tokens, such as RedisLockService, and not RedlockService; on the same servers or on
  // others. All processes need the
  // same locks. The locks are named "<prefix>:<cache>:<key>", where braces and % of the key are written as %7b, %7d and
  // %25; of the kind kWrite; and renewed by the service. Must outlive the tier and its caches.
  LockService* locks = nullptr;

  // The registry that exports the metrics; null disables them. Must outlive the tier and its caches. CacheTier::Stats()
  // reads the same counters. So it has zeros for what is counted if this is null, and sums over tiers of one prefix and
  // caches of one name that use the same registry, like the metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // Whether Connect() fails if Redis does not answer, or not now. If false, the tier then begins without Redis, so that
  // a service starts although its cache is away.
  bool require_redis = false;

  // Options of the connections, of which there are three: one for the calls, one for heartbeats, leases and retries,
  // and one for messages. command_timeout, wait_for_connection and callback_executor are not used.
  RedisOptions redis = {};

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// The second level of LoadingCache in Redis 6.2 or newer: one server, Sentinels, or a slot of a cluster, depending on
// the URL (redis_url.h). docs/FLEET_CACHE_WIRE.md says how Redis is to be configured, and describes the keys.
class STOCKADE_EXPORT RedisCacheTier {
 public:
  // Blocks until the first heartbeat has been answered, for at most redis.connect_timeout.
  //   InvalidArgument: the URL or an option is invalid, or the server does not have the URL's database.
  //   Unauthenticated: the server refuses the URL's user and password.
  //   PermissionDenied: a host is not in redis.allowed_hosts; or the user may not run the heartbeat's commands or use
  //     the state and the journal. Missing rights to other commands and keys show later: calls behave as if Redis were
  //     away.
  //   FailedPrecondition: Redis refuses the heartbeat for another reason that a retry does not change.
  //   Internal, DataLoss, Unknown: what answers is not Redis, or not what the URL says (a Sentinel, a cluster).
  //   ResourceExhausted: a thread or a file descriptor could not be created.
  //   Unavailable, DeadlineExceeded, and other errors of RedisClient::Connect(): only if require_redis is true.
  // Otherwise, no answer, or one that means "not now" (LOADING, MASTERDOWN, READONLY, CLUSTERDOWN, BUSY, MISCONF, OOM,
  // too many clients, Sentinels that do not know a master yet, an error that Redis does not have), is no error. It is
  // logged as a warning once, and the caches load for themselves until a heartbeat succeeds. An error of the list that
  // comes only then is logged as an error, and the metric stockade_cache_tier_heartbeats_total counts it as refused. A
  // state of another type is replaced, which is logged as an error. If the user may not run INFO, failovers cannot be
  // detected; this is logged as a warning.
  static absl::StatusOr<std::shared_ptr<CacheTier>> Connect(std::string_view url, RedisCacheTierOptions options);
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_REDIS_CACHE_TIER_H_

#ifndef STOCKADE_REDIS_SENTINEL_ROUTER_H_
#define STOCKADE_REDIS_SENTINEL_ROUTER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "router.h"
#include "sentinels.h"
#include "single_router.h"
#include "stockade/base/backoff.h"
#include "stockade/base/mutex.h"

namespace stockade::redis_internal {

// The master that Sentinels name, and after a failover the next one.
//
// A thread of the router keeps two connections to one of the Sentinels. On one it receives switches; on the other it
// asks for the master, at each switch and every kAskEvery. So neither a missed event nor a silent Sentinel makes it
// keep an old master. An answer counts once the named server itself says that it is a master, so a Sentinel that was
// cut off does not end a good connection.
class SentinelRouter final : public Router {
 public:
  // `timers` and `metrics` must outlive it.
  SentinelRouter(const RedisUrl& url, const RedisOptions& options, std::shared_ptr<TlsConfig> tls, TimerQueue* timers,
                 ComponentMetrics* metrics);

  // Without a master that can be reached: the error of Sentinels::ConnectToMaster().
  absl::Status Start(bool wait) override;
  void Stop() override;

  absl::StatusOr<Hop> Route(const RedisCommand& command) override { return single_.Route(command); }
  // After the first call there is a connection to a replica, besides that to the master.
  absl::StatusOr<Hop> RouteToReplica(const RedisCommand& command) override;
  Verdict OnErrorReply(std::string_view error, Hop& hop) override { return single_.OnErrorReply(error, hop); }
  Verdict OnFailure(const absl::Status& status, Hop& hop) override { return single_.OnFailure(status, hop); }

  absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view, Instant deadline) override {
    return Connect(deadline);
  }
  absl::StatusOr<std::string> ChannelHome(std::string_view channel) override;

  size_t pending() const override;

 private:
  static constexpr absl::Duration kAskEvery = absl::Seconds(1);
  // The first event is asked about at once. If more follow, the least time between questions grows from the one to the
  // other; it begins again once no event has come for kMostBetween.
  static constexpr absl::Duration kLeastBetween = absl::Milliseconds(5);
  static constexpr absl::Duration kMostBetween = absl::Milliseconds(100);

  absl::StatusOr<std::unique_ptr<Link>> Connect(Instant deadline);
  void SetMaster(const RedisEndpoint& master);

  // The watching thread's.
  void Watch();
  bool WatchAt(const RedisEndpoint& sentinel);  // Until it is of no more use. True: it had been of some.
  bool WatchOn(Link& events, Link& asks);
  bool Follow(const RedisEndpoint& master);
  bool PauseUntil(Instant until);  // False: stopping.

  const RedisOptions options_;
  Sentinels sentinels_;
  TimerQueue* const timers_;
  ComponentMetrics* const metrics_;

  mutable Mutex mutex_;
  // The server that was connected to last, or found to be the master.
  std::optional<RedisEndpoint> master_ STOCKADE_GUARDED_BY(mutex_);
  std::shared_ptr<Pipeline> replica_ STOCKADE_GUARDED_BY(mutex_);  // Null: not needed yet. Lock order: after mutex_.
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  CondVar stopped_;                                     // stopping_ became true.
  Link* events_ STOCKADE_GUARDED_BY(mutex_) = nullptr;  // The watching thread's connection, for Stop() to break.
  SingleRouter single_;                                 // Its thread uses the members above.
  std::thread thread_;
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SENTINEL_ROUTER_H_

#ifndef STOCKADE_REDIS_ROUTER_H_
#define STOCKADE_REDIS_ROUTER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline.h"
#include "stockade/base/mutex.h"
#include "stockade/redis/redis_command.h"

namespace stockade::redis_internal {

// The next step of a command.
struct Hop {
  std::shared_ptr<Pipeline> pipeline = nullptr;  // Null: Route() is to be asked.
  bool asking = false;                           // ASKING goes before it: the slot is on its way there.
  bool at_replica = false;                       // RouteToReplica() has found one.
  int redirections = 0;                          // The router's: how many in a row, without a pause.
  absl::Status refused = {};                     // Not OK: the command ends with it.
};

enum class Verdict {
  kFinal,       // The caller gets it.
  kRetryNow,    // It has not run, and may have better luck at once.
  kRetryLater,  // It has not run; after a pause.
};

// Which connection a command takes: one server, the master that sentinels name, or the nodes of a cluster. Thread-safe;
// only Start(), Stop(), ConnectForChannel() and ConnectForPattern() block.
class Router {
 public:
  virtual ~Router() = default;

  // Once, before all others but SetOnTopologyChange(). Begins, and with `wait` blocks until there is a server to talk
  // to, or the reason why there is none is known. ResourceExhausted: the system gives no thread or no file descriptor.
  virtual absl::Status Start(bool wait) = 0;
  // What is pending gets Cancelled, and so does what comes.
  virtual void Stop() = 0;

  virtual absl::StatusOr<Hop> Route(const RedisCommand& command) = 0;
  // A replica that is connected, or else as Route(). What comes of a hop to a replica is not asked about below.
  virtual absl::StatusOr<Hop> RouteToReplica(const RedisCommand& command) { return Route(command); }

  // The server at `hop` has answered with an error, whose text is `error`. If the error means that the command has not
  // run and may yet, sets `hop` to the next step, or to nothing, so that Route() is asked.
  virtual Verdict OnErrorReply(std::string_view error, Hop& hop) = 0;
  // The connection at `hop` failed with `status`; the command was not sent, or may be sent again.
  virtual Verdict OnFailure(const absl::Status& status, Hop& hop) = 0;

  // Where messages on `channel` are heard: empty where that is the same for all, else the endpoint, as its ToString()
  // has it. Channels of one home share a connection. Unavailable: not known for now.
  virtual absl::StatusOr<std::string> ChannelHome(std::string_view) { return std::string(); }
  // The home of `channel` has refused it, or ended its subscription, because it is elsewhere. `error` is what the
  // server said ("MOVED ..."), or empty.
  virtual void OnChannelMoved(std::string_view channel, std::string_view error) { (void)channel, (void)error; }
  // Makes a connection for subscriptions: to the home of `channel`. Blocks.
  virtual absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view channel, Instant deadline) = 0;
  // The same for subscriptions to patterns, which belong to no slot.
  virtual absl::StatusOr<std::unique_ptr<Link>> ConnectForPattern(Instant deadline) {
    return ConnectForChannel({}, deadline);
  }
  // True: channels belong to slots (SSUBSCRIBE, SPUBLISH).
  virtual bool sharded_channels() const { return false; }

  virtual size_t pending() const = 0;

  // `changed` is called when ChannelHome() may have become another: on any thread, with no lock held; must be short and
  // must not block. Not called any more once Stop() has returned.
  void SetOnTopologyChange(std::function<void()> changed) {
    const MutexLock lock(hook_mutex_);
    on_topology_change_ = std::make_shared<const std::function<void()>>(std::move(changed));
  }

 protected:
  void TopologyChanged() const {
    std::shared_ptr<const std::function<void()>> changed;
    {
      const MutexLock lock(hook_mutex_);
      changed = on_topology_change_;
    }
    if (changed != nullptr && *changed) (*changed)();
  }

 private:
  mutable Mutex hook_mutex_;
  std::shared_ptr<const std::function<void()>> on_topology_change_ STOCKADE_GUARDED_BY(hook_mutex_);
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_ROUTER_H_

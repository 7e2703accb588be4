#ifndef STOCKADE_REDIS_REDIS_CLIENT_H_
#define STOCKADE_REDIS_REDIS_CLIENT_H_

#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_reply.h"
#include "stockade/redis/redis_script.h"
#include "stockade/redis/redis_status.h"
#include "stockade/redis/redis_subscription.h"

namespace stockade {

// A Redis server, the master that sentinels name, or a cluster, for all threads of a process:
//
//   absl::StatusOr<std::unique_ptr<RedisClient>> redis = RedisClient::Connect("redis://127.0.0.1:6379");
//   absl::StatusOr<RedisReply> left = (*redis)->Run(RedisCommand("DECRBY").Key("stock").Arg(2));
//
// All commands for one server go over one connection and are pipelined by themselves: callers share round trips, and
// none waits for another to have its reply. A lone caller sends and receives on its own thread. Do not send what blocks
// the connection for everybody (BLPOP, WAIT with a long time-out) or changes its state (SELECT, MULTI, SUBSCRIBE,
// CLIENT REPLY): nothing here looks for it.
//
// A lost connection is made anew, after a pause that grows. Commands wait for it until their time-out. What had been
// sent when it was lost is Unavailable, and RedisOutcomeUnknown() is true: Redis may have run it. It is sent again only
// where the command is marked Idempotent(). What Redis itself refuses for now (LOADING, TRYAGAIN, MOVED, ...) has not
// run, and is tried again until the time-out. redis_status.h tells the errors.
//
// Commands of one thread to one server, each begun after the one before it had been handed over, run in that order,
// except around a redirection or a retry.
//
// Thread-safe. Must not be used in a forked child.
class STOCKADE_EXPORT RedisClient {
 public:
  // `url`: redis_url.h says what it may be. Blocks until the first connection is there, at most connect_timeout for
  // each endpoint, unless wait_for_connection is false; Unavailable where there is none, InvalidArgument for a bad URL
  // or bad options, or if the server lacks the URL's database, ResourceExhausted if the system gives no thread or no
  // file descriptor. Unauthenticated or PermissionDenied: the server refuses the URL's user and password.
  static absl::StatusOr<std::unique_ptr<RedisClient>> Connect(std::string_view url, RedisOptions options = {});

  // What is still to be answered gets Cancelled, and subscriptions end. Waits for callbacks on the client's own threads
  // and for an attempt to connect. No call may be running, and it must not be called on a callback.
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Blocks until the reply is there. An error that the server answers with is a status; within an array it is a reply.
  absl::StatusOr<RedisReply> Run(const RedisCommand& command, RedisCallOptions options = {});

  // All at once, in their order where they go to one server: one round trip for each server. The replies stand in the
  // order of the commands. One command's error is no other's.
  std::vector<absl::StatusOr<RedisReply>> RunMany(std::span<const RedisCommand> commands,
                                                  RedisCallOptions options = {});

  // Never blocks for the network. `done` is called once, on RedisOptions::callback_executor; what it throws is logged.
  // If the client's own thread for callbacks cannot be started, `done` gets ResourceExhausted within the call.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<RedisReply>)>;
  void RunAsync(RedisCommand command, Callback done, RedisCallOptions options = {});

  // As RunAsync(). The future must not be waited for on a callback.
  std::future<absl::StatusOr<RedisReply>> RunFuture(RedisCommand command, RedisCallOptions options = {});

  // Hears messages on `channel`, which may have any bytes, until the subscription is ended. Never blocks for the
  // network: on_subscribed tells when it has begun. ResourceExhausted: RedisOptions::max_channels, or the system gives
  // no thread. InvalidArgument: a
  // name longer than kMaxRedisChannelBytes. Cancelled, on a callback: the client is being destroyed.
  absl::StatusOr<RedisSubscription> Subscribe(std::string channel, RedisSubscriber subscriber);

  // Whether channels belong to slots: a cluster of Redis 7 or newer, where a message reaches only the node of its slot.
  bool sharded_channels() const;
  // What a message for Subscribe() is sent by, as scripts take it: "PUBLISH", or "SPUBLISH" with sharded channels,
  // where the channel is a key: Key(channel).
  std::string_view publish_command() const;

 private:
  struct Impl;
  explicit RedisClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_CLIENT_H_

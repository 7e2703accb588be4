#ifndef STOCKADE_REDIS_REDIS_CLIENT_H_
#define STOCKADE_REDIS_REDIS_CLIENT_H_

#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_reply.h"
#include "stockade/redis/redis_script.h"
#include "stockade/redis/redis_status.h"
#include "stockade/redis/redis_subscription.h"

namespace stockade {

// A client for one Redis server, for the master that Sentinels name, or for a cluster. One client serves all threads of
// a process:
//
//   absl::StatusOr<std::unique_ptr<RedisClient>> redis = RedisClient::Connect("redis://127.0.0.1:6379");
//   absl::StatusOr<RedisReply> left = (*redis)->Run(RedisCommand("DECRBY").Key("stock").Arg(2));
//
// All commands for one server use one connection and are pipelined automatically: callers share round trips, and no
// caller waits for another caller's reply. A single caller sends and receives on its own thread. Callers must not send
// commands that block the connection (BLPOP, WAIT with a long time-out) or change its state (SELECT, MULTI, SUBSCRIBE,
// CLIENT REPLY); the client does not check for them. RunTransaction() sends MULTI and EXEC.
//
// The client replaces a lost connection with exponential back-off. Commands wait for it until their time-out. A command
// that had been sent on the lost connection is Unavailable and RedisOutcomeUnknown() is true, because Redis may have
// run it; it is sent again only if it is marked Idempotent(). A command that Redis refuses for now (LOADING, TRYAGAIN,
// MOVED, ...) has not run, and is retried until its time-out. redis_status.h lists the errors.
//
// Commands that one thread sends to one server run in the order in which they were passed to the client, except around
// a redirection or a retry.
//
// Thread-safe. Must not be used in a forked child.
class STOCKADE_EXPORT RedisClient {
 public:
  // Connects to `url`; redis_url.h describes its forms. Unless wait_for_connection is false, blocks until the first
  // connection is established, for at most connect_timeout per endpoint.
  //   Unavailable: no connection could be established.
  //   InvalidArgument: the URL or an option is invalid, or the server does not have the URL's database.
  //   ResourceExhausted: a thread or a file descriptor could not be created.
  //   Unauthenticated, PermissionDenied: the server refuses the URL's user and password.
  static absl::StatusOr<std::unique_ptr<RedisClient>> Connect(std::string_view url, RedisOptions options = {});

  // Completes pending commands with Cancelled and ends the subscriptions. Waits for callbacks on the client's own
  // threads and for an attempt to connect. No call may be in progress, and a callback must not destroy the client.
  ~RedisClient();
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // Blocks until the reply has arrived. An error reply becomes a status; an error inside an array is returned as a
  // reply.
  absl::StatusOr<RedisReply> Run(const RedisCommand& command, RedisCallOptions options = {});

  // Sends all commands at once, in one round trip per server; commands for the same server keep their order. The
  // replies are in the order of the commands. An error of one command does not affect the others.
  std::vector<absl::StatusOr<RedisReply>> RunMany(std::span<const RedisCommand> commands,
                                                  RedisCallOptions options = {});

  // Runs `commands` as one transaction (RedisCommand::Transaction(), which RunAsync() and RunFuture() take, too) and
  // blocks until it has run. The replies are in the order of the commands. A command that failed when it ran has a
  // status instead; the others have run all the same.
  //
  // The status of the call is that of a command. It is an error if the transaction has not run, or if that is unknown.
  // If the server refuses a command before the transaction runs, the status is that of this error and names the
  // command. The transaction is sent again as a whole after a redirection or a refusal, and after a lost reply if all
  // commands are Idempotent(). Before the first transaction on a connection, an empty one is sent and awaited, so that
  // no command runs on its own if the user may not run MULTI and EXEC (PermissionDenied).
  absl::StatusOr<std::vector<absl::StatusOr<RedisReply>>> RunTransaction(std::span<const RedisCommand> commands,
                                                                         RedisCallOptions options = {});

  // Never blocks on the network. `done` must not be empty (aborts). It is invoked once, on
  // RedisOptions::callback_executor; exceptions that it throws are logged. If that executor throws, which is logged,
  // `done` runs on the thread at hand, which may be the one that receives replies: there it must not wait for the
  // client. If the client's own callback thread cannot be started, `done` gets ResourceExhausted during the call.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<RedisReply>)>;
  void RunAsync(RedisCommand command, Callback done, RedisCallOptions options = {});

  // Like RunAsync(). A callback must not wait for the future.
  std::future<absl::StatusOr<RedisReply>> RunFuture(RedisCommand command, RedisCallOptions options = {});

  // The server process that a command with `key` would be sent to now. Blocks until there is a connection to it, for at
  // most `timeout`; if not set, RedisOptions::command_timeout. If zero or negative, it does not wait. Sends nothing.
  //   Unavailable: there is no connection; the message says why.
  //   Unauthenticated, PermissionDenied, InvalidArgument: the same, because the server or the options refuse it, as for
  //     Connect(). The client keeps trying.
  // RedisServerIdentity::run_id is a status of its own if the server does not tell its run id.
  absl::StatusOr<RedisServerIdentity> ServerOf(std::string_view key, std::optional<Duration> timeout = std::nullopt);

  // Receives the messages on `channel`, whose name may contain any bytes, until the subscription ends. Never blocks on
  // the network: on_subscribed is invoked when the subscription has begun.
  //   ResourceExhausted: the limit RedisOptions::max_channels is reached, or a thread could not be started.
  //   InvalidArgument: the name is longer than kMaxRedisChannelBytes.
  //   Cancelled, in a callback: the client is being destroyed.
  absl::StatusOr<RedisSubscription> Subscribe(std::string channel, RedisSubscriber subscriber);

  // Receives the messages on all channels that match `pattern` (PSUBSCRIBE), such as "news.*", and otherwise behaves
  // like Subscribe(), also if connections are lost. A channel that matches several subscriptions has its messages
  // delivered to each of them. In a cluster it receives what PUBLISH sends to any node, but nothing of SPUBLISH
  // (publish_command()): Redis has no patterns for sharded channels.
  absl::StatusOr<RedisSubscription> SubscribePattern(std::string pattern, RedisPatternSubscriber subscriber);

  // Whether channels belong to hash slots. True for a cluster of Redis 7 or newer, where a message reaches only the
  // node of the channel's slot. False as long as no node of a cluster was reached (wait_for_connection).
  bool sharded_channels() const;
  // The command that publishes a message to Subscribe()'s channels, for use in scripts: "PUBLISH", or "SPUBLISH" with
  // sharded channels. SPUBLISH takes the channel as a key: Key(channel).
  std::string_view publish_command() const;

 private:
  struct Impl;
  explicit RedisClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_CLIENT_H_

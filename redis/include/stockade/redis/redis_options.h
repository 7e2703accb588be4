#ifndef STOCKADE_REDIS_REDIS_OPTIONS_H_
#define STOCKADE_REDIS_REDIS_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"
#include "stockade/redis/redis_tls_options.h"

namespace stockade {

// The largest RedisOptions::max_nodes. A cluster's map that names more masters is refused.
inline constexpr size_t kMaxRedisNodes = 2048;

// Options of a RedisClient.
struct STOCKADE_EXPORT RedisOptions {
  // The client's name in messages and the value of the metrics label `client`. Clients of the same name share their
  // metrics. Must not be empty and must be printable UTF-8 without control characters.
  std::string name = "default";

  // The time limit for each attempt to connect, which includes resolving the name, authentication and everything else
  // before the first command.
  Duration connect_timeout = absl::Seconds(1);

  // If false, Connect() does not wait for the first connection and does not fail if there is none. The client keeps
  // trying, and commands wait for the connection until their time-outs. Subscriptions begin with it.
  bool wait_for_connection = true;

  // The default time limit of a call, from the call to the reply. It includes the wait for a connection.
  //
  // The longer of command_timeout and connect_timeout, here called T, has further uses. A subscription connection that
  // is silent for T is checked with PING, which may take T. It is closed when it has had no subscription for T. A
  // command connection is closed and replaced if the oldest missing reply belongs to a command that timed out, and no
  // reply has arrived for 2 * T. The outcome of the commands that were sent after that one is then unknown.
  Duration command_timeout = absl::Seconds(3);

  // The client reconnects immediately after a connection is lost. Further attempts wait for a random part of a span
  // that doubles from min_backoff to max_backoff, so that the clients of a fleet do not reconnect at the same time.
  Duration min_backoff = absl::Milliseconds(20);
  Duration max_backoff = absl::Seconds(2);

  // Limits per connection: commands that wait for their replies, and bytes that have not been sent. A command beyond a
  // limit is refused at once (ResourceExhausted), so that a server that has stopped responding does not use up the
  // memory.
  size_t max_pending_commands = 65'536;
  size_t max_unsent_bytes = size_t{64} << 20;

  // The largest reply that is accepted. A command whose reply is larger gets ResourceExhausted as soon as the length of
  // a string or an array shows that. The connection is then replaced, because the rest of the reply would follow.
  // Redis's own limit is 512 MiB.
  size_t max_reply_bytes = size_t{64} << 20;

  // The largest number of channels that are subscribed, being subscribed or being unsubscribed. Further subscriptions
  // are refused (ResourceExhausted).
  size_t max_channels = 100'000;

  // The largest number of cluster nodes that the client has a connection to, or tries to, at a time: one connection per
  // node for commands. The bound holds for all nodes together, masters and replicas, whether the URL, the cluster's
  // map, MOVED or ASK has named them. From 1 to kMaxRedisNodes. Connections for subscriptions have the same bound,
  // separately.
  //
  // If a command needs a connection beyond the bound, the client ends one. It ends the oldest connection to a node that
  // the last map of the cluster does not name. The outcome of commands that were sent over it is then unknown, as with
  // a lost connection. If the map names all of these nodes, it ends the connection that was used least recently among
  // those without commands. The command is sent as soon as there is room. If there is none within the command's
  // time-out, it is Unavailable. Connections to replicas are made only while there is room.
  size_t max_nodes = 256;

  // The hosts, besides those of the URL, that the client may connect to and thus send its user name and password to.
  // Sentinels name a master and other Sentinels, and cluster nodes name each other. If empty, all hosts that they name
  // are allowed. An entry is a host name or an address as the servers name it, or a suffix of host names that begins
  // with a dot (".cache.example.com", which matches neither an address nor "cache.example.com"). Case is ignored, and
  // ports are not checked. The client never connects to another host. If Connect() would have to, it is
  // PermissionDenied, with the host in the message, and so is a command that a cluster would route there. After a
  // failover to a master that is not allowed, commands wait and then are Unavailable, with the host in the message. A
  // host name from a server with bytes other than letters, digits and "-_.:%" is refused, whatever the list.
  std::vector<std::string> allowed_hosts = {};

  // How TLS is used. Whether it is used depends on the URL alone: it is if that begins with rediss. Connect() returns
  // InvalidArgument if a field is set and the URL is one without TLS, or a file cannot be used.
  RedisTlsOptions tls = {};

  // Runs the callbacks of commands; must outlive the client. If null, they run on a thread of the client, which starts
  // with the first callback.
  Executor* callback_executor = nullptr;

  // The registry that exports the metrics; null disables them. Must outlive the client.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// The server that a command is sent to.
enum class RedisReadFrom : uint8_t {
  // The master.
  kMaster,

  // A replica of the master, if Sentinels or a cluster name one and the client is connected to it; otherwise the
  // master. A connection to a replica is established in the background after the first such call. Only for commands
  // that read and are known as such (GET, HGETALL, ZRANGE, EVAL_RO, ...): InvalidArgument for any other. The client may
  // send them again, as if they were Idempotent().
  //
  // The reply may be stale: replication is asynchronous. A read may miss a write that has returned, and a later read
  // may
  // be older than an earlier one. A replica that has lost its master serves what it has, of any age, unless the server
  // sets replica-serve-stale-data to no: then the client asks the master.
  kReplica,
};

// Options of one call.
struct RedisCallOptions {
  // The time limit from the call to the reply. If not set, RedisOptions::command_timeout. If zero or negative, the call
  // is DeadlineExceeded and nothing is sent.
  std::optional<absl::Duration> timeout = std::nullopt;

  // The run id of a server (RedisServerIdentity). The command is sent to that server process only: the first time, and
  // when it is sent again, is redirected, or has waited for a connection. If the connection that would carry it is to
  // a server with another run id, or with an unknown one, the call is Aborted and the command is not sent. Must not be
  // empty (InvalidArgument).
  std::optional<std::string> on_server = std::nullopt;

  // InvalidArgument if kReplica is combined with on_server.
  RedisReadFrom read_from = RedisReadFrom::kMaster;

  // If false, what was sent is not sent again: a redirection (MOVED, ASK), a refusal for now (TRYAGAIN, LOADING, ...)
  // or a lost reply ends the call with its status, of which RedisErrorCode() is the server's word. For a caller that
  // has something better to do, such as to send the commands of a transaction on their own. It still waits for a
  // connection, and a script that the server does not know is still sent with its source. InvalidArgument if it is
  // combined with kReplica, which asks the master where a replica cannot answer.
  bool retry = true;
};

// Which server process a connection is to. RedisClient::ServerOf() returns it. A plain value.
struct RedisServerIdentity {
  // The run id, which each server process chooses at random when it starts (INFO server). The client reads it at the
  // beginning of each connection, before it sends commands. FailedPrecondition, with the reason, if it is unknown
  // because the server does not tell it: the user may not run INFO (NOPERM), the server or a proxy has no such command,
  // or the reply has no run id or is larger than RedisOptions::max_reply_bytes.
  //
  // A master that was demoted and promoted again without a restart has the run id that it had before.
  absl::StatusOr<std::string> run_id = absl::FailedPreconditionError("the run id was not read");

  // The number of the connection. It also identifies connections whose run id is unknown. Two equal numbers mean the
  // same connection, and thus the same server process. Connections that are established later have larger numbers. In
  // a cluster, a slot may move to a node whose connection is older, so compare for equality to detect a change.
  uint64_t generation = 0;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_OPTIONS_H_

#ifndef STOCKADE_REDIS_REDIS_OPTIONS_H_
#define STOCKADE_REDIS_REDIS_OPTIONS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// What a RedisClient is connected with.
struct STOCKADE_EXPORT RedisOptions {
  // The label `client` of its metrics, and how messages name it. Clients of one name are summed. Not
  // empty, and printable UTF-8: no control characters.
  std::string name = "default";

  // For each attempt: the connection, authentication and all that comes before the first command. Names are resolved by
  // getaddrinfo(3), which has time-outs of its own.
  absl::Duration connect_timeout = absl::Seconds(1);

  // False, for one server only (InvalidArgument for others): Connect() does not wait for the first connection, and so
  // does not fail where there is none. The client goes on trying, and commands wait for it until their time-outs.
  bool wait_for_connection = true;

  // From the call to the reply, waiting for a connection included, where the call says nothing else. It, or
  // connect_timeout where that is longer, is also how long a connection for subscriptions may be silent before it is
  // tried by PING, then how long that may take, and how long the connection is kept after its last subscription. A
  // connection for commands that owes the reply to a command whose time-out is over, and over which no reply has come
  // for twice as long, is closed and replaced; commands that were sent behind it have an unknown outcome.
  absl::Duration command_timeout = absl::Seconds(3);

  // A lost connection is tried again at once, then after a random part of a span that doubles from the one to the
  // other: a fleet does not come back in step.
  absl::Duration min_backoff = absl::Milliseconds(20);
  absl::Duration max_backoff = absl::Seconds(2);

  // For each connection: commands that wait for their replies, and bytes of those that have not been sent. What comes
  // beyond is refused at once (ResourceExhausted): a server that stands still must not take the memory.
  size_t max_pending_commands = 65'536;
  size_t max_unsent_bytes = size_t{64} << 20;

  // A larger reply is not taken in: its command gets ResourceExhausted as soon as the length of a string or an array
  // has come that would make it larger, and the connection is made anew, since its rest would follow. Redis's own bound
  // is 512 MiB.
  size_t max_reply_bytes = size_t{64} << 20;

  // Channels subscribed to, and those on their way there or back. One more is refused (ResourceExhausted).
  size_t max_channels = 100'000;

  // Hosts that the client may connect to, and so send its user and password to, besides those of its URL: Sentinels
  // name a master and other Sentinels, and nodes of a cluster name each other. Empty: any host that they name. An entry
  // is a host name or an address as the servers name it, or, with a dot before it, the end of host names
  // (".cache.example.com"). Case does not matter. To another host no connection is made: Connect(), or a command that a
  // cluster would send there, is PermissionDenied, with the host in the message; after a failover to a master there,
  // commands wait and are Unavailable, with the host in theirs.
  std::vector<std::string> allowed_hosts = {};

  // Where callbacks of commands run; must outlive the client. Null: on a thread of the client's own, which starts with
  // the first.
  Executor* callback_executor = nullptr;

  // Where metrics are exported; null: nowhere. Must outlive the client.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// How long one call may take.
struct RedisCallOptions {
  // From the call to the reply. None: RedisOptions::command_timeout. Zero or less: DeadlineExceeded, nothing is sent.
  std::optional<absl::Duration> timeout = std::nullopt;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_OPTIONS_H_

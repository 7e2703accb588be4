#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_CONNECTION_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/mysql/internal/mysql_reading.h"
#include "stockade/mysql/internal/mysql_reply.h"
#include "stockade/mysql/internal/mysql_url.h"

struct st_mysql;      // MYSQL of the connector.
struct st_mysql_res;  // Its MYSQL_RES.

namespace stockade::mysql_internal {

// A session of a database server. Every packet of statements begins and ends without an open transaction. For one
// thread at a time. The connector counts its time-outs in seconds. Ours are exact, on the system's clock, because the
// connector calls us to wait for the socket (MARIADB_OPT_IO_WAIT).
class STOCKADE_EXPORT MySqlConnection {
 public:
  // Called while the server is silent; returns how long to wait until the next call. It may open connections.
  using Meanwhile = std::function<absl::Duration()>;
  // Blocks for at most target.connect_timeout, or until `stop_fd` is readable: Unavailable. Resolving the host's name
  // is not bounded, and `meanwhile` is not called then. FailedPrecondition: also if the session's clock stands still.
  static absl::StatusOr<std::unique_ptr<MySqlConnection>> Open(const MySqlTarget& target, int stop_fd,
                                                               const Meanwhile& meanwhile = nullptr);
  ~MySqlConnection();
  MySqlConnection(const MySqlConnection&) = delete;
  MySqlConnection& operator=(const MySqlConnection&) = delete;

  // Sends statements, separated by ';', in one packet, and collects the result of each; `results` says what those with
  // rows have to be, and where they go. Blocks until then, until `deadline` or until `stop_fd` is readable; in the last
  // two cases the connection is broken. If the reply is not that of the statements, the connection is broken, and the
  // reply is Unavailable and `unanswered`, as one that was lost. If a statement failed and the connection is not
  // broken, no transaction is left open. The values that `results` have taken are valid only if the reply is OK.
  // `on_sent`, if any, is called once the packet is sent.
  MySqlReply Run(std::string_view statements, std::span<const MySqlSink> results, Instant deadline, int stop_fd = -1,
                 const std::function<void()>& on_sent = nullptr);
  // For statements that return no rows.
  MySqlReply Run(std::string_view statements, Instant deadline, int stop_fd = -1) {
    return Run(statements, {}, deadline, stop_fd);
  }

  bool broken() const { return broken_; }
  // As the server, or a proxy before it, has told it when the connection was opened.
  uint64_t id() const;
  // Whether the server has closed it or sent unexpected bytes while it was idle. Does not block.
  bool Stale() const;

 private:
  MySqlConnection(st_mysql* session, bool tls) : session_(session), tls_(tls) {}

  // Sets what the statements rely on. FailedPrecondition: the session's clock stands still.
  absl::Status Prepare(Instant deadline, int stop_fd);
  MySqlReply Exchange(std::string_view statements, std::span<const MySqlSink> results,
                      const std::function<void()>& on_sent = nullptr);
  // Takes one result. False: it failed, as `reply` says.
  bool TakeResult(MySqlReading& reading, MySqlReply& reply);
  bool TakeRows(MySqlReading& reading, st_mysql_res* result, int64_t& rows, MySqlReply& reply);
  // Each returns false.
  bool Fail(MySqlReply& reply);
  bool Refuse(const std::string& what, MySqlReply& reply);

  st_mysql* const session_;
  const bool tls_;
  bool broken_ = false;
};

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_CONNECTION_H_

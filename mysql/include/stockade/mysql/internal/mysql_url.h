#ifndef STOCKADE_MYSQL_INTERNAL_MYSQL_URL_H_
#define STOCKADE_MYSQL_INTERNAL_MYSQL_URL_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/url_parts.h"
#include "stockade/mysql/mysql_tls.h"

namespace stockade::mysql_internal {

// The server and database to connect to, and how. Nothing in it is encoded.
struct STOCKADE_EXPORT MySqlTarget {
  std::string host = {};    // Empty if there is a socket.
  uint16_t port = 3306;     // The port of `host`.
  std::string socket = {};  // The path of a UNIX socket.
  std::string username = {};
  std::string password = {};
  std::string database = {};
  MySqlTls tls = MySqlTls::kOff;  // kDefault only before ParseMySqlUrl().
  std::string tls_ca_file = {};
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  // By which a server may ask for the password, besides those that never reveal it. Only with kVerify or a socket.
  std::string auth_plugin = {};
  absl::Duration connect_timeout = absl::Seconds(5);

  // "127.0.0.1:3306", "[::1]:3306", "/run/mysqld.sock".
  std::string Endpoint() const;
};

// Returns `target`, which has no address yet, with the address and the TLS settings of a URL of one of these forms:
//   mysql://[user[:password]@]host[:port]/database[?parameter=value&...]
//   mysql://[user[:password]@][localhost]/database?socket=/path/to.sock[&parameter=value...]
// mariadb:// is equivalent. The parameters are auth_plugin, socket, tls, tls_ca, tls_cert, tls_key, and those in
// `more`, which are the caller's. Without `tls`, the value in `target` stays, and becomes what kDefault
// says. Every error is InvalidArgument; its message never contains a password. O(length).
STOCKADE_EXPORT absl::StatusOr<MySqlTarget> ParseMySqlUrl(std::string_view url,
                                                          MySqlTarget target = {.tls = MySqlTls::kDefault},
                                                          std::span<const UrlParameter> more = {});

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_INTERNAL_MYSQL_URL_H_

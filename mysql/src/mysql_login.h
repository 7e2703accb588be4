#ifndef STOCKADE_MYSQL_SRC_MYSQL_LOGIN_H_
#define STOCKADE_MYSQL_SRC_MYSQL_LOGIN_H_

#include "absl/status/status.h"
#include "stockade/mysql/internal/mysql_url.h"

struct st_mysql;  // MYSQL of the connector.

namespace stockade::mysql_internal {

// FailedPrecondition: tls=verify, and this version of the connector accepts certificates that it could not verify.
// `version` is what it says of itself: 30320 is 3.3.20, and 101119 is the one that was built with MariaDB 10.11.19.
absl::Status CheckConnector(MySqlTls tls, size_t version);

// Restricts what a server, or an attacker in its place, gets of the login that follows on this thread; mysql/README.md
// has the table. `target` must live until then. ResourceExhausted: the connector has no memory left.
absl::Status RestrictLogin(st_mysql* session, const MySqlTarget& target);

// Whether the connection failed because the server has no TLS, which `target` needs.
bool LacksTls(st_mysql* session, const MySqlTarget& target);

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_SRC_MYSQL_LOGIN_H_

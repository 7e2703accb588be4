#ifndef STOCKADE_MYSQL_SRC_MYSQL_LOGIN_H_
#define STOCKADE_MYSQL_SRC_MYSQL_LOGIN_H_

#include "absl/status/status.h"
#include "stockade/mysql/internal/mysql_url.h"

struct st_mysql;  // MYSQL of the connector.

namespace stockade::mysql_internal {

// Restricts what a server, or an attacker in its place, gets of the login. mysql/README.md has the table.
// InvalidArgument: the file of server_public_key cannot be used. ResourceExhausted: the process has no file descriptor
// left.
absl::Status RestrictLogin(st_mysql* session, const MySqlTarget& target);

// Whether the connection failed because the server has no TLS, which tls=required needs.
bool LacksTls(st_mysql* session, const MySqlTarget& target);

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_SRC_MYSQL_LOGIN_H_

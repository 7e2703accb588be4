#include "mysql_login.h"

#include <errmsg.h>
#include <fcntl.h>
#include <mysql.h>
#include <mysql/plugin_auth.h>

#include <string>

#include "stockade/base/strings.h"

namespace stockade::mysql_internal {
namespace {

constexpr char kTlsFirst[] = "stockade_tls_first";

// The target of the login that begins on this thread: the connector passes no argument to a plug-in.
thread_local const MySqlTarget* login_target = nullptr;

// The plug-ins by which the server may ask for the password. The first two reveal nothing of it that is of use
// elsewhere. The third sends it to a server that was verified, or is local.
std::string AllowedPlugins(const MySqlTarget& target) {
  std::string plugins = "mysql_native_password,client_ed25519";
  if (target.tls == MySqlTls::kVerify || !target.socket.empty()) plugins += ",caching_sha2_password";
  if (!target.auth_plugin.empty()) plugins += Concat(",", target.auth_plugin);
  return plugins;
}

// The connector lets a plug-in begin the login, after it has read the server's greeting and before it sends anything or
// begins with TLS. If the server says that it has no TLS, the connector would send the login in clear; this plug-in
// allows the others only if the server has TLS. Its own login is empty; the server answers with the plug-in of the
// user.
//
// On a blocking socket, OpenSSL itself would wait for the rest of a record, for as long as a byte comes now and then.
// Otherwise it lets the connector wait, and so the connection's deadline holds.
int AskForTlsFirst(MYSQL_PLUGIN_VIO* vio, MYSQL* session) {
  if ((session->server_capabilities & CLIENT_SSL) == 0) {
    session->net.last_errno = CR_SSL_CONNECTION_ERROR;
    return CR_ERROR;
  }
  mysql_optionsv(session, MARIADB_OPT_RESTRICTED_AUTH, AllowedPlugins(*login_target).c_str());
  const int socket = mysql_get_socket(session);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  return vio->write_packet(vio, nullptr, 0) == 0 ? CR_OK : CR_ERROR;
}

// mysql/client_plugin.h has these, but cannot be included: Debian 12 does not install a header that it includes.
struct AuthenticationPlugin {
  st_mysql_client_plugin header;
  int (*authenticate_user)(MYSQL_PLUGIN_VIO* vio, MYSQL* session);
};
constexpr int kAuthentication = 2;
constexpr unsigned kInterfaceVersion = 0x0100;

absl::Status RequireTlsFirst(MYSQL* session, const MySqlTarget& target) {
  static AuthenticationPlugin plugin = {.header = {.type = kAuthentication,
                                                   .interface_version = kInterfaceVersion,
                                                   .name = kTlsFirst,
                                                   .author = "Stockade",
                                                   .desc = "Logs in with TLS only",
                                                   .version = {1, 0, 0},
                                                   .license = "",
                                                   .mysql_api = nullptr,
                                                   .init = nullptr,
                                                   .deinit = nullptr,
                                                   .options = nullptr},
                                        .authenticate_user = &AskForTlsFirst};
  // Returns the plug-in if it is registered already.
  if (mysql_client_register_plugin(session, &plugin.header) == nullptr) {
    return absl::ResourceExhaustedError("MySQL's connector is out of memory");
  }
  login_target = &target;
  mysql_optionsv(session, MYSQL_DEFAULT_AUTH, kTlsFirst);
  mysql_optionsv(session, MARIADB_OPT_RESTRICTED_AUTH, kTlsFirst);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConnector(MySqlTls tls, size_t version) {
  // A connector that was built with a server has the server's version: 3.4 came with 11.4.
  const bool is_built_alone = version < 100'000;
  if (tls != MySqlTls::kVerify || version < (is_built_alone ? 30'400 : 110'400)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Concat("tls=verify needs version 3.3 of MariaDB Connector/C; version ", version,
             " accepts certificates that no CA has signed, as long as the server knows the password"));
}

absl::Status RestrictLogin(MYSQL* session, const MySqlTarget& target) {
  if (target.tls != MySqlTls::kOff) return RequireTlsFirst(session, target);
  mysql_optionsv(session, MARIADB_OPT_RESTRICTED_AUTH, AllowedPlugins(target).c_str());
  return absl::OkStatus();
}

bool LacksTls(MYSQL* session, const MySqlTarget& target) {
  return target.tls != MySqlTls::kOff && mysql_errno(session) == CR_SSL_CONNECTION_ERROR &&
         (session->server_capabilities & CLIENT_SSL) == 0;
}

}  // namespace stockade::mysql_internal

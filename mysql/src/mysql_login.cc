#include "mysql_login.h"

#include <errmsg.h>
#include <mysql.h>
#include <mysql/plugin_auth.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/strings/escaping.h"
#include "stockade/base/strings.h"

namespace stockade::mysql_internal {
namespace {

// The plug-ins by which every server may ask for the password: they reveal nothing of it that is of use elsewhere.
constexpr char kSafePlugins[] = "mysql_native_password,client_ed25519";

// It is sent to a server that was verified, or is local, or in a form that only the owner of a pinned key can read.
constexpr std::string_view kSha2Plugin = "caching_sha2_password";

constexpr char kTlsFirst[] = "stockade_tls_first";

std::string AllowedPlugins(const MySqlTarget& target) {
  std::string plugins = kSafePlugins;
  const bool is_trusted = target.tls == MySqlTls::kVerify || !target.socket.empty();
  if (is_trusted || !target.server_public_key_file.empty()) plugins += Concat(",", kSha2Plugin);
  if (!target.auth_plugin.empty()) plugins += Concat(",", target.auth_plugin);
  return plugins;
}

// If the server says that it has no TLS, the connector would send the login in clear. It lets a plug-in begin the
// login, after it has read the server's greeting and before it sends anything. This one allows the others only if the
// server has TLS. Its own login is empty; the server answers with the plug-in of the user.
int AskForTlsFirst(MYSQL_PLUGIN_VIO* vio, MYSQL* session) {
  if ((session->server_capabilities & CLIENT_SSL) == 0) {
    session->net.last_errno = CR_SSL_CONNECTION_ERROR;
    return CR_ERROR;
  }
  mysql_optionsv(session, MARIADB_OPT_RESTRICTED_AUTH, kSafePlugins);
  return vio->write_packet(vio, nullptr, 0) == 0 ? CR_OK : CR_ERROR;
}

// mysql/client_plugin.h has these, but cannot be included: Debian 12 does not install a header that it includes.
struct AuthenticationPlugin {
  st_mysql_client_plugin header;
  int (*authenticate_user)(MYSQL_PLUGIN_VIO* vio, MYSQL* session);
};
constexpr int kAuthentication = 2;
constexpr unsigned kInterfaceVersion = 0x0100;

void RequireTlsFirst(MYSQL* session) {
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
  // Returns the plug-in if it is registered already. If it cannot be registered, no plug-in is allowed.
  mysql_client_register_plugin(session, &plugin.header);
  mysql_optionsv(session, MYSQL_DEFAULT_AUTH, kTlsFirst);
  mysql_optionsv(session, MARIADB_OPT_RESTRICTED_AUTH, kTlsFirst);
}

// If the connector cannot read the file, it asks the server for its key.
absl::Status CheckPublicKey(const std::string& file) {
  const auto cannot_use = [&](absl::StatusCode code, std::string_view why) {
    return absl::Status(code, Concat("server_public_key: cannot use '", absl::CHexEscape(file), "': ", why));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> opened(std::fopen(file.c_str(), "re"), &std::fclose);
  if (opened == nullptr) {
    const bool no_descriptor = errno == EMFILE || errno == ENFILE;
    return cannot_use(no_descriptor ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
                      std::generic_category().message(errno));
  }
  EVP_PKEY* const key = PEM_read_PUBKEY(opened.get(), nullptr, nullptr, nullptr);
  const bool is_rsa = key != nullptr && EVP_PKEY_is_a(key, "RSA") == 1;
  EVP_PKEY_free(key);
  return is_rsa ? absl::OkStatus() : cannot_use(absl::StatusCode::kInvalidArgument, "it has no RSA public key in PEM");
}

}  // namespace

absl::Status RestrictLogin(MYSQL* session, const MySqlTarget& target) {
  if (const std::string& file = target.server_public_key_file; !file.empty()) {
    if (absl::Status usable = CheckPublicKey(file); !usable.ok()) return usable;
    mysql_optionsv(session, MYSQL_SERVER_PUBLIC_KEY, file.c_str());
  }
  if (target.tls == MySqlTls::kRequired && target.socket.empty()) {
    RequireTlsFirst(session);
  } else {
    mysql_optionsv(session, MARIADB_OPT_RESTRICTED_AUTH, AllowedPlugins(target).c_str());
  }
  return absl::OkStatus();
}

bool LacksTls(MYSQL* session, const MySqlTarget& target) {
  return target.tls == MySqlTls::kRequired && mysql_errno(session) == CR_SSL_CONNECTION_ERROR &&
         (session->server_capabilities & CLIENT_SSL) == 0;
}

}  // namespace stockade::mysql_internal

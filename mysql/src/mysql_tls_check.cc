#include "mysql_tls_check.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/escaping.h"
#include "stockade/base/strings.h"

namespace stockade::mysql_internal {
namespace {

// The connector's own text, for a certificate that is not for the host of the URL.
constexpr std::string_view kOtherHost = "Validation of SSL server certificate failed";

// Alerts of the server (RFC 8446, 6.2) about the client's certificate, or for want of one.
constexpr int kAboutCertificate[] = {
    SSL_AD_BAD_CERTIFICATE,     SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
    SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN,     SSL_AD_UNKNOWN_CA,
    SSL_AD_ACCESS_DENIED,       SSL_AD_CERTIFICATE_REQUIRED,
};

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

absl::Status CannotUse(std::string_view parameter, const std::string& file) {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const bool system = ERR_SYSTEM_ERROR(error);
  const char* const reason = system ? nullptr : ERR_reason_error_string(error);
  const bool no_descriptor = system && (ERR_GET_REASON(error) == EMFILE || ERR_GET_REASON(error) == ENFILE);
  return absl::Status(no_descriptor ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument,
                      Concat(parameter, ": cannot use '", absl::CHexEscape(file), "': ",
                             reason != nullptr ? reason : std::generic_category().message(ERR_GET_REASON(error))));
}

// OpenSSL would ask for a passphrase on the terminal.
int RefusePassphrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*unused*/) { return -1; }

}  // namespace

absl::Status CheckTlsFiles(const MySqlTarget& target) {
  ERR_clear_error();
  const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return absl::ResourceExhaustedError("OpenSSL is out of memory");
  if (const std::string& ca = target.tls_ca_file;
      !ca.empty() && SSL_CTX_load_verify_locations(context.get(), ca.c_str(), nullptr) != 1) {
    return CannotUse("tls_ca", ca);
  }
  if (const std::string& cert = target.tls_cert_file;
      !cert.empty() && SSL_CTX_use_certificate_chain_file(context.get(), cert.c_str()) != 1) {
    return CannotUse("tls_cert", cert);
  }
  if (const std::string& key = target.tls_key_file; !key.empty()) {
    SSL_CTX_set_default_passwd_cb(context.get(), &RefusePassphrase);
    if (SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        (!target.tls_cert_file.empty() && SSL_CTX_check_private_key(context.get()) != 1)) {
      return CannotUse("tls_key", key);
    }
  }
  return absl::OkStatus();
}

absl::StatusCode MeaningOfTlsError(std::string_view text) {
  const auto ends_with = [text](const char* reason) { return reason != nullptr && text.ends_with(reason); };
  if (text.ends_with(kOtherHost)) return absl::StatusCode::kUnauthenticated;
  for (long error = X509_V_ERR_UNSPECIFIED; error <= X509_V_ERR_OCSP_CERT_UNKNOWN; ++error) {
    if (ends_with(X509_verify_cert_error_string(error))) return absl::StatusCode::kUnauthenticated;
  }
  for (const int alert : kAboutCertificate) {
    if (ends_with(ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + alert)))) {
      return absl::StatusCode::kUnauthenticated;
    }
  }
  return absl::StatusCode::kUnavailable;
}

}  // namespace stockade::mysql_internal

#ifndef STOCKADE_REDIS_REDIS_TLS_OPTIONS_H_
#define STOCKADE_REDIS_REDIS_TLS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "stockade/base/export.h"

namespace stockade {

// Which checks the certificate of a server must pass.
enum class RedisTlsVerify : uint8_t {
  kFull,   // A CA that the client trusts has signed it, it is valid now, and it is for the name of the server.
  kChain,  // The same without the name: any server with a certificate of the CA is accepted.
  kNone,   // None. The connection is encrypted, but an attacker between client and server can read and change it.
};

// How a client with a URL of rediss://, rediss+sentinel:// or rediss+cluster:// uses TLS, for all its connections: to
// data servers and to Sentinels, for commands and for subscriptions. TLS 1.2 and 1.3 are supported. A parameter of the
// URL (tls_ca, tls_cert, tls_key, tls_server_name, tls_verify) takes precedence over the field of the same meaning.
//
// RedisClient::Connect() reads the files. Each later connection reads them again if one of them has changed. If they
// cannot be used then, for example while they are being replaced, those that were read before count, and the next
// connection tries again.
struct STOCKADE_EXPORT RedisTlsOptions {
  // A PEM file with the certificates of the CAs that may sign a server's certificate. If empty, those of the system.
  std::string ca_file = {};

  // The client's own certificate and its private key, for servers that require them: PEM files. The first may have
  // certificates of intermediate CAs after the client's, and the key must not be encrypted. Set both or neither.
  std::string cert_file = {};
  std::string key_file = {};

  // The name, or the address, that the certificate of each server must be for. A name is also sent to the server (SNI).
  // If empty, this is the host that the client connects to: that of the URL, or the one that a Sentinel or a cluster
  // names. Set it if servers name each other by addresses that are not in their certificates.
  std::string server_name = {};

  // If not set, kFull.
  std::optional<RedisTlsVerify> verify = std::nullopt;

  // InvalidArgument if a field is invalid; the message names the field and the value. Does not read the files.
  absl::Status Validate() const;

  friend bool operator==(const RedisTlsOptions&, const RedisTlsOptions&) = default;
};

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_TLS_OPTIONS_H_

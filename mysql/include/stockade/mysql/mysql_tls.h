#ifndef STOCKADE_MYSQL_MYSQL_TLS_H_
#define STOCKADE_MYSQL_MYSQL_TLS_H_

#include <cstdint>

#include "stockade/base/export.h"

namespace stockade {

// How a connection to MySQL or MariaDB is encrypted.
enum class MySqlTls : uint8_t {
  kOff,
  kRequired,  // Encrypted, but the server is not verified.
  kVerify,    // The certificate must also be signed by the CA of tls_ca_file or the system, for the URL's host.
  kDefault,   // kOff for a socket, localhost, 127.0.0.0/8 and ::1; kVerify for any other host.
};

}  // namespace stockade

#endif  // STOCKADE_MYSQL_MYSQL_TLS_H_

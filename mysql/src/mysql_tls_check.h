#ifndef STOCKADE_MYSQL_SRC_MYSQL_TLS_CHECK_H_
#define STOCKADE_MYSQL_SRC_MYSQL_TLS_CHECK_H_

#include <string_view>

#include "absl/status/status.h"
#include "stockade/mysql/internal/mysql_url.h"

namespace stockade::mysql_internal {

// The connector reports all errors of TLS under one number (2026). So the files are checked before it reads them, and
// its texts, which are those of OpenSSL, say what else it was.

// InvalidArgument: the file of tls_ca, tls_cert or tls_key cannot be used; the text names the parameter, the file and
// the reason. ResourceExhausted: the process has no file descriptor left. Reads the files.
absl::Status CheckTlsFiles(const MySqlTarget& target);

// Of the connector's text of an error 2026: Unauthenticated if the server's or the client's certificate was refused,
// otherwise Unavailable.
absl::StatusCode MeaningOfTlsError(std::string_view text);

}  // namespace stockade::mysql_internal

#endif  // STOCKADE_MYSQL_SRC_MYSQL_TLS_CHECK_H_

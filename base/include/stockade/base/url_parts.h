#ifndef STOCKADE_BASE_URL_PARTS_H_
#define STOCKADE_BASE_URL_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "stockade/base/export.h"
#include "stockade/base/floors.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

// Parses URLs of servers: scheme://[user[:password]@]host[:port][,...][/path][?key=value&...]. Every error is
// InvalidArgument with a message that begins with `what` ("Redis URL") and never contains what may be a password.
// Nothing here connects to a server.

template <typename... Pieces>
absl::Status InvalidUrl(std::string_view what, const Pieces&... pieces) {
  return absl::InvalidArgumentError(Concat(what, ": ", pieces...));
}

inline std::string QuotedUrlValue(std::string_view value) { return Concat("'", absl::CEscape(AbslView(value)), "'"); }

// `text` up to the first `separator`, and the rest after it, if there is a separator.
STOCKADE_EXPORT std::pair<std::string_view, std::optional<std::string_view>> SplitAt(std::string_view text,
                                                                                     char separator);

// A number that consists of digits only.
STOCKADE_EXPORT std::optional<int> ParseUrlNumber(std::string_view text, int min, int max);

// Rejects blanks and control characters (such as the newline of a line that a secret was read from) in all parts at
// once, and bad escapes, so that decoding cannot fail.
STOCKADE_EXPORT absl::Status CheckUrlBytes(std::string_view what, std::string_view url, size_t max_bytes);

// The undecoded parts.
struct UrlParts {
  std::string_view user_info = {};  // Without its '@'.
  std::string_view hosts = {};
  std::string_view path = {};   // With its '/'; or empty.
  std::string_view query = {};  // Without its '?'.
};

// `rest` is what follows "://".
STOCKADE_EXPORT absl::StatusOr<UrlParts> SplitUrl(std::string_view what, std::string_view rest);

struct UrlCredentials {
  std::string username = {};
  std::string password = {};
};
STOCKADE_EXPORT UrlCredentials DecodeUserInfo(std::string_view user_info);

struct UrlEndpoint {
  std::string host = {};  // An IPv6 address without its brackets.
  uint16_t port = 0;
};
STOCKADE_EXPORT absl::StatusOr<UrlEndpoint> ParseUrlEndpoint(std::string_view what, std::string_view text,
                                                             uint16_t default_port);

// Checks the decoded path of a UNIX socket.
STOCKADE_EXPORT absl::Status CheckSocketPath(std::string_view what, const std::string& path);

struct UrlParameter {
  std::string_view key;
  std::string* value;  // Set to the decoded value if the key is present.
  bool seen = false;
};
STOCKADE_EXPORT absl::Status ParseUrlQuery(std::string_view what, std::string_view query,
                                           std::span<UrlParameter> known);

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_URL_PARTS_H_

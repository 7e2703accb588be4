#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "stockade/redis/redis_url.h"

namespace stockade {
namespace {

// What Redacted() shows instead of a secret, and so what parses from it.
std::string Masked(const std::string& secret) { return secret.empty() ? "" : "***"; }

void CheckUrl(const RedisUrl& url) {
  const std::string redacted = Redacted(url);

  RedisUrl others_secrets = url;
  if (!url.password.empty()) others_secrets.password += "another";
  if (url.password.empty() && !url.username.empty()) others_secrets.username += "another";
  if (!url.sentinel_password.empty()) others_secrets.sentinel_password += "another";
  if (Redacted(others_secrets) != redacted) std::abort();

  // What gets longer by its escapes may be too long to parse.
  if (redacted.size() > kMaxRedisUrlBytes) return;
  RedisUrl masked = url;
  masked.password = Masked(url.password);
  if (url.password.empty()) masked.username = Masked(url.username);
  masked.sentinel_password = Masked(url.sentinel_password);
  const absl::StatusOr<RedisUrl> again = ParseRedisUrl(redacted);
  if (!again.ok() || *again != masked) std::abort();
}

}  // namespace
}  // namespace stockade

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto url = stockade::ParseRedisUrl(std::string_view(reinterpret_cast<const char*>(data), size));
  if (url.ok()) stockade::CheckUrl(*url);
  return 0;
}

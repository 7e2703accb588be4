#include "stockade/redis/redis_endpoint.h"

#include "absl/strings/str_cat.h"

namespace stockade {

std::string RedisEndpoint::ToString() const {
  if (!unix_socket.empty()) return absl::StrCat("unix:", unix_socket);
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

}  // namespace stockade

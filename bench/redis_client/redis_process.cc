#include "redis_client/redis_process.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "harness/suite.h"
#include "stockade/base/log.h"

namespace stockade::bench {
namespace {

uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    internal::Fatal("bench: no free port on 127.0.0.1");
  }
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

absl::Status RedisProcess::Check() {
  for (const char* program : {"redis-server", "redis-benchmark", "setpriv"}) {
    if (const absl::Status there = PeerProcess::Start({program, "--version"}).status(); !there.ok()) return there;
  }
  return absl::OkStatus();
}

RedisProcess::RedisProcess() : port_(FreePort()) {
  process_ = Require(PeerProcess::Start({"setpriv", "--pdeathsig", "KILL", "redis-server", "--bind", "127.0.0.1",
                                         "--port", std::to_string(port_), "--save", "", "--appendonly", "no"}),
                     "redis-server");
  for (;;) {
    const std::string line = Require(process_->ReadLine(absl::Seconds(30)), "redis-server");
    if (line.find("Ready to accept connections") != std::string::npos) return;
  }
}

}  // namespace stockade::bench

#include "redis/support/loopback_peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "redis/support/resp_commands.h"
#include "stockade/base/log.h"
#include "support/loopback.h"

namespace stockade::testing {

LoopbackPeers::LoopbackPeers(Answer answer) : answer_(std::move(answer)) {
  for (int attempt = 0; attempt < 10 && listener_ < 0; ++attempt) {
    port_ = FreePort();
    sockaddr_in any = Loopback(port_);
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    listener_ = BoundSocket(any);
  }
  if (listener_ < 0 || listen(listener_, 1024) != 0) base_internal::Fatal("no port for the peers");
  wake_ = eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Serve(); });
}

LoopbackPeers::~LoopbackPeers() {
  (void)eventfd_write(wake_, 1);
  thread_.join();
  for (const Connection& connection : connections_) close(connection.fd);
  close(listener_);
  close(wake_);
}

std::string LoopbackPeers::Host(uint32_t number) {
  // Not 127.0.0.1, and neither the first nor the last of a block.
  const uint32_t last = 1 + number % 200;
  return "127." + std::to_string(1 + number / 200 / 200) + "." + std::to_string(1 + number / 200 % 200) + "." +
         std::to_string(last);
}

void LoopbackPeers::Serve() {
  for (;;) {
    std::vector<pollfd> ready = {{.fd = wake_, .events = POLLIN, .revents = 0},
                                 {.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections_) {
      const int events = connection.out.empty() ? POLLIN : POLLIN | POLLOUT;
      ready.push_back({.fd = connection.fd, .events = static_cast<short>(events), .revents = 0});
    }
    (void)poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) return;
    size_t i = 2;
    for (auto at = connections_.begin(); at != connections_.end(); ++i) {
      if (ready[i].revents == 0 || Attend(*at, ready[i].revents)) {
        ++at;
        continue;
      }
      close(at->fd);
      at = connections_.erase(at);
    }
    if (ready[1].revents != 0) Accept();
  }
}

void LoopbackPeers::Accept() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in own = {};
    socklen_t size = sizeof own;
    (void)getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size);
    char host[INET_ADDRSTRLEN] = {};
    (void)inet_ntop(AF_INET, &own.sin_addr, host, sizeof host);
    connections_.push_back({.fd = fd, .number = ++accepted_, .host = host});
  }
}

bool LoopbackPeers::Attend(Connection& connection, short events) {
  if ((events & ~POLLOUT) != 0) {
    char buffer[16384];
    const ssize_t got = recv(connection.fd, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    connection.in.append(buffer, static_cast<size_t>(got));
  }
  while (std::optional<std::string> words = TakeCommand(connection.in)) {
    std::optional<std::string> bytes =
        answer_({.host = connection.host, .connection = connection.number, .words = *std::move(words)});
    if (!bytes) return false;
    connection.out += *bytes;
  }
  while (!connection.out.empty()) {
    const ssize_t sent = send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;  // Full, or broken: then recv() says so.
    connection.out.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace stockade::testing

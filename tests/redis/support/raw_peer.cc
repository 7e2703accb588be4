#include "redis/support/raw_peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string_view>
#include <utility>

#include "redis/support/resp_commands.h"
#include "stockade/base/log.h"
#include "stockade/base/process_name.h"
#include "support/loopback.h"

namespace stockade::testing {
namespace {

// False: the connection has ended.
bool SendWhole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace

RawPeer::RawPeer(Answer answer) : answer_(std::move(answer)) {
  for (int attempt = 0; attempt < 10 && listener_ < 0; ++attempt) {
    port_ = FreePort();
    listener_ = BoundSocket(port_);
  }
  if (listener_ < 0 || listen(listener_, 16) != 0) base_internal::Fatal("no port for a raw peer");
  acceptor_ = std::thread([this] { Accept(); });
}

RawPeer::~RawPeer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const int fd : fds_) (void)shutdown(fd, SHUT_RDWR);
  }
  (void)shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
  for (const int fd : fds_) close(fd);
  close(listener_);
}

size_t RawPeer::connections() const {
  const std::lock_guard lock(mutex_);
  return fds_.size();
}

bool RawPeer::SendTo(size_t connection, const std::string& bytes) {
  int fd = -1;
  {
    // Not while it sends: it may block, and the acceptor needs the mutex.
    const std::lock_guard lock(mutex_);
    fd = fds_[connection];
  }
  return SendWhole(fd, bytes);
}

void RawPeer::Accept() {
  for (;;) {
    pollfd ready{.fd = listener_, .events = POLLIN, .revents = 0};
    (void)poll(&ready, 1, -1);
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const std::lock_guard lock(mutex_);
    if (stopping_) {
      if (fd >= 0) close(fd);
      return;
    }
    if (fd < 0) continue;
    const int on = 1;  // Small answers go one by one, as Redis sends them.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fds_.push_back(fd);
    threads_.emplace_back([this, connection = fds_.size() - 1, fd] { Serve(connection, fd); });
  }
}

void RawPeer::Serve(size_t connection, int fd) {
  std::string bytes;
  char buffer[4096];
  for (;;) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
    while (const std::optional<std::string> command = TakeCommand(bytes)) {
      // So that tests need not know of it. It is none of the answers that they mean.
      const bool is_name = command->starts_with("CLIENT SETNAME " + base_internal::ProgramName());
      (void)SendWhole(fd, is_name ? "+OK\r\n" : answer_(connection, *command));
    }
  }
  (void)shutdown(fd, SHUT_RDWR);
}

}  // namespace stockade::testing

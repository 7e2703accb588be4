#include "socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

std::string ErrorText(int error) { return std::generic_category().message(error); }

absl::Status CannotConnect(const RedisEndpoint& endpoint, std::string_view why) {
  return absl::UnavailableError(Concat("cannot connect to ", endpoint.ToString(), ": ", why));
}

void SetOption(int fd, int level, int name, int value) {
  // What a kernel does not know, the connection does without.
  (void)setsockopt(fd, level, name, &value, sizeof value);
}

// Once the kernel has given up, every call on the socket fails: after 10 s without an acknowledgement of what was sent,
// or three probes, a second apart, after 5 s in which nothing came.
void FindDeadPeers(int fd) {
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10'000);
}

absl::StatusOr<FileDescriptor> ConnectTo(const RedisEndpoint& endpoint, const sockaddr* address, socklen_t size,
                                         Instant deadline) {
  FileDescriptor fd(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return CannotConnect(endpoint, ErrorText(errno));
  if (connect(fd.get(), address, size) == 0) return fd;
  // A full backlog of a local socket is EAGAIN, and no poll tells when there is room.
  if (errno != EINPROGRESS) return CannotConnect(endpoint, ErrorText(errno));
  pollfd waiting{.fd = fd.get(), .events = POLLOUT, .revents = 0};
  while (waiting.revents == 0) {
    if (Clock::System()->Now() >= deadline) return CannotConnect(endpoint, "timed out");
    Poll({&waiting, 1}, deadline);
  }
  int error = 0;
  socklen_t error_size = sizeof error;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &error_size) != 0) error = errno;
  if (error != 0) return CannotConnect(endpoint, ErrorText(error));
  return fd;
}

absl::StatusOr<FileDescriptor> ConnectUnix(const RedisEndpoint& endpoint, Instant deadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (endpoint.unix_socket.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        Concat("the socket's path ", endpoint.unix_socket, " has more than ", sizeof address.sun_path - 1, " bytes"));
  }
  std::memcpy(address.sun_path, endpoint.unix_socket.data(), endpoint.unix_socket.size());
  return ConnectTo(endpoint, reinterpret_cast<const sockaddr*>(&address), sizeof address, deadline);
}

void SetPort(sockaddr_storage& address, uint16_t port) {
  if (address.ss_family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  if (address.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
}

absl::StatusOr<FileDescriptor> ConnectTcp(const RedisEndpoint& endpoint, Resolver& resolver, Instant deadline) {
  if (endpoint.host.find('\0') != std::string::npos) {
    // getaddrinfo() would read another name than the one that was checked.
    return absl::InvalidArgumentError(Concat("the host '", absl::CHexEscape(endpoint.host), "' has a NUL byte"));
  }
  const absl::StatusOr<std::shared_ptr<const addrinfo>> addresses = resolver.Resolve(endpoint.host, deadline);
  if (absl::IsUnavailable(addresses.status())) {
    return CannotConnect(endpoint, std::string(addresses.status().message()));
  }
  if (!addresses.ok()) return addresses.status();
  absl::StatusOr<FileDescriptor> fd = CannotConnect(endpoint, "the name has no address");
  for (const addrinfo* at = addresses->get(); at != nullptr && !fd.ok(); at = at->ai_next) {
    sockaddr_storage address = {};
    std::memcpy(&address, at->ai_addr, at->ai_addrlen);
    SetPort(address, endpoint.port);
    fd = ConnectTo(endpoint, reinterpret_cast<const sockaddr*>(&address), at->ai_addrlen, deadline);
  }
  if (fd.ok()) {
    SetOption(fd->get(), IPPROTO_TCP, TCP_NODELAY, 1);
    FindDeadPeers(fd->get());
  }
  return fd;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) close(fd_);
    fd_ = other.Release();
  }
  return *this;
}

int FileDescriptor::Release() { return std::exchange(fd_, -1); }

absl::StatusOr<FileDescriptor> ConnectSocket(const RedisEndpoint& endpoint, Resolver& resolver, Instant deadline) {
  return endpoint.unix_socket.empty() ? ConnectTcp(endpoint, resolver, deadline) : ConnectUnix(endpoint, deadline);
}

absl::StatusOr<size_t> SendSome(int fd, std::string_view bytes) {
  for (;;) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return absl::UnavailableError(Concat("the connection broke: ", ErrorText(errno)));
  }
}

namespace {

absl::StatusOr<size_t> ReceiveSome(int fd, std::span<char> buffer, int flags) {
  for (;;) {
    const ssize_t got = recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT | flags);
    if (got > 0) return static_cast<size_t>(got);
    if (got == 0) return absl::UnavailableError("the server closed the connection");
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return absl::UnavailableError(Concat("the connection broke: ", ErrorText(errno)));
  }
}

}  // namespace

absl::StatusOr<size_t> ReceiveSome(int fd, std::span<char> buffer) { return ReceiveSome(fd, buffer, 0); }

absl::StatusOr<bool> HasSome(int fd) {
  char first = 0;
  const absl::StatusOr<size_t> got = ReceiveSome(fd, {&first, 1}, MSG_PEEK);
  if (!got.ok()) return got.status();
  return *got > 0;
}

void Poll(std::span<pollfd> fds, Instant deadline) {
  timespec left = {};
  const bool endless = deadline == Instant::InfiniteFuture();
  if (!endless) {
    left = absl::ToTimespec(std::clamp(deadline - Clock::System()->Now(), absl::ZeroDuration(), absl::Hours(24)));
  }
  if (ppoll(fds.data(), fds.size(), endless ? nullptr : &left, nullptr) <= 0) {
    for (pollfd& fd : fds) fd.revents = 0;
  }
}

}  // namespace stockade::redis_internal

#ifndef STOCKADE_REDIS_SOCKET_H_
#define STOCKADE_REDIS_SOCKET_H_

#include <poll.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "resolve.h"
#include "stockade/base/instant.h"
#include "stockade/redis/redis_endpoint.h"

namespace stockade::redis_internal {

// A file descriptor that is closed with the object.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;

  int get() const { return fd_; }
  int Release();

 private:
  int fd_;
};

// A connected socket: not blocking, closed on exec, without Nagle's delay, and with probes that find a dead peer
// within some ten seconds. Unavailable, which names the endpoint, where it cannot be had by `deadline`. InvalidArgument
// if the host has a NUL byte. Blocks until then at most.
absl::StatusOr<FileDescriptor> ConnectSocket(const RedisEndpoint& endpoint, Resolver& resolver, Instant deadline);

// What the socket takes at once, 0 where it is full; what there is at once, 0 where there is nothing. Unavailable where
// the connection is broken, or ended by the peer.
absl::StatusOr<size_t> SendSome(int fd, std::string_view bytes);
absl::StatusOr<size_t> ReceiveSome(int fd, std::span<char> buffer);
// Whether there is something to receive, which is left there. Does not wait. Errors are those of ReceiveSome().
absl::StatusOr<bool> HasSome(int fd);

// Blocks until one of `fds` is ready, which their revents then tell, or until `deadline`. May end early for no reason.
void Poll(std::span<pollfd> fds, Instant deadline);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SOCKET_H_

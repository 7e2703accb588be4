#ifndef STOCKADE_BASE_EVENT_FD_H_
#define STOCKADE_BASE_EVENT_FD_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/floors.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {

// Wakes a thread that waits in poll(2). Thread-safe.
class EventFd {
 public:
  // ResourceExhausted, with the system's message: the process or the system has too many open files.
  static absl::StatusOr<EventFd> Create() {
    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0) return EventFd(fd);
    return absl::ResourceExhaustedError(Concat("cannot create an eventfd: ", std::generic_category().message(errno)));
  }
  ~EventFd() {
    if (fd_ >= 0) close(fd_);
  }
  EventFd(EventFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  EventFd& operator=(EventFd&&) = delete;

  int get() const { return fd_; }

  // Makes the descriptor readable until Clear() is called.
  void Set() const {
    const uint64_t one = 1;
    // Fails only if the counter is at its maximum; the descriptor is readable then.
    [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
  }
  void Clear() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
  }

 private:
  explicit EventFd(int fd) : fd_(fd) {}

  int fd_;  // -1: moved from.
};

// Whether the process, or the system, has no file descriptor left. Tries it. For libraries that do not say so.
inline bool OutOfDescriptors() { return !EventFd::Create().ok(); }

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_EVENT_FD_H_

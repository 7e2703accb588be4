#ifndef STOCKADE_BASE_EVENT_FD_H_
#define STOCKADE_BASE_EVENT_FD_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "stockade/base/log.h"

namespace stockade::internal {

// Wakes a thread that sleeps in poll(2). Thread-safe.
class EventFd {
 public:
  EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) Fatal("no eventfd: the process has too many files open");
  }
  ~EventFd() { close(fd_); }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;

  int get() const { return fd_; }

  // Readable until Clear().
  void Set() const {
    const uint64_t one = 1;
    // Fails only where it is full of wake-ups.
    [[maybe_unused]] const ssize_t written = write(fd_, &one, sizeof one);
  }
  void Clear() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(fd_, &count, sizeof count);
  }

 private:
  const int fd_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_BASE_EVENT_FD_H_

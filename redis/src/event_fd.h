#ifndef STOCKADE_REDIS_EVENT_FD_H_
#define STOCKADE_REDIS_EVENT_FD_H_

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "socket.h"
#include "stockade/base/log.h"

namespace stockade::internal {

// Wakes a thread that sleeps in Poll(). Thread-safe.
class EventFd {
 public:
  EventFd() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_.get() < 0) Fatal("redis: no eventfd: the process has too many files open");
  }

  int get() const { return fd_.get(); }

  // Readable until Clear().
  void Set() const {
    const uint64_t one = 1;
    // Fails only where it is full of wake-ups.
    [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof one);
  }
  void Clear() const {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(fd_.get(), &count, sizeof count);
  }

 private:
  const FileDescriptor fd_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_REDIS_EVENT_FD_H_

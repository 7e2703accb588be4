// Preloaded into a server: its wall clock is ahead by as many microseconds as the file STOCKADE_SERVER_CLOCK says, a
// 64-bit number in the order of this machine. ServerClock writes it. The deadlines of its waits are by that clock.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

const std::atomic<int64_t>* Map() {
  static const std::atomic<int64_t> none = 0;
  const char* const name = getenv("STOCKADE_SERVER_CLOCK");
  const int file = name == nullptr ? -1 : open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) return &none;
  void* const mapped = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return mapped == MAP_FAILED ? &none : static_cast<const std::atomic<int64_t>*>(mapped);
}

int64_t Ahead() {
  static const std::atomic<int64_t>* const ahead = Map();
  return ahead->load(std::memory_order_relaxed);
}

timespec Plus(timespec time, int64_t microseconds) {
  const int64_t nanoseconds = time.tv_sec * 1'000'000'000 + time.tv_nsec + microseconds * 1000;
  return {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
}

timespec Now(clockid_t clock) {
  timespec now = {};
  syscall(SYS_clock_gettime, clock, &now);
  return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? Plus(now, Ahead()) : now;
}

using TimedWait = int(pthread_cond_t*, pthread_mutex_t*, const timespec*);

// The C library's. Without a version, dlsym() may give that of an older ABI.
TimedWait* RealTimedWait() {
  void* versioned = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (versioned == nullptr) versioned = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  return reinterpret_cast<TimedWait*>(versioned);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  *now = Now(clock);
  return 0;
}

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  const timespec exact = Now(CLOCK_REALTIME);
  *now = {.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* now) noexcept {
  const time_t seconds = Now(CLOCK_REALTIME).tv_sec;
  if (now != nullptr) *now = seconds;
  return seconds;
}

// The kernel waits by its own clock: without this, each wait of the server would last as much longer as it is ahead.
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* deadline) {
  static TimedWait* const wait = RealTimedWait();
  constexpr int64_t kAnyWallTime = 1'000'000'000;  // Seconds. Below: a deadline of CLOCK_MONOTONIC.
  if (deadline->tv_sec < kAnyWallTime) return wait(condition, mutex, deadline);
  const timespec real = Plus(*deadline, -Ahead());
  return wait(condition, mutex, &real);
}

}  // extern "C"

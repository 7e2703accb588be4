// Preloaded into a server: its wall clock is ahead by as many microseconds as the file STOCKADE_SERVER_CLOCK says, a
// 64-bit number in the order of this machine. ServerClock writes it.
#include <fcntl.h>
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

timespec Now(clockid_t clock) {
  timespec now = {};
  syscall(SYS_clock_gettime, clock, &now);
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return now;
  static const std::atomic<int64_t>* const ahead = Map();
  const int64_t nanoseconds = now.tv_sec * 1'000'000'000 + now.tv_nsec + ahead->load(std::memory_order_relaxed) * 1000;
  return {.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
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

}  // extern "C"

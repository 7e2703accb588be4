#include "stockade/base/clock.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace stockade {
namespace {

Instant Read(clockid_t id) {
  timespec time;
  clock_gettime(id, &time);
  return Instant::FromNanoseconds(int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec);
}

// CLOCK_BOOTTIME has no coarse variant. The kernel's coarse monotonic clock tells when a tick has passed (a resume from
// suspension ticks as well), and only then is the boot time read again. Invariant: `boot` was read at or after the tick
// that `tick` names. Per thread, so that a read writes no shared line.
struct CoarseReading {
  Instant tick = Instant::InfinitePast();
  Instant boot = Instant::InfinitePast();
};
constinit thread_local CoarseReading coarse_reading;

class SystemClock final : public Clock {
 public:
  Instant Now() const override { return Read(CLOCK_BOOTTIME); }

  Instant CoarseNow() const override {
    const Instant tick = Read(CLOCK_MONOTONIC_COARSE);
    if (tick != coarse_reading.tick) coarse_reading = {.tick = tick, .boot = Read(CLOCK_BOOTTIME)};
    return coarse_reading.boot;
  }

  absl::Time WallNow() const override { return absl::Now(); }

  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    if (deadline == Instant::InfiniteFuture()) {
      cv.wait(lock);
      return true;
    }
    const absl::Duration left = deadline - Now();
    if (left <= absl::ZeroDuration()) return false;
    // A day at the most: libstdc++ adds the span to the steady clock without looking for overflow. Waking early is
    // allowed.
    cv.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Hours(24))));
    return Now() < deadline;
  }
};

}  // namespace

Clock* Clock::System() {
  static SystemClock* const clock = new SystemClock;
  return clock;
}

}  // namespace stockade

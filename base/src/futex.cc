#include "stockade/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "absl/time/time.h"

namespace stockade::base_internal {
namespace {

using std::chrono::steady_clock;

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(kAllFutexBits == FUTEX_BITSET_MATCH_ANY);

uint32_t* Address(const std::atomic<uint32_t>& word) {
  return const_cast<uint32_t*>(reinterpret_cast<const uint32_t*>(&word));
}

// steady_clock is CLOCK_MONOTONIC, and so is an absolute FUTEX_WAIT_BITSET.
timespec ToTimespec(steady_clock::time_point deadline) {
  const auto since_boot = std::max(deadline.time_since_epoch(), steady_clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_boot);
  return {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(since_boot - seconds).count()};
}

}  // namespace

steady_clock::time_point SteadyAt(Instant until, Instant now) {
  if (until == Instant::InfiniteFuture()) return steady_clock::time_point::max();
  return steady_clock::now() + absl::ToChronoNanoseconds(std::min(until - now, absl::Hours(24)));
}

bool FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, steady_clock::time_point deadline, uint32_t bits) {
  const bool timed = deadline != steady_clock::time_point::max();
  const timespec at = timed ? ToTimespec(deadline) : timespec{};
  const long result =
      syscall(SYS_futex, Address(word), FUTEX_WAIT_BITSET_PRIVATE, expected, timed ? &at : nullptr, nullptr, bits);
  return result == 0 || errno != ETIMEDOUT;
}

void FutexWake(const std::atomic<uint32_t>& word, int count, uint32_t bits) {
  syscall(SYS_futex, Address(word), FUTEX_WAKE_BITSET_PRIVATE, count, nullptr, nullptr, bits);
}

}  // namespace stockade::base_internal

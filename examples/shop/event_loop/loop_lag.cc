#include "event_loop/loop_lag.h"

#include <algorithm>
#include <asio/steady_timer.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <cstddef>
#include <utility>

namespace shop {

asio::awaitable<void> LoopLag::Watch() {
  constexpr std::chrono::milliseconds kPeriod(5);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    timer.expires_after(kPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    const auto lag =
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - timer.expiry());
    seconds_.Observe(std::chrono::duration<double>(lag).count());
    const std::lock_guard lock(mutex_);
    lags_.push_back(lag);
  }
}

std::vector<std::chrono::microseconds> LoopLag::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lags_, {});
}

std::chrono::microseconds P99(std::vector<std::chrono::microseconds> times) {
  if (times.empty()) return {};
  const size_t at = std::min(times.size() * 99 / 100, times.size() - 1);
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(at));
  return times[at];
}

}  // namespace shop

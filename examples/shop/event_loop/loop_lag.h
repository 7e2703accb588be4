#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_LOOP_LAG_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_LOOP_LAG_H_

#include <prometheus/histogram.h>

#include <asio/awaitable.hpp>
#include <chrono>
#include <mutex>
#include <vector>

namespace shop {

// How late event loops come to what is due. Thread-safe.
class LoopLag {
 public:
  explicit LoopLag(prometheus::Histogram& seconds) : seconds_(seconds) {}

  // On each loop: looks every 5 ms, until the loop ends.
  asio::awaitable<void> Watch();

  // Those since the last call.
  std::vector<std::chrono::microseconds> Take();

 private:
  prometheus::Histogram& seconds_;
  std::mutex mutex_;
  std::vector<std::chrono::microseconds> lags_;  // Guarded by mutex_.
};

// The smallest of them that 99 % do not exceed; 0 without any.
std::chrono::microseconds P99(std::vector<std::chrono::microseconds> times);

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_LOOP_LAG_H_

#ifndef STOCKADE_BENCH_LOCKS_WORK_H_
#define STOCKADE_BENCH_LOCKS_WORK_H_

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stockade::bench {

// Multiplications that wait for each other, and for those of the call before: neither the compiler nor the processor
// can do them sooner.
class Work {
 public:
  void Do(int64_t steps) {
    uint64_t chain = chain_;  // In a register, whatever the compiler makes of the rest.
    for (int64_t i = 0; i < steps; ++i) {
      chain *= 0x9E3779B97F4A7C15u;
      asm volatile("" : "+r"(chain));
    }
    chain_ = chain;
  }

 private:
  uint64_t chain_ = 1;
};

// Steps that take `ns`. Counted, not clocked: a look at the clock would be a good part of a short hold. The fastest of
// many tries is the one that nothing disturbed.
inline int64_t StepsFor(int64_t ns) {
  static const double ns_per_step = [] {
    constexpr int64_t kSteps = 10'000;
    Work work;
    double fastest = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 50; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      work.Do(kSteps);
      const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
      fastest = std::min(fastest, taken.count() / kSteps);
    }
    return fastest;
  }();
  return std::llround(static_cast<double>(ns) / ns_per_step);
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_WORK_H_

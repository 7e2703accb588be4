#ifndef STOCKADE_BENCH_LOCKS_WRITE_PATTERN_H_
#define STOCKADE_BENCH_LOCKS_WRITE_PATTERN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace stockade::bench {

// Which of a thread's operations write: drawn ahead, so that the draw costs nothing, with exactly the share that was
// asked for. Each thread has an order of its own, so that threads cannot fall into step.
class WritePattern {
 public:
  static constexpr size_t kOps = 1000;

  // `writes` of kOps.
  WritePattern(uint64_t seed, size_t writes) : state_((seed + 1) * 0x9E3779B97F4A7C15u) {
    for (size_t i = 0; i < kOps; ++i) is_write_[i] = i < writes;
    for (size_t i = kOps - 1; i > 0; --i) std::swap(is_write_[i], is_write_[Next() % (i + 1)]);
  }

  const std::array<bool, kOps>& is_write() const { return is_write_; }

 private:
  // Marsaglia's xorshift64. Its state is never zero.
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

  uint64_t state_;
  std::array<bool, kOps> is_write_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_WRITE_PATTERN_H_

#ifndef STOCKADE_BENCH_MEASURE_DURATIONS_H_
#define STOCKADE_BENCH_MEASURE_DURATIONS_H_

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace stockade::bench {

// Nanoseconds that `work()` takes, and a reading of the clock.
template <typename Work>
uint64_t NanosecondsOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const auto end = std::chrono::steady_clock::now();
  return static_cast<uint64_t>(std::chrono::nanoseconds(end - begin).count());
}

// How often which duration was measured, to 1 part in 32. Of one thread; Add() is a few instructions.
class Durations {
 public:
  void Add(uint64_t nanoseconds) { ++counts_[CellOf(nanoseconds)]; }

  void AddAll(const Durations& other) {
    for (size_t cell = 0; cell < kCells; ++cell) counts_[cell] += other.counts_[cell];
  }

  uint64_t count() const {
    uint64_t count = 0;
    for (const uint64_t in_cell : counts_) count += in_cell;
    return count;
  }

  // What `share`, from 0 to 1, of the durations do not exceed, in nanoseconds: rounded down to a cell's lower end. 0
  // where there is none.
  uint64_t Percentile(double share) const {
    const auto rank = static_cast<uint64_t>(share * static_cast<double>(count()));
    uint64_t below = 0;
    for (size_t cell = 0; cell < kCells; ++cell) {
      below += counts_[cell];
      if (below > rank) return LowerEnd(cell);
    }
    return 0;
  }

 private:
  // Below 2^kBits a cell each; above, 2^kBits cells for each power of two.
  static constexpr int kBits = 5;
  static constexpr size_t kPerPower = size_t{1} << kBits;
  static constexpr size_t kCells = (64 - kBits + 1) * kPerPower;

  static size_t CellOf(uint64_t nanoseconds) {
    if (nanoseconds < kPerPower) return nanoseconds;
    const int shift = std::bit_width(nanoseconds) - 1 - kBits;
    return static_cast<size_t>(shift) * kPerPower + static_cast<size_t>(nanoseconds >> shift);
  }
  static uint64_t LowerEnd(size_t cell) {
    if (cell < kPerPower) return cell;
    const size_t shift = cell / kPerPower - 1;
    return (cell % kPerPower + kPerPower) << shift;
  }

  std::array<uint64_t, kCells> counts_{};
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_MEASURE_DURATIONS_H_

#ifndef STOCKADE_EXAMPLES_FLASH_SALE_LATENCY_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_LATENCY_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace flash_sale {

// A histogram of spans, each kept to within 1/16 of its length. One thread at a time.
class LatencyHistogram {
 public:
  void Add(absl::Duration span) {
    ++counts_[Bucket(std::max<int64_t>(absl::ToInt64Nanoseconds(span), 0))];
    ++count_;
  }

  void Merge(const LatencyHistogram& other) {
    for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
  }

  int64_t count() const { return count_; }

  // The span that `share` (0 to 1) of the spans do not exceed; zero where there is none.
  absl::Duration Quantile(double share) const {
    int64_t left = static_cast<int64_t>(share * static_cast<double>(count_));
    for (size_t i = 0; i < counts_.size(); ++i) {
      left -= counts_[i];
      if (left < 0) return absl::Nanoseconds(UpperBound(i));
    }
    return absl::ZeroDuration();
  }

 private:
  // Below 16 ns a bucket each; above, 16 buckets for each power of two.
  static size_t Bucket(uint64_t ns) {
    if (ns < 16) return ns;
    const size_t shift = static_cast<size_t>(std::bit_width(ns)) - 5;
    return shift * 16 + (ns >> shift);
  }
  static int64_t UpperBound(size_t bucket) {
    if (bucket < 32) return static_cast<int64_t>(bucket);
    const size_t shift = bucket / 16 - 1;
    return static_cast<int64_t>(((bucket % 16 + 17) << shift) - 1);
  }

  std::array<int64_t, 1024> counts_{};
  int64_t count_ = 0;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_LATENCY_H_

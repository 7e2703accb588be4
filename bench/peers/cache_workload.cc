#include "peers/cache_workload.h"

#include <algorithm>
#include <cmath>

namespace stockade::bench {

CacheDraws::Zipf CacheDraws::DrawZipf(uint64_t keys) {
  // In integers, so that another language's pow() makes no difference.
  std::vector<uint64_t> cumulated;
  uint64_t sum = 0;
  for (uint64_t rank = 1; rank <= keys; ++rank) {
    sum += static_cast<uint64_t>(std::pow(static_cast<double>(rank), -0.99) * 0x1p31);
    cumulated.push_back(sum);
  }
  Zipf drawn(1 << 20);
  uint64_t state = kFirstState;
  for (uint32_t& key : drawn) {
    state = NextState(state);
    const uint64_t point = ((state >> 36) * sum) >> 28;
    const auto found = std::upper_bound(cumulated.begin(), cumulated.end(), point);
    const auto rank = static_cast<uint64_t>(found - cumulated.begin());
    key = static_cast<uint32_t>((rank * 0x9E3779B1u) & (keys - 1));  // So that hot keys are no neighbours.
  }
  return drawn;
}

uint64_t CacheDraws::Checksum(const CacheWorkload& workload, int count) {
  const bool is_zipf = workload.distribution == Distribution::kZipf;
  const Zipf zipf = is_zipf ? DrawZipf(workload.keys) : Zipf();
  CacheDraws draws(workload, is_zipf ? &zipf : nullptr, 0);
  uint64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t key = draws.NextKey();
    sum = sum * 31 + 2 * key + (draws.IsWrite() ? 1 : 0);
  }
  return sum;
}

}  // namespace stockade::bench

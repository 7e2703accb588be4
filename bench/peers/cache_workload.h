#ifndef STOCKADE_BENCH_PEERS_CACHE_WORKLOAD_H_
#define STOCKADE_BENCH_PEERS_CACHE_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace stockade::bench {

enum class Distribution { kUniform, kZipf };

// What a cache is put to, by us and by the peers' drivers alike.
struct CacheWorkload {
  uint64_t keys = 1024;  // A power of two; the keys are 0 to keys - 1.
  size_t threads = 1;
  size_t value_bytes = 8;  // A multiple of 8.
  int writes_percent = 0;  // The rest are lookups, all of them hits.
  Distribution distribution = Distribution::kUniform;

  // Far more than there are keys, so that an uneven spread over shards evicts nothing.
  uint64_t Capacity() const { return 2 * keys + (1 << 16); }
};

// The position of a thread in its sequence of operations. It follows from the workload and the thread's number, and
// each driver has the same lines in its own language.
class CacheDraws {
 public:
  using Zipf = std::vector<uint32_t>;

  // `zipf` is of DrawZipf(keys) and outlives this; null: keys are drawn evenly.
  CacheDraws(const CacheWorkload& workload, const Zipf* zipf, size_t thread)
      : state_(kFirstState * (thread + 1)),
        mask_(workload.keys - 1),
        writes_of_1024_(static_cast<uint64_t>(workload.writes_percent) * 1024 / 100),
        zipf_(zipf),
        position_(state_ >> 33) {}

  uint64_t NextKey() {
    state_ = NextState(state_);
    if (zipf_ != nullptr) return (*zipf_)[position_++ & (zipf_->size() - 1)];
    return (state_ >> 33) & mask_;
  }

  // Whether the key that was drawn last is to be written.
  bool IsWrite() const { return state_ >> 54 < writes_of_1024_; }

  // 2^20 keys with Zipf's distribution, exponent 0.99. Drawn beforehand: its inverse costs more than a lookup.
  static Zipf DrawZipf(uint64_t keys);

  // The checksum of the first `count` operations of thread 0. If a driver's differs, it draws other keys than this
  // program.
  static uint64_t Checksum(const CacheWorkload& workload, int count);

 private:
  static constexpr uint64_t kFirstState = 0x9E3779B97F4A7C15u;

  static uint64_t NextState(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

  uint64_t state_;
  uint64_t mask_;
  uint64_t writes_of_1024_;
  const Zipf* zipf_;
  uint64_t position_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_PEERS_CACHE_WORKLOAD_H_

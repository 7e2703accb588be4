#ifndef STOCKADE_BENCH_PEERS_CACHE_WORKLOAD_H_
#define STOCKADE_BENCH_PEERS_CACHE_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace stockade::bench {

enum class Distribution { kUniform, kZipf, kHotKey };  // kHotKey: all operations are for one of the keys.

enum class KeyKind { kDense, kRandom };

// How much room a cache has for its keys. With kAmple an uneven spread over shards evicts nothing. With kExact a cache
// that records reads only if it is nearly full records them.
enum class Room { kAmple, kExact };

// The same for our cache and for the peers' drivers.
struct CacheWorkload {
  uint64_t keys = 1024;  // How many; a power of two.
  size_t threads = 1;
  size_t value_bytes = 8;  // A multiple of 8.
  int writes_percent = 0;  // The rest are lookups, all of them hits.
  Distribution distribution = Distribution::kUniform;
  KeyKind key_kind = KeyKind::kDense;
  Room room = Room::kAmple;

  uint64_t Capacity() const { return room == Room::kExact ? keys : 2 * keys + (1 << 16); }

  // The key of a number from 0 to keys - 1: the number itself, or 64 random bits.
  uint64_t KeyOf(uint64_t number) const { return key_kind == KeyKind::kDense ? number : RandomKey(number); }

  // A bijection. It is not linear, so a multiplicative hash does not spread its results evenly, as it spreads 0,
  // 1, 2...
  static uint64_t RandomKey(uint64_t number) {
    uint64_t key = (number + 1) * 0x9E3779B97F4A7C15u;
    key = (key ^ (key >> 32)) * 0xD6E8FEB86659FD93u;
    return key ^ (key >> 32);
  }
};

// The position of a thread in its sequence of operations. It follows from the workload and the thread's number, and
// each driver has the same lines in its own language.
class CacheDraws {
 public:
  using Zipf = std::vector<uint32_t>;

  // `zipf` is of DrawZipf(keys) and outlives this; null: keys are drawn evenly.
  CacheDraws(const CacheWorkload& workload, const Zipf* zipf, size_t thread)
      : state_(kFirstState * (thread + 1)),
        mask_(workload.distribution == Distribution::kHotKey ? 0 : workload.keys - 1),
        is_random_(workload.key_kind == KeyKind::kRandom),
        writes_of_1024_(static_cast<uint64_t>(workload.writes_percent) * 1024 / 100),
        zipf_(zipf),
        position_(state_ >> 33) {}

  uint64_t NextKey() {
    state_ = NextState(state_);
    const uint64_t number = zipf_ != nullptr ? (*zipf_)[position_++ & (zipf_->size() - 1)] : (state_ >> 33) & mask_;
    return is_random_ ? CacheWorkload::RandomKey(number) : number;
  }

  // Whether the key that was drawn last is to be written.
  bool IsWrite() const { return state_ >> 54 < writes_of_1024_; }

  // 2^20 numbers of keys with Zipf's distribution, exponent 0.99. Drawn beforehand: its inverse costs more than a
  // lookup.
  static Zipf DrawZipf(uint64_t keys);

  // The checksum of the first `count` operations of thread 0. If a driver's differs, it draws other keys than this
  // program.
  static uint64_t Checksum(const CacheWorkload& workload, int count);

 private:
  static constexpr uint64_t kFirstState = 0x9E3779B97F4A7C15u;

  static uint64_t NextState(uint64_t state) { return state * 6364136223846793005u + 1442695040888963407u; }

  uint64_t state_;
  uint64_t mask_;
  bool is_random_;
  uint64_t writes_of_1024_;
  const Zipf* zipf_;
  uint64_t position_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_PEERS_CACHE_WORKLOAD_H_

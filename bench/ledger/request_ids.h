#ifndef STOCKADE_BENCH_LEDGER_REQUEST_IDS_H_
#define STOCKADE_BENCH_LEDGER_REQUEST_IDS_H_

#include <atomic>
#include <cstdint>
#include <string>

namespace stockade::bench {

// Request ids as clients make them: random UUIDs (version 4), which fall anywhere in an index. The same at each run, no
// two alike, and some 50 ns each. Thread-safe.
class RequestIds {
 public:
  std::string Next() {
    const uint64_t seed = 2 * next_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t words[] = {Mixed(seed), Mixed(seed + 1)};
    std::string id = "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx";
    int nibble = 0;
    for (char& c : id) {
      if (c != 'x') continue;
      c = "0123456789abcdef"[words[nibble / 16] >> (4 * (nibble % 16)) & 15];
      ++nibble;
    }
    return id;
  }

 private:
  // SplitMix64.
  static uint64_t Mixed(uint64_t seed) {
    uint64_t word = (seed + 1) * 0x9e3779b97f4a7c15;
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
  }

  std::atomic<uint64_t> next_ = 0;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_REQUEST_IDS_H_

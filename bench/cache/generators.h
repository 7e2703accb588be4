#ifndef STOCKADE_BENCH_CACHE_GENERATORS_H_
#define STOCKADE_BENCH_CACHE_GENERATORS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace stockade::bench {

// Seeded: the same keys at each draw, everywhere.
struct Generator {
  std::string name;
  std::function<std::vector<uint64_t>()> draw;
};

// Each draws so many requests.
std::vector<Generator> Generators(size_t requests);

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_CACHE_GENERATORS_H_

#ifndef STOCKADE_TESTS_SUPPORT_TEST_SEED_H_
#define STOCKADE_TESTS_SUPPORT_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace stockade::testing {

// Where random tests begin. STOCKADE_TEST_SEED replays a run.
inline uint64_t Seed() {
  const char* const given = std::getenv("STOCKADE_TEST_SEED");
  return given == nullptr ? 20220623 : std::strtoull(given, nullptr, 10);
}

// STOCKADE_TEST_SEED alone where it is set, and these otherwise.
inline std::vector<uint64_t> SeedsOr(std::vector<uint64_t> seeds) {
  return std::getenv("STOCKADE_TEST_SEED") == nullptr ? std::move(seeds) : std::vector<uint64_t>{Seed()};
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_TEST_SEED_H_

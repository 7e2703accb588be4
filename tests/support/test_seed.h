#ifndef STOCKADE_TESTS_SUPPORT_TEST_SEED_H_
#define STOCKADE_TESTS_SUPPORT_TEST_SEED_H_

#include <cstdint>
#include <cstdlib>

namespace stockade::testing {

// Where random tests begin. STOCKADE_TEST_SEED replays a run.
inline uint64_t Seed() {
  const char* const given = std::getenv("STOCKADE_TEST_SEED");
  return given == nullptr ? 20220623 : std::strtoull(given, nullptr, 10);
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_TEST_SEED_H_

#ifndef STOCKADE_TESTS_SUPPORT_SCALE_H_
#define STOCKADE_TESTS_SUPPORT_SCALE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace stockade::testing {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// How much a test does: `short_run` in `./run test`, `full_run` where STOCKADE_TEST_FULL is set (`./run test --full`);
// a tenth of either under a sanitizer, but at least 1.
inline int64_t Scaled(int64_t short_run, int64_t full_run) {
  const char* const full = std::getenv("STOCKADE_TEST_FULL");
  const int64_t size = full != nullptr && std::string_view(full) != "0" ? full_run : short_run;
  return kSanitized ? std::max<int64_t>(size / 10, 1) : size;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_SCALE_H_

// What must not compile, by the number MISUSE, and 0, which must. misuse.sh compiles it, and compares what the compiler
// says with the text after EXPECT.
#include <string>

#include "stockade/cache/loading_cache.h"

using Cache = stockade::LoadingCache<std::string, int>;

#if MISUSE == 0
Cache cache({.ttl = std::chrono::minutes(5)}, [](const std::string&) -> absl::StatusOr<int> { return 1; });
#elif MISUSE == 1  // EXPECT a plain number has no unit of time
Cache cache({.ttl = 300}, [](const std::string&) -> absl::StatusOr<int> { return 1; });
#elif MISUSE == 2  // EXPECT a loader is a function of (const Key&) or (const Key&, LoadContext&)
Cache cache({}, [](int, int, int) -> absl::StatusOr<int> { return 1; });
#elif MISUSE == 3  // EXPECT HashOfKey
struct Unhashed {
  bool operator==(const Unhashed&) const = default;
};
stockade::LoadingCache<Unhashed, int> cache(stockade::LoadingCacheOptions{});
#endif

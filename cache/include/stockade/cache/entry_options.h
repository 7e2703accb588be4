#ifndef STOCKADE_CACHE_ENTRY_OPTIONS_H_
#define STOCKADE_CACHE_ENTRY_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace stockade {

// What may be said of one value beside the value.
struct EntryOptions {
  // Its time to live, in place of the cache's. Zero or negative: it is not stored.
  std::optional<absl::Duration> ttl = {};
  // What it depends on: InvalidateTag() of any of them takes it away. Repeated ones count once.
  std::vector<std::string> tags = {};
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_ENTRY_OPTIONS_H_

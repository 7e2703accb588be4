#ifndef STOCKADE_CACHE_ENTRY_OPTIONS_H_
#define STOCKADE_CACHE_ENTRY_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "stockade/base/duration.h"
#include "stockade/base/export.h"

namespace stockade {

// What may be said of one value, or absence, beside it.
struct EntryOptions {
  // Its time to live, in place of the cache's ttl (of an absence: negative_ttl). Zero or negative: it is not stored.
  std::optional<Duration> ttl = {};
  // What it depends on: InvalidateTag() of any of them takes it away. Repeated ones count once.
  std::vector<std::string> tags = {};
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_ENTRY_OPTIONS_H_

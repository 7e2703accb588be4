#ifndef STOCKADE_CACHE_ENTRY_OPTIONS_H_
#define STOCKADE_CACHE_ENTRY_OPTIONS_H_

#include <optional>
#include <string>
#include <vector>

#include "stockade/base/duration.h"
#include "stockade/base/export.h"

namespace stockade {

// Options of a single value or absence.
struct EntryOptions {
  // The time to live, which overrides the cache's ttl (for an absence: negative_ttl). If zero or negative, it is not
  // stored.
  std::optional<Duration> ttl = {};
  // The tags of the value: InvalidateTag() of any of them removes it. Repeated tags count once.
  std::vector<std::string> tags = {};
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_ENTRY_OPTIONS_H_

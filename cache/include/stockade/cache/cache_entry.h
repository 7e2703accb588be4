#ifndef STOCKADE_CACHE_CACHE_ENTRY_H_
#define STOCKADE_CACHE_CACHE_ENTRY_H_

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/cache/cache_handle.h"

namespace stockade {

// How a lookup was answered: the results of stockade_cache_requests_total.
enum class CacheSource {
  kHit,       // With a fresh value.
  kStale,     // With an expired value.
  kLoaded,    // By its own load.
  kJoined,    // By the load of another lookup or of a refresh.
  kNegative,  // With a cached absence or error.
};

// A value, and what the cache knows about it. A value type, as CacheHandle is.
template <typename Value>
struct CacheEntry {
  // Empty for an absence or an error.
  CacheHandle<Value> value = {};
  CacheSource source = CacheSource::kHit;
  // Until the value expires. InfiniteDuration: never. Zero or less: it has expired, or the cache had not stored it
  // when it answered, as with a tier for the value of a Put() that answers a load. Does not count idle_ttl.
  absl::Duration expires_in = absl::ZeroDuration();
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_ENTRY_H_

#ifndef STOCKADE_CACHE_INTERNAL_ENTRY_H_
#define STOCKADE_CACHE_INTERNAL_ENTRY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/instant.h"
#include "stockade/cache/internal/freshness.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/internal/s3_fifo.h"
#include "stockade/cache/removal.h"

namespace stockade::internal {

// Stands for the copy of a value that is pinned instead.
struct NoCopy {};

// What a cache keeps of one key. While it is in a table, hits read `key`, `value`, `copy` and `quiet_until` without a
// lock, which nobody changes, and mark its use; all else is guarded by the mutex of the key's shard.
template <typename Key, typename Value>
struct alignas(64) CacheEntry : S3FifoNode {
  using Copy = std::conditional_t<kCopiedOut<Value>, std::optional<Value>, NoCopy>;

  CacheEntry(const Key& k, uint64_t h, Pinned<Value> v, absl::Status a, int64_t w, const EntryTimes& t,
             std::vector<std::string> g)
      : key(k), value(std::move(v)), times(t), absence(std::move(a)), tags(std::move(g)) {
    hash = h;
    weight = w;
    if (value == nullptr) return;
    quiet_until = times.QuietUntil();
    if constexpr (kCopiedOut<Value>) copy = *value;
  }

  const Key key;
  const Pinned<Value> value;  // Null: the key is known to have none, and `absence` is what the loader said.
  [[no_unique_address]] Copy copy;
  Instant quiet_until = Instant::InfinitePast();  // Until then a hit is a hit, and sets nothing off.

  EntryTimes times;
  const absl::Status absence;
  const std::vector<std::string> tags;  // None twice.
  RemovalCause cause{};                 // Once it has left.
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_ENTRY_H_

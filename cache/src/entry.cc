#include "stockade/cache/internal/entry.h"

namespace stockade::cache_internal {

CacheEntry::CacheEntry(uint64_t h, EntryParts parts)
    : has_value(parts.value != nullptr), times(parts.times), absence(std::move(parts.absence)) {
  hash = h;
  weight = parts.weight;
  tags.reserve(parts.tags.size());
  for (std::string& name : parts.tags) tags.emplace_back(std::move(name), this);
}

std::vector<std::string> CacheEntry::TagNames() const {
  std::vector<std::string> names;
  names.reserve(tags.size());
  for (const EntryTag& tag : tags) names.push_back(tag.name);
  return names;
}

}  // namespace stockade::cache_internal

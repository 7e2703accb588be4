#include "stockade/cache/internal/slab.h"

#include <algorithm>
#include <set>

#include "huge_pages.h"

namespace stockade::cache_internal {

// A slot that is free owns nothing, so none needs a destructor.
Slab::~Slab() {
  for (const Block& block : blocks_) FreeHuge(block.memory, block.bytes);
}

uint32_t Slab::TakeFresh() {
  if (end_ / kGranule == granules_.size()) Grow();
  return end_++;
}

void Slab::Grow() {
  const size_t granule = kGranule * type_.size;
  const size_t count = std::clamp<size_t>(granules_.size() / 8, 1, std::max<size_t>(kHugePage / granule, 1));
  if (granules_.size() + count > granules_.capacity()) granules_.reserve(2 * granules_.size() + count);
  if (blocks_.size() == blocks_.capacity()) blocks_.reserve(2 * blocks_.size() + 1);
  auto* const memory = static_cast<std::byte*>(AllocateHuge(count * granule));
  type_.construct(memory, count * kGranule);
  blocks_.push_back({memory, count * granule});
  for (size_t i = 0; i < count; ++i) granules_.push_back(memory + i * granule);
}

std::unique_ptr<EntryExtra> EntryExtra::For(const EntryTimes& times, const std::vector<std::string>& tag_names,
                                            const absl::Status& absence) {
  if (tag_names.empty() && absence.ok() && !times.MustBeKept()) return nullptr;
  auto extra = std::make_unique<EntryExtra>(times, absence);
  const std::set<std::string> distinct(tag_names.begin(), tag_names.end());
  extra->tags.reserve(distinct.size());
  for (const std::string& name : distinct) extra->tags.emplace_back(name);
  return extra;
}

std::vector<std::string> Slot::TagNames() const {
  std::vector<std::string> names;
  if (extra == nullptr) return names;
  names.reserve(extra->tags.size());
  for (const EntryTag& tag : extra->tags) names.push_back(tag.name);
  return names;
}

bool Slot::HasTag(std::string_view name) const {
  return extra != nullptr &&
         std::any_of(extra->tags.begin(), extra->tags.end(), [&](const EntryTag& tag) { return tag.name == name; });
}

}  // namespace stockade::cache_internal

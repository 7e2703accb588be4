#include "stockade/cache/internal/slot.h"

#include <algorithm>
#include <set>

namespace stockade::cache_internal {

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

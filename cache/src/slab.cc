#include "stockade/cache/internal/slab.h"

#include <algorithm>

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

}  // namespace stockade::cache_internal

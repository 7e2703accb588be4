#include "stockade/cache/internal/slots.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <set>

#include "stockade/base/asymmetric_fence.h"
#include "stockade/base/cpu_relax.h"
#include "stockade/base/hazard_row.h"

namespace stockade::cache_internal {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;  // Bytes.

std::align_val_t AlignmentFor(size_t bytes) { return std::align_val_t{bytes >= kHugePage ? kHugePage : 64}; }

// Memory on whole cache lines, and on huge pages if it is large enough for one and the kernel has them. Throws
// std::bad_alloc.
void* AllocateHuge(size_t bytes) {
  void* const memory = ::operator new(bytes, AlignmentFor(bytes));
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);  // Optional: the result does not matter.
  return memory;
}
void FreeHuge(void* memory, size_t bytes) { ::operator delete(memory, AlignmentFor(bytes)); }

// Whether each thread that was in a read of `reader` before the caller's last HeavyFence() has left it; does not wait
// for long.
bool ReadsHaveEnded(const void* reader) {
  constexpr int kLooks = 200;
  for (const HazardRow& row : HazardRows()) {
    int looks = 0;
    while (row.caller.load(std::memory_order_seq_cst) == reader) {
      if (++looks == kLooks) return false;
      CpuRelax();
    }
  }
  return true;
}

}  // namespace

EntryCells::EntryCells(int log2_count) {
  const size_t count = size_t{1} << log2_count;
  auto* const first = static_cast<Cell*>(AllocateHuge(count * sizeof(Cell)));
  std::uninitialized_value_construct_n(first, count);
  word_ = reinterpret_cast<uintptr_t>(first) | static_cast<uintptr_t>(log2_count);
}

void EntryCells::Free() const { FreeHuge(first(), count() * sizeof(Cell)); }

EntryIndex::EntryIndex() : current_(kFewest) { cells_.store(current_, std::memory_order_release); }

EntryIndex::~EntryIndex() {
  const EntryCells seen = cells_.load(std::memory_order_relaxed);
  if (!(seen == current_)) seen.Free();
  current_.Free();
  for (const EntryCells& cells : old_) cells.Free();
}

bool EntryIndex::HasMoreThanMostEqual(const Slot& slot) const {
  const uint64_t own = CellFor(slot);
  size_t equal = 0;
  for (size_t at = HomeOf(current_, own); equal <= kMostEqual; at = current_.Next(at)) {
    const uint64_t cell = current_[at].load(std::memory_order_relaxed);
    if (cell == 0) return false;
    if ((cell & kTagMask) == (own & kTagMask) && SlotOfCell(cell)->hash == slot.hash) ++equal;
  }
  return true;
}

void EntryIndex::Reserve(const void* reader) {
  if ((size_ + 1) * 8 > current_.count() * 3) Grow(reader);
}

void EntryIndex::Grow(const void* reader) {
  old_.reserve(old_.size() + 1);
  const EntryCells old = current_;
  const EntryCells grown(old.log2_count() + 1);
  for (size_t at = 0; at < old.count(); ++at) {
    const uint64_t cell = old[at].load(std::memory_order_relaxed);
    if (cell != 0) Place(grown, cell);
  }
  current_ = grown;
  if (!(cells_.load(std::memory_order_relaxed) == old)) return old.Free();  // Hidden.
  cells_.store(grown, std::memory_order_release);
  old_.push_back(old);
  HeavyFence();
  if (!ReadsHaveEnded(reader)) return;
  for (const EntryCells& cells : old_) cells.Free();
  old_.clear();
}

// A slot that is free owns nothing, so none needs a destructor.
Slab::~Slab() {
  for (const std::span<std::byte> block : blocks_) FreeHuge(block.data(), block.size());
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
  blocks_.emplace_back(memory, count * granule);
  for (size_t i = 0; i < count; ++i) granules_.push_back(memory + i * granule);
}

std::unique_ptr<EntryExtra> EntryExtra::Make(const EntryTimes& times, const std::vector<std::string>& tag_names,
                                             const absl::Status& absence) {
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

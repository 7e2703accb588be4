#ifndef STOCKADE_CACHE_INTERNAL_SLAB_H_
#define STOCKADE_CACHE_INTERNAL_SLAB_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "stockade/base/export.h"
#include "stockade/cache/internal/slot.h"

namespace stockade::cache_internal {

// The slots of one shard, by number. Memory comes in blocks of 1/8 of what there is, up to 2 MB, and is kept until
// destruction: a slot that is given back is the next one taken. Guarded by the shard's mutex.
class STOCKADE_EXPORT Slab {
 public:
  // How to make slots, which are SlotOf.
  struct Type {
    size_t size;  // Bytes.
    void (*construct)(void* memory, size_t count);
  };
  template <typename AnySlot>
  static Type TypeOf() {
    return {sizeof(AnySlot), [](void* memory, size_t count) {
              std::uninitialized_default_construct_n(static_cast<AnySlot*>(memory), count);
            }};
  }

  Slab() = default;
  // All slots are free.
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Called once, before everything else.
  void Use(Type type) { type_ = type; }

  // Slots have the numbers from 1 to end() - 1; those that are free() have no entry.
  [[gnu::always_inline]] Slot& operator[](uint32_t id) const {
    return *reinterpret_cast<Slot*>(granules_[id / kGranule] + id % kGranule * type_.size);
  }
  uint32_t end() const { return end_; }

  // Takes a free slot. Throws std::bad_alloc.
  uint32_t Take() {
    if (free_ == 0) return TakeFresh();
    const uint32_t id = free_;
    free_ = (*this)[id].newer;
    return id;
  }
  void Give(uint32_t id) {
    (*this)[id].newer = free_;
    free_ = id;
  }

 private:
  static constexpr uint32_t kGranule = 64;
  struct Block {
    std::byte* memory;
    size_t bytes;
  };

  uint32_t TakeFresh();
  void Grow();

  Type type_{};
  std::vector<std::byte*> granules_;
  std::vector<Block> blocks_;
  uint32_t end_ = 1;
  uint32_t free_ = 0;  // 0: none.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_SLAB_H_

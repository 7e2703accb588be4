#ifndef STOCKADE_CACHE_CACHE_HANDLE_H_
#define STOCKADE_CACHE_CACHE_HANDLE_H_

#include <memory>
#include <optional>
#include <utility>

#include "stockade/base/hazard_row.h"
#include "stockade/cache/internal/pinned.h"

namespace stockade {

namespace cache_internal {
template <typename Key, typename Value, typename Hash, typename Eq>
class TypedCache;

// Pins a value by a hazard pin of the thread that created it, or by a share if `pin` is null.
//
// Invariant: while the pin has not been handed over, no other owner of a share gives it up without handing the pin over
// first.
template <typename Value>
class HeldValue {
 public:
  HeldValue() = default;
  explicit HeldValue(Pinned pinned) : box_(pinned.Release()) {}
  // `row.reads` must protect the object that has a share in `box`.
  HeldValue(HazardRow& row, const Box* box) : box_(box), pin_(row.TryPin(box)) {
    if (pin_ == nullptr) box->Share();
  }
  [[gnu::always_inline]] ~HeldValue() {
    if (box_ == nullptr) return;
    if (pin_ == nullptr) {
      box_->Unshare();
    } else if (const void* const counted = HazardRow::Unpin(*pin_); counted != nullptr) {
      static_cast<const Box*>(counted)->Unshare();
    }
  }
  // A copy takes a share, because a pin may be set only while a read protects the value.
  HeldValue(const HeldValue& other) : box_(other.box_) {
    if (box_ != nullptr) box_->Share();
  }
  HeldValue(HeldValue&& other) noexcept
      : box_(std::exchange(other.box_, nullptr)), pin_(std::exchange(other.pin_, nullptr)) {}
  HeldValue& operator=(HeldValue other) noexcept {
    std::swap(box_, other.box_);
    std::swap(pin_, other.pin_);
    return *this;
  }

  const Value* get() const { return box_ == nullptr ? nullptr : std::addressof(box_->value<Value>()); }
  std::shared_ptr<const Value> Share() const {
    return {get(), [kept = *this](const Value*) {}};
  }

 private:
  const Box* box_ = nullptr;
  HazardRow::Pin* pin_ = nullptr;
};

// A copy of a small value. `copy` is a SlotOf::CopyOf.
template <typename Value>
class CopiedValue {
 public:
  CopiedValue() = default;
  explicit CopiedValue(const Pinned& pinned) : value_(pinned.box()->value<Value>()) {}
  template <typename Copy>
  CopiedValue(HazardRow&, const Copy& copy) : value_(copy.value) {}
  CopiedValue(const CopiedValue&) = default;
  CopiedValue& operator=(const CopiedValue&) = default;
  CopiedValue(CopiedValue&& other) noexcept { Take(other); }
  CopiedValue& operator=(CopiedValue&& other) noexcept {
    if (this != &other) Take(other);
    return *this;
  }
  ~CopiedValue() = default;

  const Value* get() const { return value_.has_value() ? std::addressof(*value_) : nullptr; }
  std::shared_ptr<const Value> Share() const { return std::make_shared<const Value>(*value_); }

 private:
  // Not as a whole: a wide load of what was just stored in two parts has to wait until both are in the cache.
  [[gnu::always_inline]] void Take(CopiedValue& other) {
    value_.reset();
    if (other.value_.has_value()) value_.emplace(*other.value_);
    other.value_.reset();
  }

  std::optional<Value> value_;
};

}  // namespace cache_internal

// Pins one value of a LoadingCache. The value stays unchanged and valid after its entry is replaced, invalidated or
// evicted, and after the cache is destroyed. Only that value is kept alive; its weight does not count in the cache
// after the entry has left. Trivially copyable values of up to 16 bytes are copied into the handle.
//
// A value type. Different handles may be used, moved and destroyed by different threads, also after the thread that
// obtained them has ended; one handle may be used by one thread at a time. A move is cheap; a copy writes to a count
// that all copies share. The last handle of a value runs its destructor if the cache no longer uses the value. A handle
// that was moved from, or made by the default constructor, is empty: get() is null.
template <typename Value>
class CacheHandle {
 public:
  CacheHandle() = default;
  CacheHandle(const CacheHandle&) = default;
  CacheHandle& operator=(const CacheHandle&) = default;
  CacheHandle(CacheHandle&&) noexcept = default;
  CacheHandle& operator=(CacheHandle&&) noexcept = default;
  [[gnu::always_inline]] ~CacheHandle() = default;  // Hits move handles that are empty afterwards.

  // The value. O(1). For an empty handle get() is null, and the others must not be called.
  const Value& operator*() const { return *held_.get(); }
  const Value* operator->() const { return held_.get(); }
  const Value* get() const { return held_.get(); }
  explicit operator bool() const { return get() != nullptr; }
  // For code that takes a std::shared_ptr, which pins the value in the same way. Null for an empty handle. Allocates
  // once, and throws std::bad_alloc.
  std::shared_ptr<const Value> ToShared() const { return *this ? held_.Share() : nullptr; }

 private:
  template <typename, typename, typename, typename>
  friend class cache_internal::TypedCache;

  using Held = std::conditional_t<cache_internal::kCopiedOut<Value>, cache_internal::CopiedValue<Value>,
                                  cache_internal::HeldValue<Value>>;

  explicit CacheHandle(cache_internal::Pinned pinned) : held_(std::move(pinned)) {}
  // For a hit. `seen` is the value of SlotOf::Seen.
  template <typename Seen>
  CacheHandle(base_internal::HazardRow& row, const Seen& seen) : held_(row, seen) {}

  Held held_;
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_HANDLE_H_

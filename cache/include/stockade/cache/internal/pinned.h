#ifndef STOCKADE_CACHE_INTERNAL_PINNED_H_
#define STOCKADE_CACHE_INTERNAL_PINNED_H_

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "stockade/base/export.h"

namespace stockade::cache_internal {

// Whether values of this type are copied instead of pinned.
template <typename Value>
inline constexpr bool kCopiedOut = std::is_trivially_copyable_v<Value> && std::is_copy_constructible_v<Value> &&
                                   std::is_copy_assignable_v<Value> && sizeof(Value) <= 16;

// A value and the number of its shares.
template <typename Value>
class ValueBox {
 public:
  explicit ValueBox(Value&& v) : value(std::move(v)) {}

  void Share() const { shares_.fetch_add(1, std::memory_order_relaxed); }
  void Unshare() const {
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  const Value value;

 private:
  ~ValueBox() = default;

  mutable std::atomic<int64_t> shares_{1};
};

// A share of a value, or null: a std::shared_ptr without deleter and weak pointers, which a pin of a HazardRow can
// replace.
template <typename Value>
class Pinned {
 public:
  using Box = ValueBox<Value>;

  Pinned() = default;
  Pinned(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::shared_ptr.
  // Takes over a share.
  explicit Pinned(const Box* box) : box_(box) {}
  static Pinned Make(Value&& value) { return Pinned(new Box(std::move(value))); }
  ~Pinned() {
    if (box_ != nullptr) box_->Unshare();
  }
  Pinned(const Pinned& other) : box_(other.box_) {
    if (box_ != nullptr) box_->Share();
  }
  Pinned(Pinned&& other) noexcept : box_(std::exchange(other.box_, nullptr)) {}
  Pinned& operator=(Pinned other) noexcept {
    std::swap(box_, other.box_);
    return *this;
  }

  const Value& operator*() const { return box_->value; }
  const Value* operator->() const { return &box_->value; }
  const Value* get() const { return box_ == nullptr ? nullptr : &box_->value; }
  const Box* box() const { return box_; }
  const Box* Release() { return std::exchange(box_, nullptr); }

  friend bool operator==(const Pinned& a, const Pinned& b) { return a.box_ == b.box_; }
  friend bool operator==(const Pinned& a, std::nullptr_t) { return a.box_ == nullptr; }

 private:
  const Box* box_ = nullptr;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_PINNED_H_

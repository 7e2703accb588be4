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

// A value of any type, and the number of its shares.
class ValueBox {
 public:
  ValueBox(const ValueBox&) = delete;
  ValueBox& operator=(const ValueBox&) = delete;

  void Share() const { shares_.fetch_add(1, std::memory_order_relaxed); }
  void Unshare() const {
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // The box must have been made for a Value.
  template <typename Value>
  const Value& value() const;

 protected:
  ValueBox() = default;
  virtual ~ValueBox() = default;

 private:
  mutable std::atomic<int64_t> shares_{1};
};

template <typename Value>
class ValueBoxOf final : public ValueBox {
 public:
  explicit ValueBoxOf(Value&& v) : value(std::move(v)) {}

  const Value value;

 private:
  ~ValueBoxOf() override = default;
};

template <typename Value>
const Value& ValueBox::value() const {
  return static_cast<const ValueBoxOf<Value>*>(this)->value;
}

// A share of a value, or null: a std::shared_ptr without deleter and weak pointers, which a pin of a HazardRow can
// replace.
class Pinned {
 public:
  Pinned() = default;
  Pinned(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::shared_ptr.
  // Takes over a share.
  explicit Pinned(const ValueBox* box) : box_(box) {}
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

  const ValueBox* box() const { return box_; }
  const ValueBox* Release() { return std::exchange(box_, nullptr); }

  friend bool operator==(const Pinned& a, const Pinned& b) { return a.box_ == b.box_; }
  friend bool operator==(const Pinned& a, std::nullptr_t) { return a.box_ == nullptr; }

 private:
  const ValueBox* box_ = nullptr;
};

// A share of a Value, or null.
template <typename Value>
class PinnedOf : public Pinned {
 public:
  PinnedOf() = default;
  static PinnedOf Make(Value&& value) { return PinnedOf(new ValueBoxOf<Value>(std::move(value))); }

  const Value& operator*() const { return box()->template value<Value>(); }
  const Value* operator->() const { return &**this; }
  const Value* get() const { return box() == nullptr ? nullptr : &**this; }

 private:
  explicit PinnedOf(const ValueBox* box) : Pinned(box) {}
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_PINNED_H_

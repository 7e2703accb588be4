#ifndef STOCKADE_CACHE_INTERNAL_PINNED_H_
#define STOCKADE_CACHE_INTERNAL_PINNED_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "stockade/base/export.h"
#include "stockade/base/tsan.h"

namespace stockade::cache_internal {

// Whether keys or values of this type are copied instead of boxed.
template <typename T>
inline constexpr bool kCopiedOut = std::is_trivially_copyable_v<T> && std::is_copy_constructible_v<T> &&
                                   std::is_copy_assignable_v<T> && sizeof(T) <= 16;

// The memory of a value in bytes, with that of a string or a vector; what it points to otherwise is not known.
template <typename T>
size_t FootprintOf(const T& value) {
  if constexpr (requires { value.capacity() * sizeof(typename T::value_type); }) {
    return sizeof(T) + static_cast<size_t>(value.capacity()) * sizeof(typename T::value_type);
  } else {
    return sizeof(T);
  }
}

// A value of any type, a key of any type, or both, and the number of its shares.
//
// Invariant: a box is stored in one slot at most, and once at most, so that it is in one BoxList at most.
class Box {
 public:
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;

  void Share() const { shares_.fetch_add(1, std::memory_order_relaxed); }
  void Unshare() const {
    base_internal::TsanRelease(this);
    if (shares_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    base_internal::TsanAcquire(this);
    delete this;
  }

  // The box must have been made for a Value.
  template <typename Value>
  const Value& value() const {
    base_internal::TsanAcquire(this);
    return *static_cast<const Value*>(value_);
  }
  // Null: it has only a key.
  const void* raw() const { return value_; }
  // Its memory; see FootprintOf().
  virtual size_t bytes() const = 0;
  // The box that has the value: see RenewedBox.
  virtual const Box* origin() const { return this; }

 protected:
  explicit Box(const void* value) : value_(value) {}
  virtual ~Box() = default;

 private:
  friend class BoxList;

  mutable std::atomic<int64_t> shares_{1};
  const void* const value_;
  mutable const Box* next_ = nullptr;  // For the owner of the BoxList.
};

// Boxes that have left their slots, linked through themselves: entries must be able to leave without memory. Has a
// share of each.
class BoxList {
 public:
  BoxList() = default;
  BoxList(BoxList&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)),
        last_(std::exchange(other.last_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  BoxList& operator=(BoxList&&) = delete;

  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  void Add(const Box* box) {
    box->next_ = nullptr;
    (last_ != nullptr ? last_->next_ : first_) = box;
    last_ = box;
    ++size_;
  }
  void AddAll(BoxList&& others) {
    if (others.empty()) return;
    (last_ != nullptr ? last_->next_ : first_) = std::exchange(others.first_, nullptr);
    last_ = std::exchange(others.last_, nullptr);
    size_ += std::exchange(others.size_, 0);
  }
  // Moves the first ones into `boxes`, as far as there is room, and returns their number.
  size_t Take(std::span<const Box*> boxes) {
    size_t taken = 0;
    for (; taken < boxes.size() && first_ != nullptr; ++taken) {
      boxes[taken] = first_;
      first_ = first_->next_;
    }
    if (first_ == nullptr) last_ = nullptr;
    size_ -= taken;
    return taken;
  }

 private:
  const Box* first_ = nullptr;
  const Box* last_ = nullptr;
  size_t size_ = 0;
};

template <typename Key>
class KeyBox : public Box {
 public:
  explicit KeyBox(const Key& k, const void* value = nullptr) : Box(value), key(k) {}
  size_t bytes() const override { return sizeof(*this) - sizeof(Key) + FootprintOf(key); }

  const Key key;

 protected:
  ~KeyBox() override = default;
};

// With a key, Base is a KeyBox.
template <typename Value, typename Base = Box>
class ValueBox final : public Base {
 public:
  template <typename... Key>
  explicit ValueBox(Value&& value, const Key&... key)
      : Base(key..., std::addressof(stored_)), stored_(std::move(value)) {}
  size_t bytes() const override { return sizeof(*this) - sizeof(Value) + FootprintOf(stored_); }

 private:
  ~ValueBox() override = default;

  const Value stored_;
};

// A share of a box, or null: a std::shared_ptr without deleter and weak pointers, which a pin of a HazardRow can
// replace.
class Pinned {
 public:
  Pinned() = default;
  Pinned(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::shared_ptr.
  // Takes over a share.
  explicit Pinned(const Box* box) : box_(box) {}
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

  const Box* box() const { return box_; }
  const Box* Release() { return std::exchange(box_, nullptr); }
  // The value; null if there is none.
  const void* raw() const { return box_ == nullptr ? nullptr : box_->raw(); }

  friend bool operator==(const Pinned& a, const Pinned& b) { return a.box_ == b.box_; }
  friend bool operator==(const Pinned& a, std::nullptr_t) { return a.box_ == nullptr; }

 private:
  const Box* box_ = nullptr;
};

// A share of a box that has a Value, or null.
template <typename Value>
class PinnedOf : public Pinned {
 public:
  PinnedOf() = default;
  explicit PinnedOf(const Box* box) : Pinned(box) {}

  const Value& operator*() const { return box()->template value<Value>(); }
  const Value* operator->() const { return std::addressof(**this); }
  const Value* get() const { return box() == nullptr ? nullptr : std::addressof(**this); }
};

// The value of another box, which is stored again: the other box may still wait in a BoxList. With a key, Base is a
// KeyBox.
template <typename Base>
class RenewedBox final : public Base {
 public:
  template <typename... Key>
  explicit RenewedBox(const Pinned& value, const Key&... key)
      : Base(key..., value.raw()), origin_(ShareOf(*value.box()->origin())) {}
  size_t bytes() const override { return origin()->bytes(); }
  const Box* origin() const override { return origin_.box(); }

 private:
  ~RenewedBox() override = default;

  static Pinned ShareOf(const Box& box) {
    box.Share();
    return Pinned(&box);
  }

  const Pinned origin_;
};

// A box for a value that another box has.
template <typename Key, typename Value>
Pinned RenewBox(const Key& key, const Pinned& value) {
  const Box* box = nullptr;
  if constexpr (kCopiedOut<Key> || kCopiedOut<Value>) {
    box = new RenewedBox<Box>(value);
  } else {
    box = new RenewedBox<KeyBox<Key>>(value, key);
  }
  base_internal::TsanRelease(box);
  return Pinned(box);
}

// A box for a value, with the key if a slot holds no copy of either (SlotOf).
template <typename Key, typename Value>
PinnedOf<Value> MakeBox(const Key& key, std::type_identity_t<Value>&& value) {
  const Box* box = nullptr;
  if constexpr (kCopiedOut<Key> || kCopiedOut<Value>) {
    box = new ValueBox<Value>(std::move(value));
  } else {
    box = new ValueBox<Value, KeyBox<Key>>(std::move(value), key);
  }
  base_internal::TsanRelease(box);
  return PinnedOf<Value>(box);
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_PINNED_H_

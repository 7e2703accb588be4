#ifndef STOCKADE_INVENTORY_OPEN_TABLE_H_
#define STOCKADE_INVENTORY_OPEN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace stockade::inventory_internal {

// A hash table with open addressing (linear probing). Growing is a step of its own, which changes nothing if there is
// no memory; all other calls allocate nothing. Abseil's tables are damaged if an allocation throws while they grow, and
// those of the standard library allocate for each entry.
//
// `HashOf()(entry)` is the hash of an entry, at random in all its bits, and cheap. At most three quarters of the places
// are in use. A removal moves the entries behind it, so no marks of removed entries are left.
template <typename Entry, typename HashOf>
class OpenTable {
  static_assert(std::is_nothrow_move_constructible_v<Entry> && std::is_nothrow_destructible_v<Entry>);
  static_assert(alignof(Entry) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

 public:
  OpenTable() = default;
  ~OpenTable() {
    for (size_t at = 0; at < places_; ++at) {
      if (tags_[at] != 0) entries_[at].~Entry();
    }
    ::operator delete(entries_);
  }
  OpenTable(const OpenTable&) = delete;
  OpenTable& operator=(const OpenTable&) = delete;

  size_t size() const { return size_; }

  // The entry with this hash for which `is` returns true; null: none. Valid until the next change of the table.
  template <typename Is>
  Entry* Find(uint64_t hash, Is is) {
    if (size_ == 0) return nullptr;
    const uint8_t tag = TagOf(hash);
    for (size_t at = hash & mask(); tags_[at] != 0; at = (at + 1) & mask()) {
      if (tags_[at] == tag && is(std::as_const(entries_[at]))) return &entries_[at];
    }
    return nullptr;
  }
  template <typename Is>
  const Entry* Find(uint64_t hash, Is is) const {
    return const_cast<OpenTable*>(this)->Find(hash, is);
  }

  // Room for one more entry. False: there is no memory.
  [[nodiscard]] bool TryMakeRoom() noexcept { return size_ < places_ / 4 * 3 || Grow(); }
  // The same, or throws std::bad_alloc.
  void MakeRoom() {
    if (!TryMakeRoom()) throw std::bad_alloc();
  }

  // There must be room. An equal entry must not be there.
  void Insert(Entry entry) noexcept {
    const uint64_t hash = HashOf()(std::as_const(entry));
    size_t at = hash & mask();
    while (tags_[at] != 0) at = (at + 1) & mask();
    Put(at, TagOf(hash), std::move(entry));
    ++size_;
  }

  // Of each entry, in any order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (size_t at = 0; at < places_; ++at) {
      if (tags_[at] != 0) visit(std::as_const(entries_[at]));
    }
  }

  // `entry`: from Find().
  void Erase(const Entry* entry) noexcept { EraseAt(static_cast<size_t>(entry - entries_)); }

  // O(places).
  template <typename Is>
  void EraseIf(Is is) {
    for (size_t at = 0; at < places_;) {
      if (tags_[at] != 0 && is(std::as_const(entries_[at]))) {
        EraseAt(at);  // Another one may be here now.
      } else {
        ++at;
      }
    }
  }

 private:
  static constexpr size_t kLeastPlaces = 8;

  // Not 0, which is a free place. Other bits than those that choose the place.
  static uint8_t TagOf(uint64_t hash) { return static_cast<uint8_t>(hash >> 57 | 0x80); }
  size_t mask() const { return places_ - 1; }

  bool Grow() noexcept {
    const size_t places = places_ == 0 ? kLeastPlaces : 2 * places_;
    void* const block = ::operator new(places * (sizeof(Entry) + 1), std::nothrow);
    if (block == nullptr) return false;
    OpenTable larger;
    larger.entries_ = static_cast<Entry*>(block);
    larger.tags_ = reinterpret_cast<uint8_t*>(larger.entries_ + places);
    larger.places_ = places;
    for (size_t at = 0; at < places; ++at) larger.tags_[at] = 0;
    for (size_t at = 0; at < places_; ++at) {
      if (tags_[at] != 0) larger.Insert(std::move(entries_[at]));
    }
    std::swap(entries_, larger.entries_);
    std::swap(tags_, larger.tags_);
    std::swap(places_, larger.places_);
    std::swap(size_, larger.size_);
    return true;
  }

  void Put(size_t at, uint8_t tag, Entry&& entry) noexcept {
    new (&entries_[at]) Entry(std::move(entry));
    tags_[at] = tag;
  }

  void EraseAt(size_t hole) noexcept {
    entries_[hole].~Entry();
    tags_[hole] = 0;
    --size_;
    // Moves each following entry into the hole that its search would otherwise stop at.
    for (size_t at = (hole + 1) & mask(); tags_[at] != 0; at = (at + 1) & mask()) {
      const size_t home = HashOf()(std::as_const(entries_[at])) & mask();
      if (((at - home) & mask()) < ((at - hole) & mask())) continue;
      Put(hole, tags_[at], std::move(entries_[at]));
      entries_[at].~Entry();
      tags_[at] = 0;
      hole = at;
    }
  }

  Entry* entries_ = nullptr;  // In one block with the tags behind them.
  uint8_t* tags_ = nullptr;
  size_t places_ = 0;  // 0, or a power of two.
  size_t size_ = 0;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_OPEN_TABLE_H_

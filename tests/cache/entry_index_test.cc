#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "stockade/base/hazard_row.h"
#include "stockade/cache/internal/slots.h"
#include "support/scale.h"

namespace stockade::cache_internal {
namespace {

using testing::Scaled;

// A slot whose weight is its key.
class Slots {
 public:
  Slots() { slab_.Use(Slab::TypeOf<SlotOf<int, int>>()); }
  Slot& New(uint64_t hash, int key) {
    Slot& slot = slab_[slab_.Take()];
    slot.hash = SlotHash(hash);
    slot.weight = key;
    return slot;
  }

 private:
  Slab slab_;
};

class EntryIndexTest : public ::testing::Test {
 protected:
  void Insert(Slot& slot) {
    index_.Reserve(&index_);
    index_.Insert(slot);
  }
  // One thread changes the index, so it needs no mutex.
  Slot* Find(uint64_t hash, int key) const STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return index_.Find(hash, [&](const Slot& slot) { return slot.weight == key; });
  }
  Slot* FindUnlocked(uint64_t hash, int key) const {
    const HazardRow::Read read(*ThisHazardRow(), &index_);
    Slot* found = nullptr;
    index_.FindUnlocked(hash, [&](Slot& slot) {
      found = slot.weight == key ? &slot : nullptr;
      return found != nullptr;
    });
    return found;
  }

  Slots slots_;
  EntryIndex index_;
};

TEST_F(EntryIndexTest, Empty_FindsNothing) {
  EXPECT_EQ(Find(0, 0), nullptr);
  EXPECT_EQ(FindUnlocked(0, 0), nullptr);
  EXPECT_EQ(index_.AtHome(0), nullptr);
}

TEST_F(EntryIndexTest, SameHash_KeysAreToldApart) {
  std::vector<Slot*> slots;
  for (int key = 0; key < 40; ++key) Insert(*slots.emplace_back(&slots_.New(77 << 20, key)));
  for (int key = 0; key < 40; ++key) {
    EXPECT_EQ(Find(77 << 20, key), slots[static_cast<size_t>(key)]);
    EXPECT_EQ(FindUnlocked(77 << 20, key), slots[static_cast<size_t>(key)]);
  }
  EXPECT_EQ(index_.AtHome(77 << 20)->hash, SlotHash(77 << 20));
  EXPECT_EQ(Find(77 << 20, 40), nullptr);
  EXPECT_EQ(Find(78 << 20, 1), nullptr);
}

TEST_F(EntryIndexTest, Hidden_IsFoundWithTheMutexOnly) {
  index_.Hide();
  for (int key = 0; key < 100; ++key) Insert(slots_.New(uint64_t{5} << 20, key));
  EXPECT_NE(Find(uint64_t{5} << 20, 99), nullptr);
  EXPECT_EQ(FindUnlocked(uint64_t{5} << 20, 99), nullptr);
  EXPECT_EQ(index_.AtHome(uint64_t{5} << 20), nullptr);
}

// Few different hashes: long runs of cells, that wrap around the end, and removals that move much.
TEST_F(EntryIndexTest, RandomChanges_AgreeWithAMap) {
  for (const uint64_t spread : {uint64_t{3} << 38, uint64_t{64} << 20, ~uint64_t{0}}) {
    std::mt19937_64 random(20261121);
    std::unordered_map<int, Slot*> model;
    const auto hash_of = [&](int key) { return (static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u) & spread; };
    for (int64_t i = Scaled(20'000, 200'000); i > 0; --i) {
      const int key = static_cast<int>(random() % 300);
      const auto found = model.find(key);
      Slot* const expected = found == model.end() ? nullptr : found->second;
      ASSERT_EQ(Find(hash_of(key), key), expected);
      ASSERT_EQ(FindUnlocked(hash_of(key), key), expected);
      if (expected == nullptr) {
        Insert(*(model[key] = &slots_.New(hash_of(key), key)));
      } else {
        index_.Remove(*expected);
        model.erase(found);
      }
      ASSERT_EQ(index_.size(), model.size());
    }
    for (const auto& [key, slot] : model) index_.Remove(*slot);
  }
}

// Keys below kKept stay; others come and go around them, and the index grows. What is read without a lock is never
// another key's, and whatever stays is missed only for a moment. Meanwhile old arrays are freed.
TEST(EntryIndexStressTest, ReadersMeetGrowthAndRemovals_FindWhatStays) {
  constexpr int kKept = 32;
  const int rounds = static_cast<int>(Scaled(30, 600));
  const auto hash_of = [](int key) { return static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u >> 3; };
  for (int round = 0; round < rounds; ++round) {
    Slots slots;
    EntryIndex index;
    std::vector<Slot*> items;
    for (int key = 0; key < 2'000; ++key) items.push_back(&slots.New(hash_of(key), key));
    const auto insert = [&](Slot& slot) {
      index.Reserve(&index);
      index.Insert(slot);
    };
    for (int key = 0; key < kKept; ++key) insert(*items[static_cast<size_t>(key)]);
    std::atomic<bool> stop = false;
    std::atomic<int> found = 0;
    std::thread reader([&] {
      HazardRow& row = *ThisHazardRow();
      for (int key = 0; !stop; key = (key + 1) % kKept) {
        const HazardRow::Read read(row, &index);
        index.FindUnlocked(hash_of(key), [&](Slot& slot) {
          if (slot.weight != key) return false;
          EXPECT_EQ(&slot, items[static_cast<size_t>(key)]);
          ++found;
          return true;
        });
      }
    });
    for (size_t key = kKept; key < items.size(); ++key) {
      insert(*items[key]);
      if (key % 3 == 0) index.Remove(*items[key - 1]);
    }
    while (found == 0) std::this_thread::yield();
    stop = true;
    reader.join();
  }
}

}  // namespace
}  // namespace stockade::cache_internal

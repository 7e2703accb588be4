#include "stockade/cache/internal/entry_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <unordered_map>
#include <vector>

#include "support/scale.h"

namespace stockade::cache_internal {
namespace {

using testing::Scaled;

struct Item {
  Item(uint64_t h, int k) : hash(h), key(k) {}
  const uint64_t hash;
  const int key;
};

auto Is(int key) {
  return [key](const Item& item) { return item.key == key; };
}

TEST(EntryIndexTest, Empty_FindsNothing) {
  const EntryIndex<Item> index;
  EXPECT_EQ(index.Find(0, Is(0)), nullptr);
  const HazardRow::Read read(*ThisHazardRow(), &index);
  EXPECT_EQ(index.FindUnlocked(0, *ThisHazardRow(), Is(0)), nullptr);
}

TEST(EntryIndexTest, SameHash_KeysAreToldApart) {
  EntryIndex<Item> index;
  std::vector<std::unique_ptr<Item>> items;
  for (int key = 0; key < 40; ++key) index.Insert(*items.emplace_back(std::make_unique<Item>(77, key)));
  for (int key = 0; key < 40; ++key) EXPECT_EQ(index.Find(77, Is(key)), items[static_cast<size_t>(key)].get());
  EXPECT_EQ(index.Find(77, Is(40)), nullptr);
  EXPECT_EQ(index.Find(77 | uint64_t{1} << 60, Is(1)), nullptr);
}

TEST(EntryIndexTest, Replace_FindsTheNewOneOnly) {
  EntryIndex<Item> index;
  Item old(5, 1);
  Item fresh(5, 1);
  index.Insert(old);
  index.Replace(old, fresh);
  EXPECT_EQ(index.Find(5, Is(1)), &fresh);
  EXPECT_EQ(index.size(), 1);
}

// Few different hashes: long runs of cells, that wrap around the end, and removals that move much.
TEST(EntryIndexTest, RandomChanges_AgreeWithAMap) {
  for (const uint64_t spread : {uint64_t{3}, uint64_t{64}, ~uint64_t{0}}) {
    std::mt19937_64 random(20261121);
    EntryIndex<Item> index;
    std::unordered_map<int, std::unique_ptr<Item>> model;
    const auto hash_of = [&](int key) { return (static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u) & spread; };
    HazardRow& row = *ThisHazardRow();
    for (int64_t i = Scaled(20'000, 200'000); i > 0; --i) {
      const int key = static_cast<int>(random() % 300);
      const auto found = model.find(key);
      Item* const expected = found == model.end() ? nullptr : found->second.get();
      ASSERT_EQ(index.Find(hash_of(key), Is(key)), expected);
      {
        const HazardRow::Read read(row, &index);
        ASSERT_EQ(index.FindUnlocked(hash_of(key), row, Is(key)), expected);
        ASSERT_TRUE(expected == nullptr || row.reads == expected);
      }
      if (expected == nullptr) {
        index.Insert(*(model[key] = std::make_unique<Item>(hash_of(key), key)));
      } else if (random() % 3 == 0) {
        auto fresh = std::make_unique<Item>(hash_of(key), key);
        index.Replace(*expected, *fresh);
        model[key] = std::move(fresh);
      } else {
        index.Remove(*expected);
        model.erase(found);
      }
      ASSERT_EQ(index.size(), model.size());
    }
    size_t seen = 0;
    for (uint64_t position = 0; position != EntryIndex<Item>::kEnd;) {
      for (const Item* const item : index.Some(position)) {
        ++seen;
        EXPECT_EQ(model.at(item->key).get(), item);
      }
    }
    EXPECT_EQ(seen, model.size());
  }
}

// Between two steps of a walk some are removed, the walked ones among them, and more come, so that the index grows.
TEST(EntryIndexTest, Some_AcrossChanges_VisitsOnceWhatStays) {
  for (const uint64_t spread : {uint64_t{0xFFFF} << 24, ~uint64_t{0}}) {  // Few homes, and many.
    std::mt19937_64 random(20261121);
    EntryIndex<Item> index;
    std::vector<std::unique_ptr<Item>> items;
    const auto insert = [&](int count) {
      for (int i = 0; i < count; ++i) {
        items.push_back(std::make_unique<Item>(random() & spread, static_cast<int>(items.size())));
        index.Insert(*items.back());
      }
    };
    insert(3'000);
    std::unordered_map<const Item*, int> visits;
    std::vector<bool> removed(items.size());
    for (uint64_t position = 0; position != EntryIndex<Item>::kEnd;) {
      for (const Item* const item : index.Some(position)) {
        ++visits[item];
        if (item->key % 4 != 0) continue;
        index.Remove(*item);
        if (static_cast<size_t>(item->key) < removed.size()) removed[static_cast<size_t>(item->key)] = true;
      }
      for (int i = 0; i < 20; ++i) {
        const size_t other = random() % removed.size();
        if (removed[other]) continue;
        index.Remove(*items[other]);
        removed[other] = true;
      }
      if (items.size() < 12'000) insert(400);
    }
    for (size_t key = 0; key < removed.size(); ++key) {
      EXPECT_LE(visits[items[key].get()], 1) << key;
      EXPECT_TRUE(removed[key] || visits[items[key].get()] == 1) << key;
    }
  }
}

// Keys below kKept stay; others come and go around them, and the index grows. What is read without a lock is never
// another key's, and whatever stays is missed only for a moment.
TEST(EntryIndexTest, Stress_ReadersMeetGrowthAndRemovals_FindWhatStays) {
  constexpr int kKept = 32;
  const int rounds = static_cast<int>(Scaled(30, 600));
  const auto hash_of = [](int key) { return static_cast<uint64_t>(key) * 0x9E3779B97F4A7C15u >> 3; };
  for (int round = 0; round < rounds; ++round) {
    EntryIndex<Item> index;
    std::vector<std::unique_ptr<Item>> items;
    for (int key = 0; key < 2'000; ++key) items.push_back(std::make_unique<Item>(hash_of(key), key));
    for (int key = 0; key < kKept; ++key) index.Insert(*items[static_cast<size_t>(key)]);
    std::atomic<bool> stop = false;
    std::atomic<int> found = 0;
    std::thread reader([&] {
      HazardRow& row = *ThisHazardRow();
      for (int key = 0; !stop; key = (key + 1) % kKept) {
        const HazardRow::Read read(row, &index);
        const Item* const item = index.FindUnlocked(hash_of(key), row, Is(key));
        if (item == nullptr) continue;
        ASSERT_EQ(item, items[static_cast<size_t>(key)].get());
        ++found;
      }
    });
    for (size_t key = kKept; key < items.size(); ++key) {
      index.Insert(*items[key]);
      if (key % 3 == 0) index.Remove(*items[key - 1]);
    }
    while (found == 0) std::this_thread::yield();
    stop = true;
    reader.join();
  }
}

}  // namespace
}  // namespace stockade::cache_internal

// Many keys have one hash, as an attacker chooses them, or a bad hash function makes them.
#include <gtest/gtest.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cache/test_cache.h"
#include "stockade/base/log.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::testing {
namespace {

// Keys below 1,000 have one hash, and keys from there on another one.
struct TwoHashes {
  size_t operator()(int key) const { return key < 1'000 ? 7 : 8; }
};
using CrowdedCache = LoadingCache<int, int, TwoHashes>;

constexpr int kMost = 64;  // Entries with one hash.

class EqualHashesTest : public ::testing::Test {
 protected:
  // The log passes on 20 messages per second, of which earlier tests may have used all: waits until a message is left
  // out, and then until one is passed on, which is the first one of a second.
  static void SetUpTestSuite() {
    bool passed = false;
    SetLogSink([&](LogSeverity, std::string_view) { passed = true; });
    for (const bool wanted : {false, true}) {
      SpinUntil([&] {
        passed = false;
        base_internal::Log(LogSeverity::kInfo, "a message");
        return passed == wanted;
      });
    }
    SetLogSink({});
  }
  void SetUp() override {
    SetLogSink([this](LogSeverity severity, std::string_view message) {
      const std::lock_guard lock(mutex_);
      if (message.find("the same hash") == std::string_view::npos) return;
      EXPECT_EQ(severity, LogSeverity::kWarning);
      lines_.emplace_back(message);
    });
  }
  void TearDown() override { SetLogSink({}); }

  double Collisions() const { return Metric(registry_, "stockade_cache_hash_collisions_total"); }
  Texts Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  const Texts one_line_ = {
      "LoadingCache 'crowded': more than 64 entries have the same hash, so that operations on their keys are slow: see "
      "Hash of LoadingCache"};
  MetricsRegistry registry_;

 private:
  std::mutex mutex_;
  Texts lines_;
};

TEST_F(EqualHashesTest, Load_64EntriesWithOneHash_AreNeitherLoggedNorCounted) {
  CrowdedCache cache({.name = "crowded", .metrics = &registry_}, ItsKey);
  for (int key = 0; key < kMost; ++key) EXPECT_EQ(**cache.Get(key), key);
  for (int key = 0; key < kMost; ++key) EXPECT_EQ(**cache.Get(1'000 + key), 1'000 + key);
  EXPECT_EQ(Collisions(), 0);
  EXPECT_EQ(Lines(), Texts());
}

TEST_F(EqualHashesTest, Load_MoreThan64EntriesWithOneHash_AreCountedAndLoggedOnce) {
  CrowdedCache cache({.name = "crowded", .max_weight = 100, .metrics = &registry_}, ItsKey);  // One shard.
  for (int key = 0; key <= kMost; ++key) EXPECT_EQ(**cache.Get(key), key);
  EXPECT_EQ(Collisions(), 1);
  EXPECT_EQ(Lines(), one_line_);
  EXPECT_EQ(**cache.Get(kMost + 1), kMost + 1);
  EXPECT_EQ(Collisions(), 2);
  EXPECT_EQ(Lines(), one_line_);
  cache.InvalidateAll();
  for (int key = 0; key <= kMost; ++key) EXPECT_EQ(**cache.Get(key), key);
  EXPECT_EQ(Collisions(), 3);
  EXPECT_EQ(Lines(), one_line_);
}

// A Put into a full cache takes over the slot of another entry.
TEST_F(EqualHashesTest, PutReplacesEntriesOfOtherHashes_MoreThan64WithOneHash_AreCountedAndLoggedOnce) {
  struct OneOfNegativeKeys {
    size_t operator()(int key) const { return key < 0 ? 7 : static_cast<size_t>(key); }
  };
  constexpr int kFull = 16 * 1'100;  // Each shard has so many entries that it evicts its own.
  LoadingCache<int, int, OneOfNegativeKeys> cache({.name = "crowded", .max_weight = kFull, .metrics = &registry_});
  for (int key = 0; key < 2 * kFull; ++key) cache.Put(key, key);
  EXPECT_EQ(Collisions(), 0);
  for (int key = 1; key <= kMost; ++key) cache.Put(-key, key);
  EXPECT_EQ(Collisions(), 0);
  for (int key = kMost + 1; key <= kMost + 3; ++key) cache.Put(-key, key);
  EXPECT_EQ(Collisions(), 3);
  EXPECT_EQ(Lines(), one_line_);
}

}  // namespace
}  // namespace stockade::testing

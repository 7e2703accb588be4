#ifndef STOCKADE_TESTS_CACHE_TIER_TWO_CACHES_H_
#define STOCKADE_TESTS_CACHE_TIER_TWO_CACHES_H_

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/test_cache.h"
#include "stockade/base/strings.h"
#include "stockade/cache/cache_tier.h"

namespace stockade::testing {

// The source of all loads: each write of a key is a new version.
class Database {
 public:
  std::string Read(int key) {
    const std::lock_guard lock(mutex_);
    ++reads_;
    return base_internal::Concat(key, " v", versions_[key]);
  }
  void Write(int key) {
    const std::lock_guard lock(mutex_);
    ++versions_[key];
  }
  int reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

 private:
  std::mutex mutex_;
  std::map<int, int> versions_;
  int reads_ = 0;
};

// Two processes with a cache each, over one tier, which the derived class has.
class TwoCachesTest : public ::testing::Test {
 protected:
  using Cache = LoadingCache<int, std::string>;
  using Callbacks = Cache::Callbacks;
  using Loader = Cache::Loader;
  using Loaded = absl::StatusOr<std::string>;

  // The tier of one more process.
  virtual std::shared_ptr<CacheTier> NewTier() = 0;

  // The options of one more process. A minute is the TTL, unless there is another one.
  LoadingCacheOptions InTier(LoadingCacheOptions options) {
    options.name = "products";
    if (options.ttl == absl::InfiniteDuration()) options.ttl = absl::Minutes(1);
    if (options.metrics == MetricsRegistry::Default()) options.metrics = nullptr;
    options.tier = NewTier();
    options.clock = options.tier->clock();
    return options;
  }
  // `loads`: a loader, or Callbacks.
  template <typename Loads>
  std::unique_ptr<Cache> NewCache(const LoadingCacheOptions& options, const Loads& loads) {
    return Cache::Create(InTier(options), loads).value();
  }
  std::unique_ptr<Cache> NewCache(const Loader& load) { return NewCache({}, load); }
  std::unique_ptr<Cache> NewCache() { return NewCache(Reads()); }
  // Opens `a` and `b`.
  template <typename Loads>
  void Open(const LoadingCacheOptions& options, const Loads& loads) {
    a = NewCache(options, loads);
    b = NewCache(options, loads);
  }
  void Open(const Loader& load) { Open({}, load); }
  void Open(const LoadingCacheOptions& options = {}) { Open(options, Reads()); }
  void OpenAndLoad(const std::vector<int>& keys = {1}) {
    Open();
    for (const int key : keys) ExpectBoth(key, base_internal::Concat(key, " v0"));
  }
  void Close() {
    a.reset();
    b.reset();
  }
  void TearDown() override { Close(); }

  // Loaders.
  Loader Reads() {
    return [this](int key) { return db.Read(key); };
  }
  Loader ReadsWithTag(std::string tag) {
    return [this, tag = std::move(tag)](int key, LoadContext& load) {
      load.AddTag(tag);
      return db.Read(key);
    };
  }
  Loader ReadsBehind(Door& door) {
    return [this, &door](int key) {
      door.Pass();
      return db.Read(key);
    };
  }
  // Its first call of all passes the door, when it has read.
  Loader FirstPasses(Door& door) {
    return [this, &door, first = std::make_shared<std::atomic<bool>>(true)](int key) {
      std::string read = db.Read(key);
      if (first->exchange(false)) door.Pass();
      return read;
    };
  }
  Callbacks ReadsBatches() {
    return {.load_all = [this](const std::vector<int>& keys, Callbacks::Batch& load) {
      for (const int key : keys) load.Add(key, db.Read(key));
      return absl::OkStatus();
    }};
  }

  static std::string TextOf(const absl::StatusOr<CacheHandle<std::string>>& found) {
    return found.ok() ? **found : CodeOf(found.status());
  }
  static std::string Get(Cache& cache, int key) { return TextOf(cache.Get(key)); }
  void ExpectBoth(int key, const std::string& text) {
    EXPECT_EQ(Get(*a, key), text);
    EXPECT_EQ(Get(*b, key), text);
  }
  // What GetAsync() answers.
  static std::future<std::string> GetLater(Cache& cache, int key, Executor& executor) {
    auto answer = std::make_shared<std::promise<std::string>>();
    cache.GetAsync(key, executor, [answer](const auto& found) { answer->set_value(TextOf(found)); });
    return answer->get_future();
  }
  static bool Has(Cache& cache, int key) { return cache.GetIfPresent(key).has_value(); }
  absl::Status Update(Cache& cache, int key) {
    return cache.UpdateThrough(key, [&] {
      db.Write(key);
      return absl::OkStatus();
    });
  }

  Database db;
  std::unique_ptr<Cache> a;
  std::unique_ptr<Cache> b;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TIER_TWO_CACHES_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <string>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<int> One(const int&, LoadContext&) { return 1; }

std::string Refusal(const LoadingCacheOptions& options) { return options.Validate().ToString(); }

TEST(LoadingCacheOptionsTest, Validate_Defaults_Pass) { EXPECT_TRUE(LoadingCacheOptions{}.Validate().ok()); }

TEST(LoadingCacheOptionsTest, Validate_BadField_NamesCacheFieldAndValue) {
  EXPECT_THAT(Refusal({.name = ""}), HasSubstr("name = ''"));
  EXPECT_THAT(Refusal({.name = "p", .max_weight = 0}), HasSubstr("LoadingCache 'p': max_weight = 0"));
  EXPECT_THAT(Refusal({.negative_weight = -3}), HasSubstr("negative_weight = -3"));
  EXPECT_THAT(Refusal({.ttl_jitter = 1.5}), HasSubstr("ttl_jitter = 1.5"));
  EXPECT_THAT(Refusal({.ttl_jitter = std::nan("")}), HasSubstr("ttl_jitter = nan"));
  EXPECT_THAT(Refusal({.refresh_ahead = 1}), HasSubstr("refresh_ahead = 1"));
  EXPECT_THAT(Refusal({.negative_ttl = -absl::Seconds(2)}), HasSubstr("negative_ttl = -2s"));
  EXPECT_THAT(Refusal({.stale_if_error = -absl::Seconds(2)}), HasSubstr("stale_if_error = -2s"));
  EXPECT_THAT(Refusal({.retry_backoff = -absl::Seconds(2)}), HasSubstr("retry_backoff = -2s"));
  EXPECT_THAT(Refusal({.load_hard_timeout = absl::ZeroDuration()}), HasSubstr("load_hard_timeout = 0"));
  EXPECT_THAT(Refusal({.clock = nullptr}), HasSubstr("clock = null"));
}

TEST(LoadingCacheOptionsTest, Validate_OptionsWithoutEffect_NamesBothAndTheirValues) {
  EXPECT_THAT(Refusal({.name = "p", .ttl_jitter = 0.1}),
              HasSubstr("LoadingCache 'p': ttl_jitter = 0.1: has no effect with ttl = inf"));
  EXPECT_THAT(Refusal({.refresh_ahead = 0.8}), HasSubstr("refresh_ahead = 0.8: has no effect with ttl = inf"));
  EXPECT_THAT(Refusal({.xfetch_beta = 1}), HasSubstr("xfetch_beta = 1: has no effect with ttl = inf"));
  EXPECT_THAT(Refusal({.stale_while_revalidate = absl::Seconds(2)}),
              HasSubstr("stale_while_revalidate = 2s: has no effect with ttl = inf"));
  EXPECT_THAT(Refusal({.load_soft_timeout = absl::Seconds(2)}),
              HasSubstr("load_soft_timeout = 2s: has no effect with stale_if_error = 0"));
  EXPECT_THAT(Refusal({.ttl = absl::Minutes(1),
                       .stale_if_error = absl::Hours(1),
                       .load_soft_timeout = absl::Seconds(3),
                       .load_hard_timeout = absl::Seconds(2)}),
              HasSubstr("load_soft_timeout = 3s: has no effect above load_hard_timeout = 2s"));
  EXPECT_TRUE((LoadingCacheOptions{.ttl = absl::Minutes(1),
                                   .ttl_jitter = 0.1,
                                   .refresh_ahead = 0.8,
                                   .xfetch_beta = 1,
                                   .stale_while_revalidate = absl::Seconds(1),
                                   .stale_if_error = absl::Hours(1),
                                   .load_soft_timeout = absl::Seconds(2),
                                   .load_hard_timeout = absl::Seconds(2)})
                  .Validate()
                  .ok());
}

TEST(LoadingCacheOptionsTest, Create_BadOptionsOrLoader_InvalidArgument) {
  EXPECT_EQ(IntCache::Create({.max_weight = 0}, One).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(IntCache::Create({}, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<std::unique_ptr<IntCache>> cache = IntCache::Create({.metrics = nullptr}, One);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ(**(*cache)->Get(1), 1);
}

TEST(LoadingCacheOptionsDeathTest, Constructor_BadOptions_AbortsWithValidatesText) {
  EXPECT_DEATH(IntCache({.name = "p", .max_weight = -1}, One), "LoadingCache 'p': max_weight = -1");
  EXPECT_DEATH(IntCache({.name = "p"}, nullptr), "LoadingCache 'p': the loader is empty");
}

TEST(DurationTest, ChronoSpans_ConvertAndSaturate) {
  EXPECT_EQ(Duration(std::chrono::minutes(5)), absl::Minutes(5));
  EXPECT_EQ(Duration(std::chrono::nanoseconds(7)), absl::Nanoseconds(7));
  EXPECT_EQ(Duration(std::chrono::duration<double>(0.5)), absl::Milliseconds(500));
  EXPECT_EQ(Duration(-std::chrono::milliseconds(3)), -absl::Milliseconds(3));
  EXPECT_EQ(Duration(std::chrono::hours::max()), absl::InfiniteDuration());
  EXPECT_EQ(Duration(std::chrono::nanoseconds::max()), absl::FromChrono(std::chrono::nanoseconds::max()));
  EXPECT_EQ(Duration(std::chrono::days(1)), absl::Hours(24));
}

TEST(LoadingCacheOptionsTest, ChronoDurations_AreAcceptedWhereverTimeIsSaid) {
  ManualClock clock;
  IntCache cache({.ttl = std::chrono::seconds(10),
                  .negative_ttl = std::chrono::milliseconds(5),
                  .sweep_interval = std::chrono::minutes(1),
                  .clock = &clock,
                  .metrics = nullptr},
                 [](const int& key, LoadContext& load) -> absl::StatusOr<int> {
                   if (key == 2) load.set_ttl(std::chrono::seconds(20));
                   return key;
                 });
  EXPECT_TRUE(cache.Get(1, {.timeout = std::chrono::seconds(1)}).ok());
  EXPECT_TRUE(cache.Get(2).ok());
  cache.Put(3, 3, std::chrono::seconds(20));
  cache.Put(4, 4, {.ttl = std::chrono::seconds(20)});
  clock.Advance(absl::Seconds(10));
  for (const int key : {2, 3, 4}) EXPECT_TRUE(cache.GetIfPresent(key).has_value()) << key;
  EXPECT_FALSE(cache.GetIfPresent(1).has_value());
  EXPECT_TRUE(cache.UpdateThrough(2, Ok, std::chrono::seconds(1)).ok());
}

TEST(LoaderTest, OfTheKeyAlone_Loads) {
  const auto twice = [](const int& key) -> absl::StatusOr<int> { return 2 * key; };
  IntCache cache({.metrics = nullptr}, twice);
  EXPECT_EQ(**cache.Get(4), 8);
  IntCache by_callbacks({.metrics = nullptr}, IntCache::Callbacks{.load = twice});
  EXPECT_EQ(**by_callbacks.Get(4), 8);
  EXPECT_EQ(**by_callbacks.GetOrLoad(5, [](int key) { return key; }), 5);
  IntCache generic({.metrics = nullptr}, [](const auto& key, auto& load) -> absl::StatusOr<int> {
    return load.previous() == nullptr ? key : 0;
  });
  EXPECT_EQ(**generic.Get(4), 4);
}

TEST(LoaderTest, EmptyFunctionOfEitherKind_IsRefused) {
  EXPECT_FALSE(IntCache::Create({}, std::function<absl::StatusOr<int>(const int&)>()).ok());
  EXPECT_FALSE(IntCache::Create({}, std::function<absl::StatusOr<int>(const int&, LoadContext&)>()).ok());
}

// The snippet of the public header.
struct Product {
  int price;
};
struct Database {
  absl::StatusOr<Product> Fetch(const std::string& id, Instant) { return Product{static_cast<int>(id.size())}; }
};

TEST(LoadingCacheTest, Snippet_CompilesAndLoads) {
  Database db;
  stockade::LoadingCache<std::string, Product> products(
      {.name = "products",
       .max_weight = 100'000,
       .ttl = absl::Minutes(5),
       .ttl_jitter = 0.1,
       .refresh_ahead = 0.8,
       .negative_ttl = absl::Seconds(10),
       .stale_if_error = absl::Hours(1)},
      [&](const std::string& id, stockade::LoadContext& load) -> absl::StatusOr<Product> {
        return db.Fetch(id, load.deadline());
      });
  absl::StatusOr<stockade::CacheHandle<Product>> p = products.Get("air-force-one");
  ASSERT_TRUE(p.ok());
  EXPECT_EQ((*p)->price, 13);
}

}  // namespace
}  // namespace stockade::testing

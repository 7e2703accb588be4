#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

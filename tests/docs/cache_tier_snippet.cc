// The snippets of docs/CACHE.md, "Across machines", where they compile and run. snippets_test.cc compares the two.

#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "redis/support/redis_server.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/locks/redis_lock_service.h"

namespace {

struct Price {
  int cents = 0;
};

struct Database {
  absl::StatusOr<Price> PriceOf(const std::string& /*id*/) {
    ++queries;
    return Price{cents};
  }
  absl::Status SetPrice(const std::string& /*id*/, int new_cents) {
    cents = new_cents;
    return absl::OkStatus();
  }
  std::atomic<int> cents = 120;
  std::atomic<int> queries = 0;
};

using Prices = stockade::LoadingCache<std::string, Price>;

absl::StatusOr<std::unique_ptr<Prices>> OpenPrices(const std::string& url, Database& db) {
  stockade::RedisCacheTierOptions shared;
  shared.prefix = "shop";
  absl::StatusOr<std::shared_ptr<stockade::CacheTier>> tier = stockade::RedisCacheTier::Connect(url, shared);
  if (!tier.ok()) return tier.status();

  stockade::LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5)};
  options.tier = *tier;  // all processes that use this prefix and this name share the values
  return Prices::Create(options, {.load = [&db](const std::string& id) { return db.PriceOf(id); },
                                  .codec = {.id = "cents/1",  // change it with the format of the values
                                            .encode_value =
                                                [](const Price& price, std::string* bytes) {
                                                  *bytes = std::to_string(price.cents);
                                                  return absl::OkStatus();
                                                },
                                            .decode_value = [](std::string_view bytes) -> absl::StatusOr<Price> {
                                              Price price;
                                              const char* const end = bytes.data() + bytes.size();
                                              const auto [read, error] =
                                                  std::from_chars(bytes.data(), end, price.cents);
                                              if (error == std::errc() && read == end) return price;
                                              return absl::InvalidArgumentError("not a price");
                                            }}});
}

using PriceTexts = stockade::LoadingCache<std::string, std::string>;

struct CheckedDatabase {
  absl::Status SetPrice(const std::string& /*id*/, const std::string& price, int64_t token) {
    if (token < last_token) return absl::AbortedError("a later update has written");
    last_token = token;
    text = price;
    return absl::OkStatus();
  }
  int64_t last_token = 0;
  std::string text = "120";
};

absl::Status ChangePrice(PriceTexts& prices, CheckedDatabase& db, const std::string& price) {
  const absl::StatusOr<stockade::UpdateReport> report =
      prices.UpdateThrough("air-force-one", [&](const stockade::LockLease& lock) {
        return db.SetPrice("air-force-one", price, *lock.fencing_token());  // refuses a token below the last one
      });
  if (!report.ok()) return report.status();
  if (!report->settled) std::cerr << "other processes may show the old price yet: " << report->reason << '\n';
  return absl::OkStatus();
}

std::unique_ptr<PriceTexts> OpenStrict(const std::string& url, stockade::LockService& locks, CheckedDatabase& db) {
  stockade::RedisCacheTierOptions shared;
  shared.prefix = "shop-prices";  // strict caches have a tier of their own
  shared.heartbeat = absl::Milliseconds(100);
  shared.max_staleness = absl::Milliseconds(500);
  shared.locks = &locks;  // a stockade::LockService, as RedisLockService::Connect() returns it
  stockade::LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5), .strict = true};
  options.tier = *stockade::RedisCacheTier::Connect(url, shared);
  return *PriceTexts::Create(options, [&db](const std::string&) -> absl::StatusOr<std::string> { return db.text; });
}

TEST(CacheDocumentTest, StrictSnippet_TwoProcesses_ShowTheNewPriceAtOnce) {
  STOCKADE_NEEDS_REDIS();
  const stockade::testing::RedisServer server;
  const std::unique_ptr<stockade::LockService> locks = *stockade::RedisLockService::Connect(server.url());
  CheckedDatabase db;
  const auto one = OpenStrict(server.url(), *locks, db);
  const auto other = OpenStrict(server.url(), *locks, db);
  EXPECT_EQ(**other->Get("air-force-one"), "120");
  const absl::Status changed = ChangePrice(*one, db, "99");
  EXPECT_TRUE(changed.ok()) << changed;
  EXPECT_EQ(**other->Get("air-force-one"), "99");
}

TEST(CacheDocumentTest, TierSnippet_TwoProcesses_ShareALoadAndAnInvalidation) {
  STOCKADE_NEEDS_REDIS();
  const stockade::testing::RedisServer server;
  Database db;
  const auto one = OpenPrices(server.url(), db);
  const auto other = OpenPrices(server.url(), db);  // As another process would.
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(other.ok()) << other.status();

  const auto first = (*one)->Get("air-force-one");
  const auto second = (*other)->Get("air-force-one");

  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->cents, 120);
  EXPECT_EQ(db.queries, 1);

  ASSERT_TRUE((*one)->UpdateThrough("air-force-one", [&] { return db.SetPrice("air-force-one", 99); }).ok());

  const auto changed = (*one)->Get("air-force-one");
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ((*changed)->cents, 99);
}

}  // namespace

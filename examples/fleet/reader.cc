#include "reader.h"

#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/metrics/metrics_registry.h"

namespace fleet {
namespace {

using Prices = stockade::LoadingCache<std::string, int64_t>;

constexpr char kHotKey[] = "air-force-one";
constexpr absl::Duration kBetweenReads = absl::Milliseconds(2);

void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "fleet: %s\n", status.ToString().c_str());
  std::exit(2);
}

template <typename T>
T OrExit(absl::StatusOr<T> value) {
  OrExit(value.status());
  return *std::move(value);
}

std::shared_ptr<stockade::CacheTier> ConnectTier(const std::string& url) {
  stockade::RedisCacheTierOptions options = {.prefix = "fleet"};
  options.heartbeat = absl::Milliseconds(50);
  // Longer than the default, so that a busy machine is not mistaken for a fault.
  options.timeout = absl::Seconds(2);
  options.lease = absl::Seconds(3);
  options.redis.connect_timeout = absl::Seconds(10);
  options.redis.max_backoff = absl::Milliseconds(100);
  return OrExit(stockade::RedisCacheTier::Connect(url, std::move(options)));
}

// Copies what the tier's metrics say into the row of the process.
void Report(ProcessRow& row) {
  for (const prometheus::MetricFamily& family : stockade::MetricsRegistry::Default()->Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      if (family.name == "stockade_cache_tier_trusted") row.trusted = metric.gauge.value == 1;
      if (family.name != "stockade_cache_tier_requests_total") continue;
      for (const prometheus::ClientMetric::Label& label : metric.label) {
        if (label.value == "granted") row.granted = static_cast<int64_t>(metric.counter.value);
        if (label.value == "away") row.away = static_cast<int64_t>(metric.counter.value);
      }
    }
  }
}

}  // namespace

void RunReader(const ReaderPlan& plan) {
  Database database = OrExit(Database::Open(plan.database));
  ProcessRow& row = database.row(plan.number);
  const auto query = [&] {
    return database.Query([&] {
      Report(row);
      raise(SIGKILL);
    });
  };

  std::unique_ptr<Prices> prices;
  if (plan.how != How::kNoCache) {
    stockade::LoadingCacheOptions options = {.name = "prices", .ttl = kTtl};
    if (plan.how == How::kFleet) options.tier = ConnectTier(plan.redis_url);
    prices = OrExit(
        Prices::Create(std::move(options), [&](const std::string&) -> absl::StatusOr<int64_t> { return query(); }));
  }

  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (!database.stop()) {
        if (prices == nullptr) {
          query();
        } else {
          OrExit(prices->Get(kHotKey).status());
        }
        absl::SleepFor(kBetweenReads);
      }
    });
  }
  while (!database.stop()) {
    if (plan.how == How::kFleet) Report(row);
    if (prices != nullptr && database.Take(Database::Order::kInvalidate)) {
      database.SetPrice(database.price() + 1);
      database.EndExpiry();
      prices->Invalidate(kHotKey);
    }
    absl::SleepFor(kBetweenReads);
  }
}

}  // namespace fleet

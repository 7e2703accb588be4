// Step 11: the shop behind HTTP, on two event loops with 1,000 connections; its Redis stands still for a while.

#include <prometheus/exposer.h>
#include <prometheus/registry.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/own_redis.h"
#include "common/parse_number.h"
#include "common/stop_signal.h"
#include "common/temp_directory.h"
#include "database.h"
#include "event_loop/load.h"
#include "event_loop/map_web_shop.h"
#include "event_loop/stockade_web_shop.h"
#include "event_loop/web_server.h"
#include "stockade/base/executor.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/locks/connect_lock_service.h"
#include "stockade/metrics/metrics_registry.h"
#include "visitors.h"

namespace {

using examples::OwnRedis;
using examples::TempDirectory;
using shop::OrExit;
using shop::WebServer;
using std::chrono::milliseconds;

constexpr int64_t kUnits = 10'000;  // Of each shoe.
constexpr milliseconds kLate = shop::kDeadline + milliseconds(20);

struct Options {
  int connections = 1000;
  int seconds = 2;  // Of each part.
  bool serve = false;
  uint16_t port = 8080;
};

// The cache, the locks and the stock of the web shop on Stockade.
class Backend {
 public:
  Backend(const std::string& redis, const std::string& directory)
      : locks_(OrExit(stockade::ConnectLockService(redis))),
        stock_({.name = "shop",
                .ledger = OrExit(stockade::SqliteLedger::Open(directory + "/orders.db", {.name = "orders"}))}) {
    for (int i = 0; i < shop::Database::kShoes; ++i) {
      skus_.push_back(absl::StrCat("shoe-", i));
      OrExit(stock_.AddSku(skus_.back(), {.stock = kUnits}));
    }
  }

  std::unique_ptr<shop::WebShop> MakeShop(const asio::any_io_executor& loop) {
    return std::make_unique<shop::StockadeWebShop>(loop, products_, *locks_, stock_);
  }

  int64_t queries() const { return db_.queries(); }

  // Nobody holds a lock, and each unit is sold or available.
  bool AtRest() {
    for (const std::string& sku : skus_) {
      const stockade::StockFigures figures = OrExit(stock_.Figures(sku));
      if (figures.sold + figures.available != figures.granted) return false;
    }
    for (int user = 0; user < shop::kUsers; ++user) {
      const absl::StatusOr<stockade::LockState> state = locks_->Inspect(absl::StrCat("user/", user));
      if (!state.ok() || state->locked) return false;
    }
    return true;
  }

 private:
  shop::Database db_;
  stockade::ThreadPool loaders_{8};  // As many as the database takes queries at a time.
  shop::StockadeWebShop::Products products_{
      {.name = "products", .ttl = shop::kTtl, .refresh_ahead = 0.7, .refresh_executor = &loaders_},
      [this](const std::string& id) { return db_.Find(id); }};
  std::unique_ptr<stockade::LockService> locks_;
  stockade::Inventory stock_;
  std::vector<std::string> skus_;
};

double Milliseconds(std::chrono::microseconds time) { return static_cast<double>(time.count()) / 1000; }

void Print(const char* shop, const shop::LoadReport& load, WebServer& server, int64_t queries) {
  std::printf("%-14s ~%-9.0f ~%-8.1f ~%-6lld ~%-12.1f ~%lld\n", shop, load.per_second(),
              Milliseconds(shop::P99(load.took)), static_cast<long long>(load.Late(kLate)),
              Milliseconds(shop::P99(server.lag().Take())), static_cast<long long>(queries));
  std::fflush(stdout);
  if (load.broken > 0) OrExit(absl::InternalError(absl::StrCat(load.broken, " connections broke")));
}

void LoadMapShop(const Options& options) {
  shop::Database db;
  for (int i = 0; i < shop::Database::kShoes; ++i) OrExit(db.SetStock(absl::StrCat("shoe-", i), kUnits));
  shop::MapShopState state;
  prometheus::Registry metrics;
  WebServer server(0, metrics, [&](const auto&) { return std::make_unique<shop::MapWebShop>(db, state); });
  const shop::LoadReport load = shop::RunLoad({.port = server.port(),
                                               .connections = options.connections,
                                               .duration = std::chrono::seconds(options.seconds),
                                               .name = "map"});
  Print("mutex and map", load, server, db.queries());
}

// Half of the highest rate, and Redis stands still in the middle.
void StopRedis(const Options& options, double rate, WebServer& server, OwnRedis& redis) {
  const auto part = std::chrono::seconds(options.seconds);
  constexpr milliseconds kStill(1500);
  (void)server.lag().Take();
  shop::LoadReport load;
  std::thread clients([&] {
    load = shop::RunLoad({.port = server.port(),
                          .connections = options.connections,
                          .duration = part + kStill + part,
                          .rate = rate,
                          .name = "stop"});
  });
  absl::SleepFor(absl::FromChrono(part));
  const auto before = shop::P99(server.lag().Take());
  redis.Pause();
  absl::SleepFor(absl::FromChrono(kStill));
  const auto meanwhile = shop::P99(server.lag().Take());
  redis.Continue();
  clients.join();
  std::printf(
      "Redis stands still for 1.5 s: ~%lld answers, ~%lld of them 504; ~%lld came later than the deadline + 20 ms\n",
      static_cast<long long>(load.answers), static_cast<long long>(load.of_status[504]),
      static_cast<long long>(load.Late(kLate)));
  std::printf("the event loops are late by ~%.1f ms (p99), and were by ~%.1f ms before\n", Milliseconds(meanwhile),
              Milliseconds(before));
  std::fflush(stdout);
  if (load.broken > 0) OrExit(absl::InternalError(absl::StrCat(load.broken, " connections broke")));
}

void Audit(Backend& backend) {
  const absl::Time begun = absl::Now();
  while (!backend.AtRest()) {
    if (absl::Now() - begun > absl::Seconds(35)) OrExit(absl::InternalError("a lock or a reservation is left"));
    absl::SleepFor(absl::Milliseconds(100));
  }
  std::printf("~%.0f s later no lock is held, and each pair is sold or available\n",
              absl::ToDoubleSeconds(absl::Now() - begun));
}

int LoadBoth(const Options& options, OwnRedis& redis, const std::string& directory) {
  std::printf("%d connections, 2 event loops, 5 %% orders\n", options.connections);
  std::printf("               answers/s  p99 ms    late    loop p99 ms   queries\n");
  LoadMapShop(options);
  Backend backend(redis.url(), directory);
  prometheus::Registry metrics;
  WebServer server(0, metrics, [&](const auto& loop) { return backend.MakeShop(loop); });
  const shop::LoadReport load = shop::RunLoad({.port = server.port(),
                                               .connections = options.connections,
                                               .duration = std::chrono::seconds(options.seconds),
                                               .name = "load"});
  Print("Stockade", load, server, backend.queries());
  StopRedis(options, load.per_second() / 2, server, redis);
  Audit(backend);
  return 0;
}

int Serve(const Options& options, OwnRedis& redis, const std::string& directory) {
  examples::StopSignal end;
  Backend backend(redis.url(), directory);
  const auto metrics = std::make_shared<prometheus::Registry>();
  WebServer server(options.port, *metrics, [&](const auto& loop) { return backend.MakeShop(loop); });
  // The shop's own metrics and Stockade's on one page.
  const std::shared_ptr<prometheus::Collectable> stockades(stockade::MetricsRegistry::Default(), [](auto*) {});
  prometheus::Exposer exposer("127.0.0.1:0");
  exposer.RegisterCollectable(metrics);
  exposer.RegisterCollectable(stockades);
  std::printf("http://127.0.0.1:%u/products/shoe-1, metrics at http://127.0.0.1:%d/metrics, until Ctrl-C\n",
              server.port(), exposer.GetListeningPorts().front());
  std::fflush(stdout);
  end.Wait();
  return 0;
}

// Both ends of each connection are in this process.
absl::Status AllowFiles(int connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::InternalError("getrlimit");
  const rlim_t needed = static_cast<rlim_t>(connections) * 2 + 200;
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  if (limit.rlim_max < needed) {
    return absl::ResourceExhaustedError(
        absl::StrCat(connections, " connections take ", needed, " files, and the limit is ", limit.rlim_max));
  }
  limit.rlim_cur = needed;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? absl::OkStatus() : absl::InternalError("setrlimit");
}

absl::StatusOr<Options> Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (i + 1 == argc) return absl::InvalidArgumentError(absl::StrCat(name, " is unknown, or takes a number"));
    const std::string value = argv[++i];
    absl::Status parsed = absl::InvalidArgumentError(absl::StrCat("there is no option ", name));
    if (name == "--connections") parsed = examples::ParseNumber(name, value, 1, 5000, options.connections);
    if (name == "--seconds") parsed = examples::ParseNumber(name, value, 1, 3600, options.seconds);
    if (name == "--serve") {
      options.serve = true;
      parsed = examples::ParseNumber<uint16_t>(name, value, 0, 65535, options.port);
    }
    if (!parsed.ok()) return parsed;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<Options> options = Parse(argc, argv);
  if (!options.ok()) {
    std::fprintf(stderr, "step11: %s\nusage: step11 [--connections N] [--seconds N] [--serve PORT]\n",
                 std::string(options.status().message()).c_str());
    return 2;
  }
  OrExit(AllowFiles(options->connections));
  const TempDirectory directory = OrExit(TempDirectory::Create("shop"));
  const auto redis = OwnRedis::Start();
  if (!redis.ok()) {
    std::fprintf(stderr, "step11 needs redis-server: %s\n", std::string(redis.status().message()).c_str());
    return 2;
  }
  try {
    return options->serve ? Serve(*options, **redis, directory.path()) : LoadBoth(*options, **redis, directory.path());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step11: %s\n", error.what());
    return 2;
  }
}

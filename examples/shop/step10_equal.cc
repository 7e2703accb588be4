// Step 10: a cache that equals its database. Three processes show a price that changes, in three ways, and count the
// visitors who were shown a price that had been changed before they came.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/own_mariadb.h"
#include "common/own_redis.h"
#include "common/process.h"
#include "common/temp_directory.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/locks/connect_lock_service.h"
#include "stockade/redis/redis_client.h"
#include "visitors.h"
#include "warehouse.h"

namespace {

using examples::Process;
using shop::OrExit;
using shop::Warehouse;
using Prices = stockade::LoadingCache<std::string, int64_t>;

constexpr int kProcesses = 3;
constexpr int kChanges = 10;

// The state that the processes of a round share, in a file that they map.
struct Board {
  std::atomic<int64_t> price;  // The last one whose change has ended.
  std::atomic<int64_t> shown, old;
  std::atomic<int> ready;
  std::atomic<bool> over;
  std::atomic<bool> paused;  // The accident of the first way has happened.

  static Board& Map(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void* const mapped = file >= 0 && ftruncate(file, sizeof(Board)) == 0
                             ? mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                             : MAP_FAILED;
    if (mapped == MAP_FAILED) OrExit(absl::InternalError(absl::StrCat("cannot map ", path)));
    return *static_cast<Board*>(mapped);
  }
};

// How a process shows the price, and changes it.
struct Way {
  std::function<int64_t()> show;
  std::function<void(int64_t price)> change;
};

// By hand: a reader fills the cache, a writer deletes before and after its write.
Way DoubleDelete(const std::string& redis, Warehouse& warehouse, Board& board) {
  const std::shared_ptr<stockade::RedisClient> client = OrExit(stockade::RedisClient::Connect(redis));
  const auto command = [](const char* name) { return stockade::RedisCommand(name).Key("price"); };
  const auto show = [=, &warehouse, &board]() -> int64_t {
    const stockade::RedisReply found = OrExit(client->Run(command("GET")));
    if (!found.is_nil()) return std::stol(std::string(found.text()));
    const int64_t price = OrExit(warehouse.Price());
    // Here the process may be paused for any time. One is, once, until the next change has ended and others have its
    // price.
    if (price > 3 && !board.paused.exchange(true)) {
      while (board.price <= price && !board.over) absl::SleepFor(absl::Milliseconds(1));
      absl::SleepFor(absl::Milliseconds(30));
    }
    OrExit(client->Run(command("SET").Arg(price)).status());
    return price;
  };
  const auto change = [=, &warehouse](int64_t price) {
    OrExit(client->Run(command("DEL")).status());
    OrExit(warehouse.SetPrice(price));
    OrExit(client->Run(command("DEL")).status());
  };
  return {show, change};
}

// As step 9. It has no messages, as if all were lost: the others notice a change at their next heartbeat.
Way UpdateThrough(const std::string& redis, Warehouse& warehouse) {
  stockade::LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5)};
  options.tier = OrExit(stockade::RedisCacheTier::Connect(redis, {.prefix = "shop", .pubsub = false}));
  const std::shared_ptr<Prices> prices =
      OrExit(Prices::Create(options, {.load = [&](const std::string&) { return warehouse.Price(); }}));
  return {[=] { return *OrExit(prices->Get("shoe-1")); },
          [=, &warehouse](int64_t price) {
            OrExit(prices->UpdateThrough("shoe-1", [&] { return warehouse.SetPrice(price); }));
          }};
}

Way Strict(const std::string& redis, Warehouse& warehouse) {
  struct Shop {
    std::unique_ptr<stockade::LockService> locks;
    std::unique_ptr<Prices> prices;
  };
  const auto shop = std::make_shared<Shop>();
  shop->locks = OrExit(stockade::ConnectLockService(redis, {.name = "shop"}));
  stockade::RedisCacheTierOptions shared = {.prefix = "strict-shop"};
  shared.heartbeat = absl::Milliseconds(100);
  shared.max_staleness = absl::Milliseconds(500);  // a change takes as long
  shared.locks = shop->locks.get();
  stockade::LoadingCacheOptions options = {.name = "prices", .ttl = absl::Minutes(5), .strict = true};
  options.tier = OrExit(stockade::RedisCacheTier::Connect(redis, shared));
  shop->prices = OrExit(Prices::Create(options, {.load = [&](const std::string&) { return warehouse.Price(); }}));
  const auto change = [=, &warehouse](int64_t price) {
    const stockade::UpdateReport report = OrExit(shop->prices->UpdateThrough(
        "shoe-1", [&](const stockade::LockLease& lock) { return warehouse.SetPrice(price, *lock.fencing_token()); }));
    OrExit(report.reason);  // it is settled
  };
  return {[=] { return *OrExit(shop->prices->Get("shoe-1")); }, change};
}

// One process: shows the price until the round is over. The first one also changes it.
void RunProcess(int number, int kind, const std::string& redis, const std::string& socket, Board& board) {
  const std::unique_ptr<Warehouse> warehouse = OrExit(Warehouse::Open(socket));
  const Way way = kind == 0   ? DoubleDelete(redis, *warehouse, board)
                  : kind == 1 ? UpdateThrough(redis, *warehouse)
                              : Strict(redis, *warehouse);
  std::optional<std::jthread> writer;
  way.show();
  ++board.ready;
  while (board.ready < kProcesses) absl::SleepFor(absl::Milliseconds(1));
  if (number == 1) {
    writer.emplace([&] {
      for (int64_t price = 2; price <= kChanges + 1; ++price) {
        way.change(price);
        board.price = price;
        absl::SleepFor(absl::Milliseconds(100));
      }
      board.over = true;
    });
  }
  while (!board.over) {
    const int64_t changed_before = board.price;
    if (way.show() < changed_before) ++board.old;
    ++board.shown;
    absl::SleepFor(absl::Milliseconds(1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 7) {
    RunProcess(std::atoi(argv[2]), std::atoi(argv[3]), argv[4], argv[5], Board::Map(argv[6]));
    return 0;
  }
  if (argc > 1) {
    std::fprintf(stderr, "usage: step10\n");
    return 2;
  }
  const examples::TempDirectory directory = OrExit(examples::TempDirectory::Create("shop"));
  const auto redis = examples::OwnRedis::Start();
  const auto database = examples::OwnMariaDb::Start();
  for (const absl::Status& started : {redis.status(), database.status()}) {
    if (started.ok()) continue;
    std::fprintf(stderr, "step10 needs redis-server and MariaDB: %s\n", std::string(started.message()).c_str());
    return 2;
  }
  while (!OrExit((*database)->Answers())) absl::SleepFor(absl::Milliseconds(5));
  const std::unique_ptr<Warehouse> warehouse = OrExit(Warehouse::Open((*database)->socket()));

  std::printf("%-14s  %7s  %7s  %s\n", "", "changes", "shown", "of them old");
  const std::vector<std::string> names = {"double delete", "UpdateThrough", "strict"};
  for (size_t kind = 0; kind < names.size(); ++kind) {
    OrExit(warehouse->SetPrice(1));
    const std::string file = absl::StrCat(directory.path(), "/board-", kind);
    Board& board = Board::Map(file);
    board.price = 1;
    std::vector<Process> processes;
    for (int number = 1; number <= kProcesses; ++number) {
      processes.push_back(OrExit(Process::Start({"/proc/self/exe", "process", absl::StrCat(number), absl::StrCat(kind),
                                                 (*redis)->url(), (*database)->socket(), file})));
    }
    for (Process& process : processes) {
      if (process.Await().exit_status != 0) OrExit(absl::InternalError("a process of the fleet failed"));
    }
    const auto about = [](int64_t count) { return count == 0 ? std::string("0") : absl::StrCat("~", count); };
    std::printf("%-14s  %7d  %7s  %s\n", names[kind].c_str(), kChanges, about(board.shown).c_str(),
                about(board.old).c_str());
    std::fflush(stdout);
  }
  return 0;
}

// Uses locks, a cache and an inventory from several threads:
//
//   tsan_program quiet|racing
//
// quiet: without a race. racing: with one of its own, which must be reported.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 2'000;

struct Shop {
  // Each lock has a number that only its holder changes.
  ReentrantMutex mutex;
  int64_t by_mutex = 0;
  ReentrantSharedMutex shared_mutex;
  int64_t by_shared_mutex = 0;
  KeyedMutex<std::string> keyed;
  int64_t by_keyed = 0;
  KeyedSharedMutex<std::string> keyed_shared;
  int64_t by_keyed_shared = 0;
  LoadingCache<std::string, std::string>& cache;
  Inventory& inventory;
  LockService& locks;
  int64_t by_locks = 0;
  int64_t by_nothing = 0;
  std::atomic<int64_t> seen = 0;
};

void Lock(Shop& shop) {
  {
    const std::scoped_lock outer(shop.mutex);
    const std::scoped_lock inner(shop.mutex);
    ++shop.by_mutex;
  }
  {
    const std::unique_lock lock(shop.shared_mutex);
    ++shop.by_shared_mutex;
  }
  {
    const std::shared_lock lock(shop.shared_mutex);
    shop.seen += shop.by_shared_mutex;
  }
  if (shop.mutex.try_lock()) {
    ++shop.by_mutex;
    shop.mutex.unlock();
  }
  {
    const auto held = shop.keyed.Lock("key");
    ++shop.by_keyed;
  }
  const auto held = shop.keyed_shared.Lock("key");
  ++shop.by_keyed_shared;
}

void Use(Shop& shop, int thread, bool races) {
  for (int i = 0; i < kRounds; ++i) {
    Lock(shop);
    const std::string key = "key " + std::to_string(i % 50);
    if (const auto value = shop.cache.Get(key); value.ok()) shop.seen += static_cast<int64_t>((*value)->size());
    if (i % 10 == 0) shop.cache.Invalidate(key);
    if (i % 20 == 0) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      if (const auto held = shop.inventory.Reserve({.sku = "shoe", .request_id = id}); held.ok()) {
        (void)shop.inventory.Cancel(held->id());
      }
    }
    if (i % 50 == 0) {
      if (auto lease = shop.locks.Acquire("lock"); lease.ok()) {
        ++shop.by_locks;
        (void)lease->Release();
      }
    }
    if (races) ++shop.by_nothing;
  }
}

int Run(bool races) {
  const auto cache = LoadingCache<std::string, std::string>::Create(
      {.metrics = nullptr}, {.load = [](const std::string& key) -> absl::StatusOr<std::string> {
        return "the value, which is longer than what a string has room for, of " + key;
      }});
  const auto inventory = Inventory::Create({.metrics = nullptr});
  const auto locks = LocalLockService::Create({.metrics = nullptr});
  if (!cache.ok() || !inventory.ok() || !locks.ok()) return 1;
  if (!(*inventory)->EnsureSku("shoe", {.stock = 1'000'000}).ok()) return 1;
  Shop shop = {.cache = **cache, .inventory = **inventory, .locks = **locks};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&shop, i, races] { Use(shop, i, races); });
  for (std::thread& thread : threads) thread.join();
  const bool right = shop.by_shared_mutex == int64_t{kThreads} * kRounds && shop.by_keyed == shop.by_shared_mutex;
  std::printf("%s\n", right ? "done" : "additions were lost");
  return right ? 0 : 1;
}

}  // namespace
}  // namespace stockade

int main(int argc, char** argv) { return argc == 2 ? stockade::Run(std::string_view(argv[1]) == "racing") : 2; }

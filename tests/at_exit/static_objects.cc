// Objects of the library with static storage duration, which are destroyed at exit:
//
//   static_objects <locks|cache|inventory|fleet> <url> <before|after|openssl> <idle|busy|detached>
//
// before:   their destructors are registered before the library's first use of a script, a command or a thread slot, as
//           those of a global that is empty until main() fills it; so what the library registers later is destroyed
//           earlier.
// after:    another object of the same kind is used and destroyed first.
// openssl:  as `before`, and the program itself uses OpenSSL first, which then cleans up at exit before they are
//           destroyed.
// busy:     a thread uses the objects until their destructor joins it.
// detached: the objects are never destroyed, and a detached thread uses them while a static destructor runs.
//
// Ends with 0 once main() has returned and everything was destroyed.

#include <openssl/ssl.h>
#include <sys/prctl.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/inventory/inventory.h"
#include "stockade/locks/connect_lock_service.h"

// If OpenSSL cleans up while threads still run, it loses what it keeps for each of them.
extern "C" const char* __lsan_default_suppressions() { return "leak:libcrypto.so"; }

namespace stockade {
namespace {

using base_internal::Concat;

using Cache = LoadingCache<std::string, std::string>;

// Members are destroyed from the last to the first.
struct StaticObjects {
  std::unique_ptr<LockService> locks;
  LockLease lease;
  std::unique_ptr<Cache> cache;
  std::unique_ptr<Inventory> inventory;
  std::jthread worker;
  bool may_fail = false;  // What the worker does.
};

StaticObjects& Objects() {
  static StaticObjects objects;
  return objects;
}

// Its destructor waits until the detached thread has used the objects twice more, if there is one.
struct SlowDestructor {
  ~SlowDestructor() {
    if (!works) return;
    for (const int last = rounds + 2; rounds < last;) rounds.wait(rounds);
  }
  std::atomic<bool> works = false;
  std::atomic<int> rounds = 0;
};

SlowDestructor& Slow() {
  static SlowDestructor slow;
  return slow;
}

void Check(const absl::Status& status, std::string_view what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", std::string(what).c_str(), std::string(status.message()).c_str());
  std::_Exit(1);
}

template <typename T>
T Must(absl::StatusOr<T> made, std::string_view what) {
  Check(made.status(), what);
  return *std::move(made);
}

// As a worker may, whose connections end before it does.
void TryToUse(const StaticObjects& objects) {
  if (objects.locks) (void)objects.locks->Acquire("tried", {.wait = absl::ZeroDuration()});
  if (objects.cache) {
    (void)objects.cache->Get("one");
    objects.cache->Invalidate("one");
  }
  if (objects.inventory) (void)objects.inventory->Reserve({.sku = "shoe", .request_id = "tried"});
}

void UseLocks(LockService& locks) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    absl::StatusOr<LockLease> held =
        locks.Acquire(Concat("used-", LockKindName(kind)), {.kind = kind, .wait = absl::Minutes(1)});
    if (absl::IsUnimplemented(held.status())) continue;
    Check(held.status(), "Acquire");
    Check(held->Release(), "Release");
  }
}

std::unique_ptr<LockService> OpenLocks(const std::string& url) {
  std::unique_ptr<LockService> locks = Must(ConnectLockService(url, {.metrics = nullptr}), "ConnectLockService");
  UseLocks(*locks);
  return locks;
}

void UseCache(Cache& cache) {
  for (const std::string key : {"one", "two"}) {
    Check(cache.Get(key).status(), "Get");
    cache.Invalidate(key);
  }
}

std::unique_ptr<Cache> OpenCache(const std::string& url) {
  LoadingCacheOptions options = {.name = "static", .ttl = absl::Minutes(5), .metrics = nullptr};
  // A busy machine is no server that does not answer.
  const RedisCacheTierOptions tier = {.prefix = "exit",
                                      .timeout = absl::Seconds(30),
                                      .metrics = nullptr,
                                      .redis = {.connect_timeout = absl::Seconds(30)}};
  options.tier = Must(RedisCacheTier::Connect(url, tier), "RedisCacheTier::Connect");
  const auto copy = [](const std::string& value, std::string* bytes) {
    *bytes = value;
    return absl::OkStatus();
  };
  std::unique_ptr<Cache> cache =
      Must(Cache::Create(options, {.load = [](const std::string& key) -> absl::StatusOr<std::string> { return key; },
                                   .codec = {.id = "text/1",
                                             .encode_value = copy,
                                             .decode_value = [](std::string_view bytes) -> absl::StatusOr<std::string> {
                                               return std::string(bytes);
                                             }}}),
           "LoadingCache::Create");
  UseCache(*cache);
  return cache;
}

void UseInventory(Inventory& shop, std::string_view id) {
  const Reservation held =
      Must(shop.Reserve({.sku = "shoe", .request_id = std::string(id), .ttl = absl::Minutes(10)}), "Reserve");
  Check(shop.Cancel(held.id()), "Cancel");
}

std::unique_ptr<Inventory> OpenInventory(std::string_view kind, const std::string& url, std::string_view id) {
  std::unique_ptr<Inventory> shop;
  if (kind == "fleet") {
    const FleetInventoryOptions options = {.ledger = url, .fleet = "exit", .metrics = nullptr};
    Check(FleetInventory::Migrate(options), "Migrate");
    shop = Must(FleetInventory::Connect(options), "FleetInventory::Connect");
  } else {
    shop = Must(Inventory::Create({.metrics = nullptr}), "Inventory::Create");
  }
  Check(shop->EnsureSku("shoe", {.stock = 1'000'000}), "EnsureSku");
  UseInventory(*shop, id);
  return shop;
}

void Fill(StaticObjects& objects, std::string_view kind, const std::string& url, std::string_view id) {
  if (kind == "locks") {
    objects.locks = OpenLocks(url);
    objects.lease = Must(objects.locks->Acquire("kept"), "Acquire");
  } else if (kind == "cache") {
    objects.cache = OpenCache(url);
  } else {
    objects.inventory = OpenInventory(kind, url, id);
  }
}

// Until the stop, which is that of the thread's destructor.
void Work(const StaticObjects& objects, const std::stop_token& stop) {
  for (int i = 0; !stop.stop_requested(); ++i) {
    if (objects.may_fail) {
      TryToUse(objects);
    } else if (objects.locks) {
      UseLocks(*objects.locks);
    } else if (objects.cache) {
      UseCache(*objects.cache);
    } else {
      UseInventory(*objects.inventory, Concat("busy-", i));
    }
    ++Slow().rounds;
    Slow().rounds.notify_all();
  }
}

void UseOpenSsl() {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  Check(context != nullptr ? absl::OkStatus() : absl::InternalError("none"), "SSL_CTX_new");
  SSL_CTX_free(context);
}

int Run(std::string_view kind, const std::string& url, std::string_view order, std::string_view work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (order == "openssl") UseOpenSsl();
  if (order == "after") {
    StaticObjects others;
    Fill(others, kind, url, "other");
  }
  const bool detached = work == "detached";
  StaticObjects& objects = detached ? *new StaticObjects : Objects();
  Fill(objects, kind, url, "first");
  objects.may_fail = order == "openssl";
  if (work == "busy") {
    objects.worker = std::jthread([&objects](const std::stop_token& stop) { Work(objects, stop); });
  }
  if (detached) {
    Slow().works = true;
    std::thread([&objects] { Work(objects, std::stop_token()); }).detach();
  }
  return 0;
}

}  // namespace
}  // namespace stockade

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs(
        "usage: static_objects <locks|cache|inventory|fleet> <url> <before|after|openssl> <idle|busy|detached>\n",
        stderr);
    return 2;
  }
  const std::string_view order = argv[3];
  if (order != "after") {
    (void)stockade::Objects();
    (void)stockade::Slow();
  }
  return stockade::Run(argv[1], argv[2], order, argv[4]);
}

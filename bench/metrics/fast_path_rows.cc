// What metrics cost the library's fast paths: the same operation of a component with metrics, as it has them by
// default, and of one that has none. Both run the same code, compiled once.
#include <algorithm>
#include <concepts>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "measure/threads.h"
#include "metrics/rows.h"
#include "stockade/base/strings.h"
#include "stockade/base/thread_annotations.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

// A path is a class with a component that is named, and counts in the registry that it is given: null is none. Run()
// does an operation so many times. A path that Grows keeps something of every operation.
struct Grows {};

template <typename Mutex>
struct LockPath {
  explicit LockPath(MetricsRegistry* registry) : mutex({.name = "bench", .metrics = registry}) {}

  alignas(128) Mutex mutex;
};

struct LockUnlock : LockPath<ReentrantMutex> {
  static constexpr std::string_view kName = "mutex, lock + unlock";
  using LockPath::LockPath;
  void Run(size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    for (int64_t i = 0; i < ops; ++i) {
      mutex.lock();
      KeepAlive(i);
      mutex.unlock();
    }
  }
};

struct TryLockUnlock : LockPath<ReentrantMutex> {
  static constexpr std::string_view kName = "mutex, try_lock + unlock";
  using LockPath::LockPath;
  void Run(size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    for (int64_t i = 0; i < ops; ++i) {
      if (!mutex.try_lock()) continue;
      KeepAlive(i);
      mutex.unlock();
    }
  }
};

struct Reenter : LockPath<ReentrantMutex> {
  static constexpr std::string_view kName = "mutex, re-entry + unlock";
  using LockPath::LockPath;
  void Run(size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    mutex.lock();
    for (int64_t i = 0; i < ops; ++i) {
      mutex.lock();
      KeepAlive(i);
      mutex.unlock();
    }
    mutex.unlock();
  }
};

struct WriteUnlock : LockPath<ReentrantSharedMutex> {
  static constexpr std::string_view kName = "read-write lock, lock + unlock";
  using LockPath::LockPath;
  void Run(size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    for (int64_t i = 0; i < ops; ++i) {
      mutex.lock();
      KeepAlive(i);
      mutex.unlock();
    }
  }
};

struct ReadUnlock : LockPath<ReentrantSharedMutex> {
  static constexpr std::string_view kName = "read-write lock, lock_shared + unlock_shared";
  using LockPath::LockPath;
  void Run(size_t, int64_t ops) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    for (int64_t i = 0; i < ops; ++i) {
      mutex.lock_shared();
      KeepAlive(i);
      mutex.unlock_shared();
    }
  }
};

// A key for each thread.
struct LockKey : LockPath<KeyedMutex<uint64_t>> {
  static constexpr std::string_view kName = "keyed mutex, Lock + release";
  using LockPath::LockPath;
  void Run(size_t thread, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
      const auto guard = mutex.Lock(thread);
      KeepAlive(i);
    }
  }
};

constexpr uint64_t kKeys = 1024;

struct CachePath {
  CachePath(MetricsRegistry* registry, absl::Duration ttl)
      : cache({.name = "bench", .max_weight = 1 << 16, .ttl = ttl, .negative_ttl = absl::Hours(1), .metrics = registry},
              [](const uint64_t&, LoadContext&) -> absl::StatusOr<uint64_t> { return absl::NotFoundError("none"); }) {
    for (uint64_t key = 0; key < kKeys; ++key) cache.Put(key, key);
  }

  LoadingCache<uint64_t, uint64_t> cache;
};

struct CacheHit : CachePath {
  static constexpr std::string_view kName = "cache hit, value copied";
  explicit CacheHit(MetricsRegistry* registry) : CachePath(registry, absl::InfiniteDuration()) {}
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(**cache.Get(static_cast<uint64_t>(i) % kKeys));
  }
};

struct CacheHitTtl : CachePath {
  static constexpr std::string_view kName = "cache hit, with a TTL";
  explicit CacheHitTtl(MetricsRegistry* registry) : CachePath(registry, absl::Hours(1)) {}
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(**cache.Get(static_cast<uint64_t>(i) % kKeys));
  }
};

struct CacheIfPresent : CachePath {
  static constexpr std::string_view kName = "cache hit, GetIfPresent";
  explicit CacheIfPresent(MetricsRegistry* registry) : CachePath(registry, absl::InfiniteDuration()) {}
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(**cache.GetIfPresent(static_cast<uint64_t>(i) % kKeys));
  }
};

struct CacheNegative : CachePath {
  static constexpr std::string_view kName = "cache hit, an absence";
  explicit CacheNegative(MetricsRegistry* registry) : CachePath(registry, absl::Hours(1)) {}
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(cache.Get(kKeys).ok());
  }
};

// Neither trivially copyable nor small.
struct CacheHandleHit {
  static constexpr std::string_view kName = "cache hit, value pinned by its handle";
  explicit CacheHandleHit(MetricsRegistry* registry)
      : cache({.name = "bench", .max_weight = 1 << 16, .metrics = registry}) {
    for (uint64_t key = 0; key < kKeys; ++key) cache.Put(key, std::string(100, 'v'));
  }
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive((*cache.Get(static_cast<uint64_t>(i) % kKeys))->size());
  }

  LoadingCache<uint64_t, std::string> cache;
};

constexpr int64_t kPlenty = int64_t{1} << 50;

struct StockPath {
  StockPath(MetricsRegistry* registry, int64_t units) : stock({.name = "bench", .stock = units, .metrics = registry}) {}
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(stock.Take(1));
  }

  ShardedStock stock;
};

struct StockTake : StockPath {
  static constexpr std::string_view kName = "ShardedStock, take";
  explicit StockTake(MetricsRegistry* registry) : StockPath(registry, kPlenty) {}
};

struct StockRefusal : StockPath {
  static constexpr std::string_view kName = "ShardedStock, refusal once sold out";
  explicit StockRefusal(MetricsRegistry* registry) : StockPath(registry, 0) {}
};

struct InventoryPath {
  InventoryPath(MetricsRegistry* registry, int64_t units) : inventory({.name = "bench", .metrics = registry}) {
    Require(inventory.AddSku("a", {.stock = units}), "AddSku");
  }
  std::string NextId(size_t thread) { return base_internal::Concat(thread, "-", ++next_[thread].id); }

  struct alignas(128) Next {
    int64_t id = 0;
  };
  Next next_[2];
  Inventory inventory;
};

struct InventoryTake : InventoryPath, Grows {
  static constexpr std::string_view kName = "Inventory, Take";
  explicit InventoryTake(MetricsRegistry* registry) : InventoryPath(registry, kPlenty) {}
  void Run(size_t thread, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(inventory.Take({.sku = "a", .request_id = NextId(thread)}).ok());
  }
};

struct InventoryRepeat : InventoryPath {
  static constexpr std::string_view kName = "Inventory, Take again of the same request";
  explicit InventoryRepeat(MetricsRegistry* registry) : InventoryPath(registry, kPlenty) {}
  void Run(size_t, int64_t ops) {
    const TakeRequest request = {.sku = "a", .request_id = "again"};
    for (int64_t i = 0; i < ops; ++i) KeepAlive(inventory.Take(request).ok());
  }
};

struct InventoryRefusal : InventoryPath {
  static constexpr std::string_view kName = "Inventory, Take once sold out";
  explicit InventoryRefusal(MetricsRegistry* registry) : InventoryPath(registry, 0) {}
  void Run(size_t, int64_t ops) {
    const TakeRequest request = {.sku = "a", .request_id = "late"};
    for (int64_t i = 0; i < ops; ++i) KeepAlive(inventory.Take(request).ok());
  }
};

struct InventoryReserve : InventoryPath, Grows {
  static constexpr std::string_view kName = "Inventory, Reserve + Commit";
  explicit InventoryReserve(MetricsRegistry* registry) : InventoryPath(registry, kPlenty) {}
  void Run(size_t thread, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) {
      const auto held = inventory.Reserve({.sku = "a", .request_id = NextId(thread)});
      KeepAlive(inventory.Commit(held->id()).ok());
    }
  }
};

struct ServicePath {
  explicit ServicePath(MetricsRegistry* registry)
      : service(Require(LocalLockService::Create({.name = "bench", .metrics = registry}), "LocalLockService")) {}

  std::unique_ptr<LockService> service;
};

struct ServiceAcquire : ServicePath {
  static constexpr std::string_view kName = "LocalLockService, Acquire + Release";
  using ServicePath::ServicePath;
  void Run(size_t thread, int64_t ops) {
    const std::string name = base_internal::Concat("lock ", thread);
    for (int64_t i = 0; i < ops; ++i) {
      absl::StatusOr<LockLease> lease = service->Acquire(name);
      KeepAlive(lease->Release().ok());
    }
  }
};

struct LeaseValid : ServicePath {
  static constexpr std::string_view kName = "LockLease, valid()";
  using ServicePath::ServicePath;
  void Run(size_t, int64_t ops) {
    for (int64_t i = 0; i < ops; ++i) KeepAlive(lease.valid());
  }

  LockLease lease = Require(service->Acquire("lock"), "Acquire");
};

// Of the many short runs of a measurement the fastest counts: it is the one that the rest of the machine disturbed
// least. Each measurement has a component of its own, so that where that happens to lie in memory is not all that is
// measured.
constexpr int kSlices = 100;

template <typename Path>
double NsPerOp(Worker& worker, std::unique_ptr<Path>& path, MetricsRegistry* registry, const Scale& scale) {
  constexpr int64_t kBatch = 64;
  double fastest = std::numeric_limits<double>::infinity();
  const auto keep = [&](const Throughput& run) {
    fastest = std::min(fastest, run.NsPerOp() * static_cast<double>(worker.threads()));
  };
  const auto make = [&] {
    path.reset();  // The new one is to have the place and the name of the old one.
    path = std::make_unique<Path>(registry);
  };
  if constexpr (std::derived_from<Path, Grows>) {
    // A component for each run, of as many operations as leave it in the core's own memory.
    for (int64_t slice = 0; slice < scale.Sized(2, kSlices); ++slice) {
      worker.Once(make);
      keep(worker.RunOps(2048, [&](size_t thread, int64_t ops) { path->Run(thread, ops); }));
    }
  } else {
    worker.Once(make);
    for (int slice = 0; slice < kSlices; ++slice) {
      keep(worker.RunFor(scale.span / kSlices, kBatch, [&](size_t thread, int64_t ops) { path->Run(thread, ops); }));
    }
  }
  worker.Once([&] { path.reset(); });
  return fastest;
}

template <typename Path>
Measurement Measure(const std::shared_ptr<MetricsRegistry>& registry, const Scale& scale) {
  return [=, path = std::make_shared<std::unique_ptr<Path>>()](Worker& worker) {
    return NsPerOp(worker, *path, registry.get(), scale);
  };
}

template <typename Path>
void AddRow(Suite& suite, size_t threads) {
  suite.Add({.name = base_internal::Concat(Path::kName, threads == 1 ? ", alone" : ", 2 threads"),
             .unit = "ns",
             .peer = "metrics off",
             .target = "difference <= 1"},
            {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
               return {Measure<Path>(std::make_shared<MetricsRegistry>(), scale), Measure<Path>(nullptr, scale)};
             }});
}

template <typename... Paths>
void AddRows(Suite& suite, size_t threads) {
  (AddRow<Paths>(suite, threads), ...);
}

}  // namespace

void AddFastPathRows(Suite& suite) {
  AddRows<LockUnlock, TryLockUnlock, Reenter, WriteUnlock, ReadUnlock, LockKey, CacheHit, CacheHitTtl, CacheHandleHit,
          CacheIfPresent, CacheNegative, StockTake, StockRefusal, InventoryTake, InventoryRepeat, InventoryRefusal,
          InventoryReserve, ServiceAcquire, LeaseValid>(suite, 1);
  // What two threads do without disturbing each other. Counting must not change that.
  AddRows<ReadUnlock, LockKey, CacheHit, CacheHandleHit, StockTake, StockRefusal, InventoryReserve>(suite, 2);
}

}  // namespace stockade::bench

// Taking units: with plenty of stock, near zero, once all is gone, of two items at once, while shards come and go.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "inventory/rows.h"
#include "measure/threads.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr int64_t kPlentyOfStock = int64_t{1} << 60;

// At least what an item has by default.
int32_t MostShards() {
  return static_cast<int32_t>(std::clamp<uint32_t>(std::thread::hardware_concurrency(), 16, kMaxShards));
}

// Counts into a registry of its own where it counts: metrics are on by default.
template <ShardGuard kGuard, bool kCounts = true>
class Sharded {
 public:
  explicit Sharded(int64_t units)
      : stock_({.name = "bench",
                .stock = units,
                .max_shards = MostShards(),
                .guard = kGuard,
                .metrics = kCounts ? &registry_ : nullptr}) {}
  bool Take(int64_t units) { return stock_.Take(units); }
  void PutIn(int64_t units) { (void)stock_.Deposit(units); }
  void Reshard(int32_t shards) { (void)stock_.Reshard(shards); }

 private:
  MetricsRegistry registry_;
  ShardedStock stock_;
};
using OurStock = Sharded<ShardGuard::kCompareAndSwap>;
using OurMutexes = Sharded<ShardGuard::kMutex>;
using OurUncounted = Sharded<ShardGuard::kCompareAndSwap, false>;

class MutexStock {
 public:
  explicit MutexStock(int64_t units) : units_(units) {}
  bool Take(int64_t units) {
    const std::lock_guard lock(mutex_);
    if (units_ < units) return false;
    units_ -= units;
    return true;
  }
  void PutIn(int64_t units) {
    const std::lock_guard lock(mutex_);
    units_ += units;
  }

 private:
  std::mutex mutex_;
  int64_t units_;
};

class AtomicStock {
 public:
  explicit AtomicStock(int64_t units) : units_(units) {}
  bool Take(int64_t wanted) {
    int64_t units = units_.load(std::memory_order_relaxed);
    while (units >= wanted) {
      if (units_.compare_exchange_weak(units, units - wanted, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
  void PutIn(int64_t units) { units_.fetch_add(units, std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> units_;
};

// Knows single units only. Its counter may be an int: 2^30 are more than a run takes.
class SemaphoreStock {
 public:
  explicit SemaphoreStock(int64_t units) : units_(std::min<int64_t>(units, 1 << 30)) {}
  bool Take(int64_t) { return units_.try_acquire(); }
  void PutIn(int64_t units) { units_.release(units); }

 private:
  std::counting_semaphore<> units_;
};

// Two items, of which a unit each is taken or none. The first has plenty.
template <ShardGuard kGuard>
class ShardedPair {
 public:
  explicit ShardedPair(int64_t second)
      : first_({.name = "first", .stock = kPlentyOfStock, .guard = kGuard, .metrics = &registry_}),
        second_({.name = "second", .stock = second, .guard = kGuard, .metrics = &registry_}) {}
  bool Take(int64_t units) {
    const StockLine lines[] = {{&first_, units}, {&second_, units}};
    return ShardedStock::TakeTogether(lines) == nullptr;
  }

 private:
  MetricsRegistry registry_;
  ShardedStock first_;
  ShardedStock second_;
};
using OurPair = ShardedPair<ShardGuard::kCompareAndSwap>;
using OurMutexPair = ShardedPair<ShardGuard::kMutex>;

// One mutex over both.
class MutexPair {
 public:
  explicit MutexPair(int64_t second) : second_(second) {}
  bool Take(int64_t units) {
    const std::lock_guard lock(mutex_);
    if (first_ < units || second_ < units) return false;
    first_ -= units;
    second_ -= units;
    return true;
  }

 private:
  std::mutex mutex_;
  int64_t first_ = kPlentyOfStock;
  int64_t second_;
};

// What a thread does again and again. `turn` counts.
template <typename Stock>
struct TakeOne {
  static void Do(Stock& stock, int64_t) { KeepAlive(stock.Take(1)); }
};
template <typename Stock>
struct TakeThree {
  static void Do(Stock& stock, int64_t) { KeepAlive(stock.Take(3)); }
};
// A cancelled order, whose unit somebody buys.
template <typename Stock>
struct CancelAndTake {
  static void Do(Stock& stock, int64_t) {
    stock.PutIn(1);
    KeepAlive(stock.Take(1));
  }
};
// Of a sold-out item. A second buyer comes in vain.
template <typename Stock>
struct CancelAndSellOut {
  static void Do(Stock& stock, int64_t) {
    stock.PutIn(1);
    KeepAlive(stock.Take(1));
    KeepAlive(stock.Take(1));
  }
};
template <typename Stock>
struct TakeAndReshard {
  static void Do(Stock& stock, int64_t turn) {
    KeepAlive(stock.Take(1));
    if (turn % 4096 == 0) stock.Reshard(1 + static_cast<int32_t>(turn / 4096 % MostShards()));
  }
};

template <typename Stock, template <typename> typename Work>
Measurement Runs(int64_t units, size_t threads, absl::Duration span) {
  struct alignas(128) Turn {
    int64_t count = 0;
  };
  return [=, stock = std::make_shared<Stock>(units),
          turns = std::make_shared<std::vector<Turn>>(threads)](Worker& worker) {
    return worker
        .RunFor(span, kBatch,
                [&](size_t thread, int64_t ops) {
                  int64_t turn = (*turns)[thread].count;
                  for (int64_t i = 0; i < ops; ++i) Work<Stock>::Do(*stock, ++turn);
                  (*turns)[thread].count = turn;
                })
        .MillionsPerSecond();
  };
}

struct Case {
  std::string name;
  int64_t units;
  size_t threads;
};

std::string Threads(size_t threads) {
  return threads == 1 ? ", alone" : base_internal::Concat(", ", threads, " threads");
}

template <typename Peer, template <typename> typename Work, template <typename> typename PeersWork = Work,
          typename Ours = OurStock>
void AddAgainst(Suite& suite, const Case& what, std::string peer, const std::string& target = "-",
                size_t peer_threads = 0) {
  if (peer_threads == 0) peer_threads = what.threads;
  suite.Add({.name = what.name + Threads(what.threads),
             .unit = "M/s",
             .peer = std::move(peer),
             .better = Better::kHigher,
             .target = target},
            {.threads = what.threads, .peer_threads = peer_threads, .prepare = [=](const Scale& scale) -> Contestants {
               return {Runs<Ours, Work>(what.units, what.threads, scale.span),
                       Runs<Peer, PeersWork>(what.units, peer_threads, scale.span)};
             }});
}

}  // namespace

void AddStockRows(Suite& suite) {
  for (const size_t threads : {1, 2, 4, 8}) {
    const Case take{"take", kPlentyOfStock, threads};
    AddAgainst<MutexStock, TakeOne>(suite, take, "one mutex", threads == 2 ? ">= 12" : "-");
    AddAgainst<AtomicStock, TakeOne>(suite, take, "one atomic, CAS");
    AddAgainst<SemaphoreStock, TakeOne>(suite, take, "std::counting_semaphore");
    AddAgainst<OurMutexes, TakeOne>(suite, take, "ours, a mutex per shard");
  }
  AddAgainst<OurStock, TakeOne>(suite, {"take", kPlentyOfStock, 2}, "ours, 1 thread", ">= 1.8", 1);
  // What the peers do not do either.
  AddAgainst<MutexStock, TakeOne, TakeOne, OurUncounted>(suite, {"take, metrics off", kPlentyOfStock, 2}, "one mutex");
  AddAgainst<MutexStock, TakeOne, TakeOne, OurUncounted>(suite, {"refusal once sold out, metrics off", 0, 2},
                                                         "one mutex");
  for (const size_t threads : {1, 2}) {
    // A semaphore takes single units only.
    const Case three{"take 3 at once", kPlentyOfStock, threads};
    AddAgainst<MutexStock, TakeThree>(suite, three, "one mutex");
    AddAgainst<AtomicStock, TakeThree>(suite, three, "one atomic, CAS");
    AddAgainst<OurMutexes, TakeThree>(suite, three, "ours, a mutex per shard");

    const Case refusal{"refusal once sold out", 0, threads};
    AddAgainst<MutexStock, TakeOne>(suite, refusal, "one mutex", threads == 2 ? ">= 30" : "-");
    AddAgainst<AtomicStock, TakeOne>(suite, refusal, "one atomic, CAS");
    AddAgainst<SemaphoreStock, TakeOne>(suite, refusal, "std::counting_semaphore");
    AddAgainst<OurMutexes, TakeOne>(suite, refusal, "ours, a mutex per shard");

    const Case cancel{"cancel + take, 8 left", 8, threads};
    AddAgainst<MutexStock, CancelAndTake>(suite, cancel, "one mutex");
    AddAgainst<AtomicStock, CancelAndTake>(suite, cancel, "one atomic, CAS");
    AddAgainst<SemaphoreStock, CancelAndTake>(suite, cancel, "std::counting_semaphore");
    AddAgainst<OurMutexes, CancelAndTake>(suite, cancel, "ours, a mutex per shard");

    const Case sold_out{"cancel + take + refusal, sold out", 0, threads};
    AddAgainst<MutexStock, CancelAndSellOut>(suite, sold_out, "one mutex", ">= 1");
    AddAgainst<AtomicStock, CancelAndSellOut>(suite, sold_out, "one atomic, CAS");
    AddAgainst<SemaphoreStock, CancelAndSellOut>(suite, sold_out, "std::counting_semaphore");
    AddAgainst<OurMutexes, CancelAndSellOut>(suite, sold_out, "ours, a mutex per shard");

    const Case together{"take 1 of each of 2 items", kPlentyOfStock, threads};
    AddAgainst<MutexPair, TakeOne, TakeOne, OurPair>(suite, together, "one mutex over both");
    AddAgainst<OurMutexPair, TakeOne, TakeOne, OurPair>(suite, together, "ours, a mutex per shard");
    const Case one_sold_out{"take 1 of each of 2 items, one sold out", 0, threads};
    AddAgainst<MutexPair, TakeOne, TakeOne, OurPair>(suite, one_sold_out, "one mutex over both");
  }

  const Case resharded{"take, resharded every 4,096", kPlentyOfStock, 2};
  AddAgainst<OurStock, TakeAndReshard, TakeOne>(suite, resharded, "ours, not resharded");
  AddAgainst<MutexStock, TakeAndReshard, TakeOne>(suite, resharded, "one mutex");
  AddAgainst<AtomicStock, TakeAndReshard, TakeOne>(suite, resharded, "one atomic, CAS");
  AddAgainst<OurMutexes, TakeAndReshard>(suite, resharded, "ours, a mutex per shard");
}

}  // namespace stockade::bench

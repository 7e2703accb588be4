// Taking one unit: with plenty of stock, and once all is gone.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "harness/threads.h"
#include "inventory/rows.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr int64_t kBatch = 256;
constexpr int64_t kPlenty = int64_t{1} << 60;

// Counts into a registry of its own: metrics are on, as they are by default.
class OurStock {
 public:
  explicit OurStock(int64_t units) : stock_({.name = "bench", .stock = units, .metrics = &registry_}) {}
  bool Take() { return stock_.Take(); }

 private:
  MetricsRegistry registry_;
  ShardedStock stock_;
};

class MutexStock {
 public:
  explicit MutexStock(int64_t units) : units_(units) {}
  bool Take() {
    const std::lock_guard lock(mutex_);
    if (units_ < 1) return false;
    --units_;
    return true;
  }

 private:
  std::mutex mutex_;
  int64_t units_;
};

class AtomicStock {
 public:
  explicit AtomicStock(int64_t units) : units_(units) {}
  bool Take() {
    int64_t units = units_.load(std::memory_order_relaxed);
    while (units > 0) {
      if (units_.compare_exchange_weak(units, units - 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

 private:
  std::atomic<int64_t> units_;
};

template <typename Stock>
Measurement Takes(int64_t units, size_t threads, absl::Duration span) {
  return [=, stock = std::make_shared<Stock>(units)] {
    return RunFor(threads, span, kBatch,
                  [&](size_t, int64_t ops) {
                    for (int64_t i = 0; i < ops; ++i) KeepAlive(stock->Take());
                  })
        .MillionsPerSecond();
  };
}

template <typename Peer>
void AddAgainst(Suite& suite, std::string name, std::string peer, int64_t units, size_t threads, size_t peer_threads,
                Target target) {
  suite.Add({.name = std::move(name),
             .unit = "M/s",
             .peer = std::move(peer),
             .better = Better::kHigher,
             .target = target,
             .prepare = [=](const Scale& scale) -> Contestants {
               return {Takes<OurStock>(units, threads, scale.span), Takes<Peer>(units, peer_threads, scale.span)};
             }});
}

}  // namespace

void AddStockRows(Suite& suite) {
  AddAgainst<MutexStock>(suite, "take, alone", "one mutex", kPlenty, 1, 1, Target::None());
  AddAgainst<AtomicStock>(suite, "take, alone", "one atomic, CAS", kPlenty, 1, 1, Target::None());
  AddAgainst<MutexStock>(suite, "take, 2 threads", "one mutex", kPlenty, 2, 2, Target::RatioAtLeast(12));
  AddAgainst<AtomicStock>(suite, "take, 2 threads", "one atomic, CAS", kPlenty, 2, 2, Target::None());
  AddAgainst<OurStock>(suite, "take, 2 threads", "ours, 1 thread", kPlenty, 2, 1, Target::RatioAtLeast(1.8));
  AddAgainst<MutexStock>(suite, "refusal once sold out, 2 threads", "one mutex", 0, 2, 2, Target::RatioAtLeast(30));
}

}  // namespace stockade::bench

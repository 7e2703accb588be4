// Orders with request ids, in memory: a reservation and its commit are one order. Ids are kept for ever, so that each
// repetition starts with an empty inventory and does a fixed number of orders.
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "harness/threads.h"
#include "inventory/rows.h"
#include "stockade/inventory/inventory.h"

namespace stockade::bench {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;

// What most services would write: one mutex over the stock and a map of requests.
class MutexShop {
 public:
  uint64_t Reserve(const std::string& request_id) {
    const std::lock_guard lock(mutex_);
    const auto [request, is_new] = requests_.try_emplace(request_id, next_id_);
    if (is_new) {
      --units_;
      sold_.emplace(next_id_++, false);
    }
    return request->second;
  }

  void Commit(uint64_t id) {
    const std::lock_guard lock(mutex_);
    sold_.at(id) = true;
  }

 private:
  std::mutex mutex_;
  int64_t units_ = kPlenty;
  uint64_t next_id_ = 1;
  std::unordered_map<std::string, uint64_t> requests_;
  std::unordered_map<uint64_t, bool> sold_;
};

std::string RequestId(size_t thread, int64_t i) { return std::to_string(thread) + "-" + std::to_string(i); }

double OursMillionsPerSecond(size_t threads, int64_t orders) {
  MetricsRegistry registry;
  Inventory shop({.metrics = &registry});
  Require(shop.AddSku("sku", {.stock = kPlenty}), "AddSku");
  return RunOps(threads, orders,
                [&](size_t thread, int64_t ops) {
                  for (int64_t i = 0; i < ops; ++i) {
                    const auto held = shop.Reserve({.sku = "sku", .request_id = RequestId(thread, i)});
                    Require(held.status(), "Reserve");
                    Require(shop.Commit(held->id()), "Commit");
                  }
                })
      .MillionsPerSecond();
}

double MutexMillionsPerSecond(size_t threads, int64_t orders) {
  MutexShop shop;
  return RunOps(threads, orders,
                [&](size_t thread, int64_t ops) {
                  for (int64_t i = 0; i < ops; ++i) shop.Commit(shop.Reserve(RequestId(thread, i)));
                })
      .MillionsPerSecond();
}

}  // namespace

void AddOrderRows(Suite& suite) {
  for (const size_t threads : {1, 2}) {
    suite.Add({.name = threads == 1 ? "reserve + commit, in memory, alone" : "reserve + commit, in memory, 2 threads",
               .unit = "M/s",
               .peer = "one mutex and maps",
               .better = Better::kHigher,
               .target = threads == 2 ? Target::ValueAtLeast(2) : Target::None(),
               .prepare = [=](const Scale& scale) -> Contestants {
                 const int64_t orders = scale.Sized(500, 100'000);
                 return {[=] { return OursMillionsPerSecond(threads, orders); },
                         [=] { return MutexMillionsPerSecond(threads, orders); }};
               }});
  }
}

}  // namespace stockade::bench

// Orders with request ids, in memory. Ids are kept for a day, so that each repetition starts with an empty inventory
// and does a fixed number of orders.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "inventory/rows.h"
#include "measure/threads.h"
#include "stockade/inventory/inventory.h"

namespace stockade::bench {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 40;

// What most services would write: one mutex over the stock and a map of requests.
class MutexShop {
 public:
  explicit MutexShop(int64_t units) { units_["a"] = units_["b"] = units; }

  // 0: refused.
  uint64_t Reserve(const std::string& request_id, const std::vector<std::string>& skus) {
    const std::lock_guard lock(mutex_);
    if (const auto found = requests_.find(request_id); found != requests_.end()) return found->second;
    for (const std::string& sku : skus) {
      if (units_.at(sku) == 0) return 0;
    }
    for (const std::string& sku : skus) --units_.at(sku);
    requests_.emplace(request_id, next_id_);
    orders_.emplace(next_id_, Order{.skus = skus});
    return next_id_++;
  }

  void Commit(uint64_t id) {
    const std::lock_guard lock(mutex_);
    orders_.at(id).sold = true;
  }

  void Cancel(uint64_t id) {
    const std::lock_guard lock(mutex_);
    for (const std::string& sku : orders_.at(id).skus) ++units_.at(sku);
  }

 private:
  struct Order {
    std::vector<std::string> skus;
    bool sold = false;
  };

  std::mutex mutex_;
  std::map<std::string, int64_t> units_;
  uint64_t next_id_ = 1;
  std::unordered_map<std::string, uint64_t> requests_;
  std::unordered_map<uint64_t, Order> orders_;
};

std::string RequestId(size_t thread, int64_t i) { return std::to_string(thread) + "-" + std::to_string(i); }

// An operation on a shop that has `units` of SKU "a" and as many of "b".
struct Work {
  const char* name;
  int64_t units;
  std::vector<std::string> skus;
  bool commits;  // Otherwise it cancels.
};

const Work kBuy = {"reserve + commit", kPlenty, {"a"}, true};
const Work kBasket = {"reserve + commit a basket of 2", kPlenty, {"a", "b"}, true};
const Work kGiveBack = {"reserve + cancel of the last unit", 1, {"a"}, false};
const Work kSoldOut = {"reserve of a sold-out SKU, refused", 0, {"a"}, true};

absl::StatusOr<OrderId> Reserve(Inventory& shop, const Work& work, std::string request_id) {
  if (work.skus.size() == 1) {
    const auto held = shop.Reserve({.sku = work.skus[0], .request_id = std::move(request_id)});
    return held.ok() ? absl::StatusOr<OrderId>(held->id()) : held.status();
  }
  BasketRequest basket{.request_id = std::move(request_id)};
  basket.lines.reserve(work.skus.size());
  for (const std::string& sku : work.skus) basket.lines.push_back({.sku = sku});
  const auto held = shop.ReserveBasket(basket);
  return held.ok() ? absl::StatusOr<OrderId>(held->id()) : held.status();
}

struct OurShop {
  explicit OurShop(int64_t units) {
    for (const char* sku : {"a", "b"}) Require(inventory.AddSku(sku, {.stock = units}), "AddSku");
  }

  MetricsRegistry registry;
  Inventory inventory{{.metrics = &registry}};
};

double OursMillionsPerSecond(Worker& worker, Inventory& shop, const Work& work, int64_t orders) {
  return worker
      .RunOps(orders,
              [&](size_t thread, int64_t ops) {
                for (int64_t i = 0; i < ops; ++i) {
                  const absl::StatusOr<OrderId> held = Reserve(shop, work, RequestId(thread, i));
                  if (!held.ok()) continue;
                  Require(work.commits ? shop.Commit(*held) : shop.Cancel(*held), "Commit or Cancel");
                }
              })
      .MillionsPerSecond();
}

double MutexMillionsPerSecond(Worker& worker, MutexShop& shop, const Work& work, int64_t orders) {
  return worker
      .RunOps(orders,
              [&](size_t thread, int64_t ops) {
                for (int64_t i = 0; i < ops; ++i) {
                  const uint64_t held = shop.Reserve(RequestId(thread, i), work.skus);
                  if (held == 0) continue;
                  work.commits ? shop.Commit(held) : shop.Cancel(held);
                }
              })
      .MillionsPerSecond();
}

void AddRow(Suite& suite, const Work& work, size_t threads, const std::string& target = "-") {
  suite.Add({.name = std::string(work.name) + ", in memory, " +
                     (threads == 1 ? "alone" : std::to_string(threads) + " threads"),
             .unit = "M/s",
             .peer = "one mutex and maps",
             .better = Better::kHigher,
             .target = target},
            {.threads = threads, .prepare = [=](const Scale& scale) -> Contestants {
               const int64_t orders = scale.Sized(500, 100'000);
               const auto ours = std::make_shared<std::optional<OurShop>>();
               const auto mutex = std::make_shared<std::optional<MutexShop>>();
               return {[=](Worker& worker) {
                         worker.Once([&] { ours->emplace(work.units); });
                         return OursMillionsPerSecond(worker, (*ours)->inventory, work, orders);
                       },
                       [=](Worker& worker) {
                         worker.Once([&] { mutex->emplace(work.units); });
                         return MutexMillionsPerSecond(worker, **mutex, work, orders);
                       }};
             }});
}

}  // namespace

void AddOrderRows(Suite& suite) {
  for (const size_t threads : {1, 2, 4, 8}) {
    AddRow(suite, kBuy, threads, threads == 1 ? ">= 0.85" : threads == 2 ? ">= 2 M/s" : "-");
  }
  for (const Work& work : {kBasket, kGiveBack}) AddRow(suite, work, 2);
  for (const size_t threads : {1, 2}) AddRow(suite, kSoldOut, threads, ">= 1");
}

}  // namespace stockade::bench

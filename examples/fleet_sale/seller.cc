#include "seller.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/parse_number.h"
#include "naive_shop.h"
#include "shared_sale.h"
#include "stockade_shop.h"

namespace fleet_sale {
namespace {

constexpr int kThreads = 16;
// How often a thread checks for new buyers.
constexpr absl::Duration kBetweenChecks = absl::Milliseconds(5);
// How soon a buyer whose request has failed sends it again.
constexpr absl::Duration kBeforeRetry = absl::Milliseconds(200);

absl::StatusOr<std::unique_ptr<Shop>> ConnectOnce(const SellerPlan& plan) {
  if (plan.half == Half::kNaive) return NaiveShop::Connect(plan.urls);
  return StockadeShop::Connect(plan.urls, plan.stock);
}

std::unique_ptr<Shop> Connect(const SellerPlan& plan) {
  for (;;) {
    absl::StatusOr<std::unique_ptr<Shop>> shop = ConnectOnce(plan);
    if (shop.ok()) return *std::move(shop);
    if (!absl::IsUnavailable(shop.status())) {
      std::fprintf(stderr, "fleet_sale: %s\n", shop.status().ToString().c_str());
      std::exit(2);
    }
    absl::SleepFor(kBeforeRetry);  // A server is being restarted.
  }
}

// The buyers of one process.
class Buyers {
 public:
  Buyers(SharedSale sale, Shop* shop, int number) : sale_(sale), shop_(shop), number_(number) {}

  void ServeAll() {
    for (;;) {
      const int64_t buyer = next_.fetch_add(1) * kProcesses + number_;
      if (buyer >= sale_.buyers()) return;
      while (sale_.arrived() <= buyer) absl::SleepFor(kBetweenChecks);
      Serve(buyer);
    }
  }

 private:
  void Serve(int64_t buyer) {
    const std::string request_id = absl::StrCat("request-", buyer);
    BuyerRow& row = sale_.buyer(buyer);
    // Another process may have answered it, before it was killed.
    if (row.first == kNoAnswer) row.first = Ask(request_id);
    if (SendsTwice(buyer) && row.second == kNoAnswer) row.second = Ask(request_id);
  }

  int64_t Ask(const std::string& request_id) {
    for (;;) {
      const absl::StatusOr<int64_t> order = shop_->Buy(request_id);
      if (order.ok()) return *order;
      if (absl::IsResourceExhausted(order.status())) return kSoldOut;
      ++sale_.process(number_).retries;
      absl::SleepFor(kBeforeRetry);
    }
  }

  SharedSale sale_;
  Shop* const shop_;
  const int number_;
  std::atomic<int64_t> next_ = 0;
};

}  // namespace

std::vector<std::string> SellerPlan::Argv() const {
  std::vector<std::string> argv = {"/proc/self/exe",
                                   "seller",
                                   absl::StrCat(static_cast<int>(half)),
                                   absl::StrCat(number),
                                   absl::StrCat(stock),
                                   shared,
                                   urls.database_socket,
                                   urls.ledger};
  argv.insert(argv.end(), urls.redis.begin(), urls.redis.end());
  return argv;
}

absl::StatusOr<SellerPlan> SellerPlan::Parse(int argc, char** argv) {
  if (argc < 9) return absl::InvalidArgumentError("'seller' is for this program's own use");
  SellerPlan plan = {.shared = argv[5], .urls = {.database_socket = argv[6], .ledger = argv[7]}};
  int half = 0;
  if (absl::Status parsed = examples::ParseNumber("half", argv[2], 0, 1, half); !parsed.ok()) return parsed;
  plan.half = static_cast<Half>(half);
  if (absl::Status parsed = examples::ParseNumber("number", argv[3], 0, kProcesses - 1, plan.number); !parsed.ok()) {
    return parsed;
  }
  const absl::Status parsed = examples::ParseNumber("stock", argv[4], int64_t{1}, int64_t{1} << 40, plan.stock);
  if (!parsed.ok()) return parsed;
  plan.urls.redis.assign(argv + 8, argv + argc);
  return plan;
}

void RunSeller(const SellerPlan& plan) {
  absl::StatusOr<SharedSale> sale = SharedSale::Open(plan.shared);
  if (!sale.ok()) {
    std::fprintf(stderr, "fleet_sale: %s\n", sale.status().ToString().c_str());
    std::exit(2);
  }
  const std::unique_ptr<Shop> shop = Connect(plan);
  sale->process(plan.number).open = true;
  Buyers buyers(*sale, shop.get(), plan.number);
  std::vector<std::jthread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&] { buyers.ServeAll(); });
}

}  // namespace fleet_sale

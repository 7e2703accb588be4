// Step 7: orders are kept in SQLite. The program kills itself in the middle of a sale, and is started again.

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "visitors.h"

namespace {

constexpr int kPairs = 1000;
constexpr int kBuyers = 1100;
constexpr int kOrdersUntilTheCrash = 500;

// The answers that buyers got, in a file, so that the second run can check whether they were true.
class Told {
 public:
  explicit Told(const std::string& path) : again_(std::filesystem::exists(path)) {
    std::ifstream in(path);
    std::string request;
    for (stockade::OrderId id = 0; in >> request >> id;) orders_[request] = id;
    out_.open(path, std::ios::app);
  }

  bool again() const { return again_; }
  const std::map<std::string, stockade::OrderId>& orders() const { return orders_; }

  void Write(const std::string& request, stockade::OrderId id) {
    const std::lock_guard lock(mutex_);
    out_ << request << ' ' << id << std::endl;
    if (++written_ == kOrdersUntilTheCrash && !again_) {
      std::printf("%d orders acknowledged, and kill -9\n", written_);
      std::fflush(stdout);
      raise(SIGKILL);
    }
  }

 private:
  const bool again_;
  std::map<std::string, stockade::OrderId> orders_;  // Of earlier runs, by request id.
  std::mutex mutex_;
  std::ofstream out_;  // This and the next are guarded by mutex_.
  int written_ = 0;
};

// The number of acknowledged orders that are there, sold, under the acknowledged id.
int CountTrue(stockade::Inventory& stock, const std::map<std::string, stockade::OrderId>& told) {
  int as_told = 0;
  for (const auto& [request, id] : told) {
    const absl::StatusOr<stockade::Reservation> same =
        stock.Reserve({.sku = "shoe-1", .request_id = request, .buyer = request});
    as_told += same.ok() && same->id() == id && shop::OrExit(stock.StateOf(id)) == stockade::OrderState::kSold;
  }
  return as_told;
}

// All buyers order, eight at a time; those that were acknowledged before order again. Returns how many have a pair.
int SellToAll(stockade::Inventory& stock, Told& told) {
  std::atomic<int> next = 0;
  std::atomic<int> served = 0;
  shop::AtOnce(8, [&](int) {
    for (int buyer = next++; buyer < kBuyers; buyer = next++) {
      const std::string request = absl::StrCat("buyer-", buyer);
      const absl::StatusOr<stockade::Reservation> held =
          stock.Reserve({.sku = "shoe-1", .request_id = request, .buyer = request});
      if (!held.ok()) continue;  // Sold out.
      shop::OrExit(stock.Commit(held->id()));
      if (!told.orders().contains(request)) told.Write(request, held->id());
      ++served;
    }
  });
  return served;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: step7 DIRECTORY\n");
    return 2;
  }
  const std::string directory = argv[1];
  std::filesystem::create_directories(directory);
  Told told(directory + "/told.txt");

  std::unique_ptr<stockade::Ledger> ledger = shop::OrExit(stockade::SqliteLedger::Open(directory + "/orders.db"));
  stockade::Inventory stock({.name = "shop", .ledger = std::move(ledger)});
  const absl::Status added = stock.AddSku("shoe-1", {.stock = kPairs, .per_buyer_limit = 1});
  if (!absl::IsAlreadyExists(added)) shop::OrExit(added);  // Recovered from the ledger, with its orders.

  if (told.again()) {
    std::printf("started again: %d of %zu acknowledged orders are there, as acknowledged\n",
                CountTrue(stock, told.orders()), told.orders().size());
  }
  const int served = SellToAll(stock, told);
  const stockade::StockFigures figures = shop::OrExit(stock.Figures("shoe-1"));
  std::printf("%d of %d buyers have a pair, once; granted %lld = sold %lld\n", served, kBuyers,
              static_cast<long long>(figures.granted), static_cast<long long>(figures.sold));
}

// Step 6: the stock is an Inventory. Units are set aside, then paid for; a request takes once.

#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "visitors.h"

namespace {

// The results of the requests.
struct Outcome {
  std::vector<stockade::OrderId> held;
  std::map<std::string, int> refused;  // By reason.
};

// Buyers `from` to `from` + 99.
Outcome ReserveAtOnce(stockade::Inventory& stock, int from) {
  std::mutex mutex;
  Outcome outcome;
  shop::AtOnce(100, [&](int number) {
    const int buyer = from + number;
    const absl::StatusOr<stockade::Reservation> held = stock.Reserve({.sku = "shoe-1",
                                                                      .request_id = absl::StrCat("click-", buyer),
                                                                      .buyer = absl::StrCat("buyer-", buyer),
                                                                      .ttl = absl::Minutes(10)});
    const std::lock_guard lock(mutex);
    if (held.ok()) {
      outcome.held.push_back(held->id());
    } else {
      ++outcome.refused[std::string(stockade::RefusalName(stockade::RefusalOf(held.status())))];
    }
  });
  return outcome;
}

void Print(const char* what, const Outcome& outcome) {
  std::printf("%-32s %zu held", what, outcome.held.size());
  for (const auto& [reason, count] : outcome.refused) std::printf(", %d refused: %s", count, reason.c_str());
  std::printf("\n");
}

void PrintFigures(const stockade::Inventory& stock) {
  const stockade::StockFigures figures = shop::OrExit(stock.Figures("shoe-1"));
  std::printf("  granted %lld = available %lld + held %lld + sold %lld\n", static_cast<long long>(figures.granted),
              static_cast<long long>(figures.available), static_cast<long long>(figures.held),
              static_cast<long long>(figures.sold));
}

}  // namespace

int main() {
  stockade::ManualClock clock;
  stockade::Inventory stock({.name = "shop", .clock = &clock});
  shop::OrExit(stock.AddSku("shoe-1", {.stock = 10, .per_buyer_limit = 1}));

  const Outcome first = ReserveAtOnce(stock, 0);
  Print("100 buyers at once:", first);
  PrintFigures(stock);

  // The same clicks again: who has a reservation gets it again, and takes nothing more.
  Print("all send their requests again:", ReserveAtOnce(stock, 0));
  PrintFigures(stock);

  // Seven pay, one gives up, two close their browsers.
  for (size_t i = 0; i < 7; ++i) shop::OrExit(stock.Commit(first.held[i]));
  shop::OrExit(stock.Cancel(first.held[7]));
  clock.Advance(absl::Minutes(10));
  while (shop::OrExit(stock.Available("shoe-1")) < 3) absl::SleepFor(absl::Milliseconds(1));  // A thread sees to it.
  std::printf("7 pay, 1 cancels, 2 run out:\n");
  PrintFigures(stock);

  const Outcome late = ReserveAtOnce(stock, 100);
  Print("100 buyers more:", late);
  for (const stockade::OrderId id : late.held) shop::OrExit(stock.Commit(id));
  PrintFigures(stock);
}

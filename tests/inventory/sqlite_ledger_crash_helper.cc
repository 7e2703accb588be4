// Appends orders, baskets and removals of SKUs to the ledger argv[1] from four threads until it is killed, and writes
// "<position> <order id>\n" to standard output for each record once it is durable. Order ids begin at argv[2].

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "inventory/sqlite_ledger_support.h"

namespace stockade {
namespace {

using Kind = LedgerRecord::Kind;

void Acknowledge(SqliteLedger& ledger, uint64_t position, uint64_t order_id) {
  if (!ledger.AwaitDurable(position).ok()) _exit(3);
  const std::string line = absl::StrCat(position, " ", order_id, "\n");
  // One write a line: pipes keep it whole.
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) _exit(4);
}

int Run(const char* path, uint64_t first_id) {
  absl::StatusOr<std::unique_ptr<SqliteLedger>> opened = SqliteLedger::Open(path, {.metrics = nullptr});
  if (!opened.ok()) {
    std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
    return 2;
  }
  SqliteLedger& ledger = **opened;
  if (ledger.TakeRecovered().skus.empty()) ledger.Append(testing::AddSku("shoe", 1'000'000'000));
  std::atomic<uint64_t> next_id{first_id};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<uint32_t>(first_id + t));
      while (true) {
        const uint64_t id = next_id.fetch_add(1);
        const uint32_t what = random() % 5;
        if (what == 0) {
          Acknowledge(ledger, ledger.Append(testing::Take(id, "shoe", 1 + random() % 3)), id);
          continue;
        }
        if (random() % 2 == 0) {
          Acknowledge(ledger, ledger.Append(testing::Reserve(id, "shoe", 1 + random() % 3)), id);
        } else {
          // With a SKU of its own, which is removed while the basket is held.
          const std::string sku = absl::StrCat("only-", id);
          ledger.Append(testing::AddSku(sku, 3));
          Acknowledge(ledger, ledger.Append(testing::ReserveBasket(id, {{sku, 2}, {"shoe", 1}})), id);
          ledger.Append(testing::RemoveSku(sku, 1));
        }
        const Kind kinds[] = {Kind::kCommit, Kind::kCancel, Kind::kExpire};
        if (what <= 3) Acknowledge(ledger, ledger.Append(testing::Settle(kinds[what - 1], id)), id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace
}  // namespace stockade

int main(int argc, char** argv) { return argc == 3 ? stockade::Run(argv[1], std::strtoull(argv[2], nullptr, 10)) : 1; }

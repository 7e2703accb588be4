// Opens a shop on a ledger and trades on it from several threads until it is killed, or has sent enough. Says "open" to
// standard output once it is, then each answer: see trader.h.
//
// Arguments: ledger, seed, SKUs, stock of each, round, threads, retention, requests of each thread, and how many the
// threads of the round before had answered, each.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "inventory/crash/trader.h"
#include "stockade/base/log.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/run_threads.h"

namespace stockade::testing {
namespace {

uint32_t Number(const char* text) { return static_cast<uint32_t>(std::strtoul(text, nullptr, 10)); }

Round RoundOf(int argc, char** argv) {
  Round round{.ledger = argv[1],
              .world = {.seed = Number(argv[2]), .skus = Number(argv[3]), .stock = Number(argv[4])},
              .number = Number(argv[5]),
              .threads = Number(argv[6]),
              .requests = Number(argv[8])};
  if (!absl::ParseDuration(argv[7], &round.retention)) GiveUp(argv[7], absl::InvalidArgumentError("no duration"));
  for (int i = 9; i < argc; ++i) round.former.push_back(Number(argv[i]));
  return round;
}

void AddSkus(Inventory& shop, const World& world) {
  for (uint32_t i = 0; i < world.skus; ++i) {
    const absl::Status added =
        shop.AddSku(SkuCalled(i), {.stock = world.stock, .shards = 4, .per_buyer_limit = LimitOf(i)});
    if (!added.ok() && !absl::IsAlreadyExists(added)) GiveUp("AddSku", added);
  }
}

int Run(const Round& round) {
  SetLogSink([](LogSeverity severity, std::string_view message) {
    if (severity != LogSeverity::kInfo)
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  // The kernel kills this process as soon as its parent is gone.
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  absl::StatusOr<std::unique_ptr<SqliteLedger>> ledger = SqliteLedger::Open(round.ledger, {.metrics = nullptr});
  if (!ledger.ok()) GiveUp("Open", ledger.status());
  absl::StatusOr<std::unique_ptr<Inventory>> shop =
      Inventory::Create({.ledger = *std::move(ledger), .metrics = nullptr, .retention = round.retention});
  if (!shop.ok()) GiveUp("Create", shop.status());
  Say("open");
  AddSkus(**shop, round.world);
  ThreadPool pool(2);
  RunThreads(static_cast<int>(round.threads),
             [&](int thread) { Trader(**shop, pool, round, static_cast<uint32_t>(thread)).Run(); });
  return 0;
}

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) {
  return argc < 9 ? 1 : stockade::testing::Run(stockade::testing::RoundOf(argc, argv));
}

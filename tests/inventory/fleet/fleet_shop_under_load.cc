// A process of a fleet: connects and trades from several threads until it is killed, or has sent enough. Says "open" to
// standard output once it is connected, then each answer: see trader.h.
//
// Arguments: ledger, fleet, seed, SKUs, stock of each, round, first thread, threads, requests of each thread, and how
// many each thread of the fleet had answered in the round before.

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "inventory/crash/trader.h"
#include "stockade/base/log.h"
#include "stockade/inventory/fleet_inventory.h"
#include "support/await.h"
#include "support/run_threads.h"

namespace stockade::testing {
namespace {

uint32_t Number(const char* text) { return static_cast<uint32_t>(std::strtoul(text, nullptr, 10)); }

int Run(int argc, char** argv) {
  SetLogSink([](LogSeverity severity, std::string_view message) {
    if (severity != LogSeverity::kInfo)
      std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  });
  // The kernel kills this process as soon as its parent is gone.
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  Round round{.ledger = argv[1],
              .world = {.seed = Number(argv[3]), .skus = Number(argv[4]), .stock = Number(argv[5])},
              .number = Number(argv[6]),
              .threads = Number(argv[8]),
              .requests = Number(argv[9])};
  for (int i = 10; i < argc; ++i) round.former.push_back(Number(argv[i]));
  const uint32_t first_thread = Number(argv[7]);
  absl::StatusOr<std::unique_ptr<Inventory>> shop;
  // The server may be killed meanwhile.
  testing::Await("a server that stays", [&] {
    // Longer than the server is ever away: Trader takes Unavailable for a failure.
    shop = FleetInventory::Connect({.ledger = round.ledger,
                                    .fleet = argv[2],
                                    .patience = absl::Minutes(2),
                                    // SKUs are sold out, and units come back, many times in a round.
                                    .refusal_lease = absl::Milliseconds(20),
                                    .retention = absl::InfiniteDuration(),
                                    .metrics = nullptr,
                                    .connect_timeout = absl::Minutes(1)});
    return !absl::IsUnavailable(shop.status());
  });
  if (!shop.ok()) GiveUp("Connect", shop.status());
  Say("open");
  for (uint32_t i = 0; i < round.world.skus; ++i) {
    const absl::Status added = (*shop)->EnsureSku(
        SkuCalled(i),
        {.stock = round.world.stock, .shards = 1 + static_cast<int32_t>(i % 4), .per_buyer_limit = LimitOf(i)});
    if (!added.ok()) GiveUp("EnsureSku", added);
  }
  ThreadPool pool(2);
  RunThreads(static_cast<int>(round.threads),
             [&](int thread) { Trader(**shop, pool, round, first_thread + static_cast<uint32_t>(thread)).Run(); });
  return 0;
}

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) { return argc < 10 ? 1 : stockade::testing::Run(argc, argv); }

// A process of a fleet: connects and trades from several threads until it is killed, or has sent enough. Says "open" to
// standard output once it is connected, then each answer: see trader.h.
//
// Arguments: ledger, fleet, Redis nodes (separated by commas; may be empty), number of a FleetDefect, seed, SKUs, stock
// of each, round, first thread, threads, requests of each thread, and how many each thread of the fleet had answered in
// the round before. If there are Redis nodes, every second SKU has segments there.

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "fleet_rules.h"
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
  const std::vector<std::string> nodes = absl::StrSplit(argv[3], ',', absl::SkipEmpty());
#ifdef STOCKADE_CRASH_POINTS
  inventory_internal::fleet_defect = static_cast<inventory_internal::FleetDefect>(Number(argv[4]));
#endif
  Round round{.ledger = argv[1],
              .world = {.seed = Number(argv[5]), .skus = Number(argv[6]), .stock = Number(argv[7])},
              .number = Number(argv[8]),
              .threads = Number(argv[10]),
              .requests = Number(argv[11])};
  for (int i = 12; i < argc; ++i) round.former.push_back(Number(argv[i]));
  const uint32_t first_thread = Number(argv[9]);
  absl::StatusOr<std::unique_ptr<Inventory>> shop;
  // The server may be killed meanwhile.
  testing::Await("a server that stays", [&] {
    // Longer than the server is ever away: Trader takes Unavailable for a failure.
    shop = FleetInventory::Connect({.ledger = round.ledger,
                                    .fleet = argv[2],
                                    .patience = absl::Minutes(2),
                                    // SKUs are sold out, and units come back, many times in a round.
                                    .refusal_lease = absl::Milliseconds(20),
                                    .redis = nodes,
                                    .retention = absl::InfiniteDuration(),
                                    .metrics = nullptr,
                                    .connect_timeout = absl::Minutes(1)});
    return !absl::IsUnavailable(shop.status());
  });
  if (!shop.ok()) GiveUp("Connect", shop.status());
  Say("open");
  for (uint32_t i = 0; i < round.world.skus; ++i) {
    const absl::Status added = (*shop)->EnsureSku(SkuCalled(i), {.stock = round.world.stock,
                                                                 .shards = 1 + static_cast<int32_t>(i % 3),
                                                                 .per_buyer_limit = LimitOf(i),
                                                                 .redis_segments = !nodes.empty() && i % 2 == 1});
    if (!added.ok()) GiveUp("EnsureSku", added);
  }
  ThreadPool pool(2);
  RunThreads(static_cast<int>(round.threads),
             [&](int thread) { Trader(**shop, pool, round, first_thread + static_cast<uint32_t>(thread)).Run(); });
  return 0;
}

}  // namespace
}  // namespace stockade::testing

int main(int argc, char** argv) { return argc < 12 ? 1 : stockade::testing::Run(argc, argv); }

// What buyers notice while many reservations expire at once, as they do ten minutes after a sale has begun: takes that
// wait for the disk, beside the same takes of a shop in which as many reservations are held and none expires.
#include <memory>
#include <string>
#include <thread>

#include "harness/shared_runs.h"
#include "ledger/our_shop.h"
#include "ledger/rows.h"
#include "stockade/base/manual_clock.h"

namespace stockade::bench {
namespace {

using OrderRuns = SharedRuns<OrderRun>;

constexpr size_t kBuyers = 16;
constexpr absl::Duration kTtl = absl::Minutes(10);

// Takes for some 2 s, from when the reservations' TTL passes, if they have one.
OrderRun TakesAmongReservations(RequestIds& ids, absl::Duration ttl, const Scale& scale) {
  ManualClock clock;
  OurShop shop(&clock);
  RunAsyncOrders(1024, absl::Hours(1), shop.Reserves(ids, ttl), scale.Sized(1'000, 100'000));
  clock.Advance(kTtl);
  OrderRun run = RunOrders(kBuyers, kBuyers, 25 * scale.span, [&](size_t) { shop.Take(ids.Next()); });
  while (ttl == kTtl && shop.Held() > 0) std::this_thread::yield();
  return run;
}

double Milliseconds(const OrderRun& run, double share) {
  return static_cast<double>(run.durations.Percentile(share)) / 1'000'000;
}

}  // namespace

void AddExpiryRows(Suite& suite) {
  const auto runs = OrderRuns::Of([](const Scale& scale) -> OrderRuns::Sides {
    const auto ids = std::make_shared<RequestIds>();
    return {[=] { return TakesAmongReservations(*ids, kTtl, scale); },
            [=] { return TakesAmongReservations(*ids, absl::InfiniteDuration(), scale); }};
  });
  const auto add = [&](const std::string& what, Target target, double share) {
    runs->AddRow(suite,
                 {.name = what + " while 100,000 reservations expire",
                  .unit = "ms",
                  .peer = "ours, none expires",
                  .target = target},
                 [=](const OrderRun& run) { return Milliseconds(run, share); });
  };
  add("longest take", Target::DifferenceAtMost(50), 1 - 1e-12);
  add("take, p50,", Target::None(), 0.5);
  add("take, p99,", Target::None(), 0.99);
}

}  // namespace stockade::bench

// What buyers notice while many reservations expire at once, as they do ten minutes after a sale has begun: takes that
// wait for the disk, beside the same takes of a shop in which as many reservations are held and none expires.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/our_shop.h"
#include "ledger/rows.h"
#include "stockade/base/manual_clock.h"

namespace stockade::bench {
namespace {

constexpr size_t kBuyers = 16;
constexpr absl::Duration kTtl = absl::Minutes(10);

// Takes for some 2 s, from when the reservations' TTL passes, if they have one.
Measurement TakesAmongReservations(const std::shared_ptr<RequestIds>& ids, absl::Duration ttl, const Scale& scale) {
  struct World {
    ManualClock clock;
    OurShop shop{&clock};
  };
  return [=, world = std::make_shared<std::optional<World>>()](Worker& worker) -> Figures {
    worker.Once([&] {
      world->emplace();
      RunAsyncOrders(1024, absl::Hours(1), (*world)->shop.Reserves(*ids, ttl), scale.Sized(1'000, 100'000));
      (*world)->clock.Advance(kTtl);
    });
    OurShop& shop = (*world)->shop;
    const OrderRun run = RunOrders(worker, kBuyers, 25 * scale.span, [&](size_t) { shop.Take(ids->Next()); });
    worker.Once([&] {
      while (ttl == kTtl && shop.Held() > 0) std::this_thread::yield();
      world->reset();
    });
    const auto milliseconds = [&](double share) {
      return static_cast<double>(run.durations.Percentile(share)) / 1'000'000;
    };
    return {{"longest", milliseconds(1 - 1e-12)}, {"p50", milliseconds(0.5)}, {"p99", milliseconds(0.99)}};
  };
}

}  // namespace

void AddExpiryRows(Suite& suite) {
  std::vector<Comparison> rows;
  const auto add = [&](const std::string& what, const std::string& target, const std::string& counter) {
    rows.push_back({.name = what + " while 100,000 reservations expire",
                    .unit = "ms",
                    .peer = "ours, none expires",
                    .target = target,
                    .counter = counter});
  };
  add("longest take", "difference <= 50", "longest");
  add("take, p50,", "-", "p50");
  add("take, p99,", "-", "p99");
  suite.AddRows(std::move(rows), {.threads = kBuyers, .prepare = [](const Scale& scale) -> Contestants {
                                    const auto ids = std::make_shared<RequestIds>();
                                    return {TakesAmongReservations(ids, kTtl, scale),
                                            TakesAmongReservations(ids, absl::InfiniteDuration(), scale)};
                                  }});
}

}  // namespace stockade::bench

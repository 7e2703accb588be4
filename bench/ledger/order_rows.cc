// Orders that are durable when they are acknowledged, on the disk of the build directory: how many a second, and how
// long each takes, with a number of them outstanding at each moment.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "harness/shared_runs.h"
#include "ledger/our_shop.h"
#include "ledger/rows.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr size_t kMany = 100;  // Orders in one transaction of a peer.

using OrderRuns = SharedRuns<OrderRun>;

// Ours waits in a thread for each order, as a simple service does, or starts the next where one is called back.
enum class Ours { kThreads, kAsync, kReserveAndCommit };

struct Load {
  const char* text;  // As in the row's name.
  size_t outstanding;
  Ours ours;
  int spans;  // How long a repetition takes, in Scale::span. For the peer it is longer by as much as its orders wait.
  int peer_spans;
};
constexpr Load kLoads[] = {
    {"1 outstanding", 1, Ours::kThreads, 3, 3},
    {"16 outstanding", 16, Ours::kThreads, 3, 3},
    {"256 outstanding", 256, Ours::kAsync, 6, 6},
    {"4,096 outstanding", 4096, Ours::kAsync, 12, 48},
};

struct Percentile {
  const char* text;
  double share;
};
constexpr Percentile kPercentiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}};

struct World {
  OurShop ours;
  RequestIds ids;
  std::shared_ptr<PeerShop> peer;  // Null where there is none.
};

OrderRun OurRun(World& world, const Load& load, const Scale& scale) {
  const absl::Duration span = load.spans * scale.span;
  switch (load.ours) {
    case Ours::kAsync: return RunAsyncOrders(load.outstanding, span, world.ours.Takes(world.ids));
    case Ours::kReserveAndCommit:
      return RunAsyncOrders(load.outstanding, span, world.ours.ReservesAndCommits(world.ids));
    case Ours::kThreads: break;
  }
  return RunOrders(load.outstanding, load.outstanding, span, [&](size_t) { world.ours.Take(world.ids.Next()); });
}

OrderRun PeerRun(World& world, const Load& load, const Scale& scale) {
  return RunOrders(load.outstanding, PeerShop::kClients, load.peer_spans * scale.span, [&](size_t client) {
    const std::string request_id = world.ids.Next();
    if (load.ours == Ours::kReserveAndCommit) {
      world.peer->Reserve(client, request_id);
      world.peer->Commit(client, request_id);
    } else {
      world.peer->Take(client, request_id);
    }
  });
}

std::shared_ptr<OrderRuns> Runs(const Load& load, const Peer& peer) {
  return OrderRuns::Of([load, peer](const Scale& scale) -> OrderRuns::Sides {
    const auto world = std::make_shared<World>();
    world->peer = peer.open();
    return {[=] { return OurRun(*world, load, scale); }, [=] { return PeerRun(*world, load, scale); }};
  });
}

double PerSecond(const OrderRun& run) { return run.per_second; }

Comparison RateRow(std::string name, std::string peer, Target target = Target::None()) {
  return {.name = std::move(name),
          .unit = "orders/s",
          .peer = std::move(peer),
          .better = Better::kHigher,
          .target = target};
}

Target TargetOf(const Load& load, const Peer& peer) {
  if (!peer.has_targets || load.outstanding < 256) return Target::None();
  return Target::RatioAtLeast(load.outstanding < 4096 ? 20 : 35);
}

void AddRows(Suite& suite, const Load& load, std::span<const Peer> peers) {
  for (const Peer& peer : peers) {
    const auto runs = Runs(load, peer);
    runs->AddRow(suite, RateRow(base_internal::Concat("durable orders, ", load.text), peer.name, TargetOf(load, peer)),
                 PerSecond);
    if (&peer != &peers.front()) continue;
    for (const Percentile& percentile : kPercentiles) {
      runs->AddRow(suite, base_internal::Concat("durable order, ", percentile.text, ", ", load.text), "us", peer.name,
                   [share = percentile.share](const OrderRun& run) {
                     return static_cast<double>(run.durations.Percentile(share)) / 1000;
                   });
    }
  }
}

// The peer has its orders in batches: a queue before it that answers its callers late, which is what the ledger is.
void AddManyRow(Suite& suite, const Load& load, const Peer& peer) {
  Comparison row = RateRow(base_internal::Concat("durable orders, ", load.text),
                           base_internal::Concat(peer.name, ", ", kMany, " orders a transaction"));
  row.prepare = [load, peer](const Scale& scale) -> Contestants {
    const auto world = std::make_shared<World>();
    world->peer = peer.open();
    const auto order_many = [world, peer](size_t client) {
      std::vector<std::string> request_ids(kMany);
      std::generate(request_ids.begin(), request_ids.end(), [&] { return world->ids.Next(); });
      peer.take_many(*world->peer, client, request_ids);
    };
    return {[=] { return OurRun(*world, load, scale).per_second; },
            [=] {
              return kMany *
                     RunOrders(PeerShop::kClients, PeerShop::kClients, load.spans * scale.span, order_many).per_second;
            }};
  };
  suite.Add(std::move(row));
}

}  // namespace

void AddOrderRows(Suite& suite, std::span<const Peer> peers) {
  for (const Load& load : kLoads) AddRows(suite, load, peers);
  for (const Peer& peer : peers) {
    if (peer.take_many != nullptr) AddManyRow(suite, kLoads[3], peer);
  }
  const Load threads = {"256 outstanding, a thread each", 256, Ours::kThreads, 6, 6};
  const Load reserve = {"256 outstanding", 256, Ours::kReserveAndCommit, 6, 6};
  for (const Peer& peer : peers) {
    if (&peer == &peers.front()) {
      Runs(threads, peer)
          ->AddRow(suite, RateRow(base_internal::Concat("durable orders, ", threads.text), peer.name), PerSecond);
    }
    Runs(reserve, peer)
        ->AddRow(suite, RateRow(base_internal::Concat("durable reserve + commit, ", reserve.text), peer.name),
                 PerSecond);
  }
}

}  // namespace stockade::bench

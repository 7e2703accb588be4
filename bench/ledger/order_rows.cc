// Orders that are durable when they are acknowledged, on the disk of the build directory: how many a second, and how
// long each takes, with a number of them outstanding at each moment.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ledger/our_shop.h"
#include "ledger/rows.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr size_t kMany = 100;  // Orders in one transaction of a peer.

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

size_t OurThreads(const Load& load) { return load.ours == Ours::kThreads ? load.outstanding : 1; }
size_t PeerThreads(const Load& load) { return std::min(PeerShop::kClients, load.outstanding); }

OrderRun OurRun(Worker& worker, World& world, const Load& load, const Scale& scale) {
  const absl::Duration span = load.spans * scale.span;
  switch (load.ours) {
    case Ours::kAsync: return RunAsyncOrders(load.outstanding, span, world.ours.Takes(world.ids));
    case Ours::kReserveAndCommit:
      return RunAsyncOrders(load.outstanding, span, world.ours.ReservesAndCommits(world.ids));
    case Ours::kThreads: break;
  }
  return RunOrders(worker, load.outstanding, span, [&](size_t) { world.ours.Take(world.ids.Next()); });
}

OrderRun PeerRun(Worker& worker, World& world, const Load& load, const Scale& scale) {
  return RunOrders(worker, load.outstanding, load.peer_spans * scale.span, [&](size_t client) {
    const std::string request_id = world.ids.Next();
    if (load.ours == Ours::kReserveAndCommit) {
      world.peer->Reserve(client, request_id);
      world.peer->Commit(client, request_id);
    } else {
      world.peer->Take(client, request_id);
    }
  });
}

constexpr char kRate[] = "rate";

Figures FiguresOf(const OrderRun& run) {
  Figures figures = {{kRate, run.per_second}};
  for (const Percentile& percentile : kPercentiles) {
    figures[percentile.text] = static_cast<double>(run.durations.Percentile(percentile.share)) / 1000;
  }
  return figures;
}

Pair OrderPair(const Load& load, const Peer& peer) {
  return {.threads = OurThreads(load),
          .peer_threads = PeerThreads(load),
          .prepare = [load, peer](const Scale& scale) -> Contestants {
            const auto world = std::make_shared<World>();
            world->peer = peer.open();
            return {[=](Worker& worker) { return FiguresOf(OurRun(worker, *world, load, scale)); },
                    [=](Worker& worker) { return FiguresOf(PeerRun(worker, *world, load, scale)); }};
          }};
}

Comparison RateRow(std::string name, std::string peer, std::string target = "-") {
  return {.name = std::move(name),
          .unit = "orders/s",
          .peer = std::move(peer),
          .better = Better::kHigher,
          .target = std::move(target),
          .counter = kRate};
}

std::string TargetOf(const Load& load, const Peer& peer) {
  if (!peer.has_targets || load.outstanding < 256) return "-";
  return load.outstanding < 4096 ? ">= 20" : ">= 35";
}

void AddRows(Suite& suite, const Load& load, std::span<const Peer> peers) {
  for (const Peer& peer : peers) {
    std::vector<Comparison> rows = {
        RateRow(base_internal::Concat("durable orders, ", load.text), peer.name, TargetOf(load, peer))};
    for (const Percentile& percentile : kPercentiles) {
      if (&peer != &peers.front()) break;
      rows.push_back({.name = base_internal::Concat("durable order, ", percentile.text, ", ", load.text),
                      .unit = "us",
                      .peer = peer.name,
                      .counter = percentile.text});
    }
    suite.AddRows(std::move(rows), OrderPair(load, peer));
  }
}

// The peer has its orders in batches: a queue before it that answers its callers late, which is what the ledger is.
void AddManyRow(Suite& suite, const Load& load, const Peer& peer) {
  suite.Add(RateRow(base_internal::Concat("durable orders, ", load.text),
                    base_internal::Concat(peer.name, ", ", kMany, " orders a transaction")),
            {.threads = OurThreads(load),
             .peer_threads = PeerShop::kClients,
             .prepare = [load, peer](const Scale& scale) -> Contestants {
               const auto world = std::make_shared<World>();
               world->peer = peer.open();
               const auto order_many = [world, peer](size_t client) {
                 std::vector<std::string> request_ids(kMany);
                 std::generate(request_ids.begin(), request_ids.end(), [&] { return world->ids.Next(); });
                 peer.take_many(*world->peer, client, request_ids);
               };
               return {[=](Worker& worker) { return FiguresOf(OurRun(worker, *world, load, scale)); },
                       [=](Worker& worker) -> Figures {
                         const absl::Duration span = load.spans * scale.span;
                         return {{kRate, kMany * RunOrders(worker, PeerShop::kClients, span, order_many).per_second}};
                       }};
             }});
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
      suite.Add(RateRow(base_internal::Concat("durable orders, ", threads.text), peer.name), OrderPair(threads, peer));
    }
    suite.Add(RateRow(base_internal::Concat("durable reserve + commit, ", reserve.text), peer.name),
              OrderPair(reserve, peer));
  }
}

}  // namespace stockade::bench

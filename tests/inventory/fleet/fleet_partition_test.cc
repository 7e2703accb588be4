// Processes of a fleet, the ledger and two Redis nodes are on hosts of their own, and the network between them loses
// packets one way, both ways and between halves, while servers are killed, paused and emptied. Nothing is oversold,
// nothing that was acknowledged is lost, each call ends, and a request id that is sent again has one outcome.
// STOCKADE_TEST_SEED and STOCKADE_TEST_FAULTS repeat a schedule.

#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "inventory/fleet/fleet_caller.h"
#include "inventory/fleet/fleet_history.h"
#include "inventory/fleet/fleet_plan.h"
#include "inventory/fleet/fleet_test.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "support/await.h"
#include "support/fault_driver.h"
#include "support/network.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The hosts.
constexpr int kLedger = 0;
constexpr int kFirstNode = 1;
constexpr int kNodes = 2;
constexpr int kFirstShop = kFirstNode + kNodes;
constexpr int kShops = FleetPlan::kProcesses;

// Of the first shop; others have more, so that some calls end before a fault does, and some outlast it.
constexpr absl::Duration kPatience = absl::Milliseconds(300);
// Several times the longest patience. The rest is for a busy machine.
constexpr absl::Duration kLongestCall = absl::Seconds(25);

const absl::Status& StatusOf(const absl::Status& status) { return status; }
const absl::Status& StatusOf(const auto& answer) { return answer.status(); }

class FleetPartitionTest : public FleetTest {
 protected:
  // An order that a caller has got.
  struct Acknowledged {
    FleetOperation request;
    size_t process;  // That sent it first.
    FleetCaller caller;
    OrderState state;
  };

  static void SetUpTestSuite() {
    STOCKADE_NEEDS_NETWORK();
    network_ = std::make_unique<Network>(kFirstShop + kShops);
    StartServer({.host = network().host(kLedger)});
  }
  static void TearDownTestSuite() {
    FleetTest::TearDownTestSuite();
    network_.reset();
  }
  void SetUp() override {
    STOCKADE_NEEDS_NETWORK();
    STOCKADE_NEEDS_REDIS();
    const NetworkHost::Scope there = network().host(kLedger).Enter();
    FleetTest::SetUp();
    for (int i = 0; i < kNodes; ++i) {
      nodes_.push_back(std::make_unique<RedisServer>(RedisServerOptions{.host = network().host(kFirstNode + i)}));
    }
    proxy_ = std::make_unique<TcpProxy>(server().port(), network().host(kLedger));
    proxies_ = {proxy_.get()};
  }
  void TearDown() override {
    if (network_ != nullptr) network().Heal();
    shops_ = {};
    FleetTest::TearDown();
  }

  static Network& network() { return *network_; }
  static NetworkHost::Scope EnterShop(size_t shop) {
    return network().host(kFirstShop + static_cast<int>(shop)).Enter();
  }
  RedisServer& node(int64_t i) { return *nodes_[static_cast<size_t>(i)]; }

  void ConnectShops(absl::Duration patience = kPatience, int32_t lanes = 2) {
    FleetInventoryOptions options = Options();
    // By the proxy, which delays and cuts what passes.
    options.ledger = absl::StrReplaceAll(options.ledger, {{Concat(":", server().port()), Concat(":", proxy_->port())}});
    options.lanes = lanes;
    options.connect_timeout = absl::Seconds(1);
    for (const auto& node : nodes_) options.redis.push_back(node->url());
    for (size_t i = 0; i < shops_.size(); ++i) {
      const NetworkHost::Scope there = EnterShop(i);
      options.patience = patience * static_cast<int>(1 + 2 * i);
      Await("a connection in a short time", [&] {
        absl::StatusOr<std::unique_ptr<Inventory>> connected = FleetInventory::Connect(options);
        if (connected.ok()) shops_[i] = *std::move(connected);
        return shops_[i] != nullptr;
      });
    }
  }

  // One call by a thread on the shop's host.
  template <typename Call>
  auto AskOnce(size_t shop, const Call& call) {
    const NetworkHost::Scope there = EnterShop(shop);
    const Instant start = Clock::System()->Now();
    auto answer = call(*shops_[shop]);
    const absl::Duration took = Clock::System()->Now() - start;
    EXPECT_LT(took, kLongestCall) << StatusOf(answer);
    const std::lock_guard lock(mutex_);
    longest_call_ = std::max(longest_call_, took);
    if (RefusalOf(StatusOf(answer)) == Refusal::kUnavailable) ++unavailable_;
    return answer;
  }
  // The same until the ledger has answered; each time by the shop that is `step` further.
  template <typename Call>
  auto Ask(size_t& shop, const Call& call, size_t step) {
    decltype(call(*shops_[shop])) answer = absl::UnavailableError("not asked");
    Await("an answer of the ledger", [&] {
      answer = AskOnce(shop, call);
      if (RefusalOf(StatusOf(answer)) != Refusal::kUnavailable) return true;
      shop = (shop + step) % kShops;
      return false;
    });
    return answer;
  }

  // A thread of each shop makes calls on two SKUs of their own, with so many units that nodes get some. If a shop
  // cannot use the ledger, the thread goes on with the next one.
  void RunHistory(uint64_t seed, const std::string& name) {
    FleetPlan plan(seed);
    for (size_t i = 0; i < 2; ++i) plan.first.units[i] = plan.first.unsold[i] *= 60;
    for (FleetOperation& op : plan.operations) {
      if (op.kind != FleetOperation::kReshard) op.units *= 20;
      op.second_units *= 20;
    }
    const std::array skus = {name + "a", name + "b"};
    const FleetCaller caller(skus, name);
    size_t first = seed % kShops;
    for (size_t i = 0; i < 2; ++i) AddSku(first, skus[i], plan.first.units[i], plan.shards[i]);
    RunThreads(kShops, [&](int process) {
      auto shop = static_cast<size_t>(process);
      plan.Run(shop, caller, [&](const auto& call) { return Ask(shop, call, 1); });
    });
    std::vector<FleetOperation> history = plan.History();
    Note(history, caller);
    for (size_t i = 0; i < 2; ++i) {
      FleetOperation read{.kind = FleetOperation::kRead, .item = i, .begin = plan.NextTick()};
      const auto available = [&](Inventory& of) { return of.Available(skus[i]); };
      read.units = Ask(first, available, 1).value_or(-1);
      read.end = plan.NextTick();
      history.push_back(read);
    }
    EXPECT_TRUE(HasExplanation(history, plan.first)) << "no order explains this history, of " << plan.first.units[0]
                                                     << " and " << plan.first.units[1] << " units at first:\n"
                                                     << Describe(history);
  }
  void AddSku(size_t& shop, const std::string& sku, int64_t stock, int32_t shards) {
    const SkuOptions options{.stock = stock, .shards = shards, .redis_segments = true};
    const absl::Status added = Ask(
        shop, [&](Inventory& of) { return of.EnsureSku(sku, options); }, 1);
    EXPECT_TRUE(added.ok()) << added;
    granted_ += stock;
  }
  void Note(const std::vector<FleetOperation>& history, const FleetCaller& caller) {
    const std::lock_guard lock(mutex_);
    for (const FleetOperation& op : history) {
      ++answered_;
      if (op.kind == FleetOperation::kRestock) granted_ += op.units;
      if (op.kind == FleetOperation::kTakeBack && op.answer == FleetOperation::kDone) returned_ += op.units;
      if (!op.wants_units() || op.answer != FleetOperation::kDone) continue;
      const bool is_sold = op.kind == FleetOperation::kTake;
      const OrderState state = op.is_short ? OrderState::kExpired : is_sold ? OrderState::kSold : OrderState::kHeld;
      acknowledged_.try_emplace(op.order, op, op.request / FleetPlan::kOperationsEach, caller, state);
    }
    for (const FleetOperation& op : history) {
      if (op.kind == FleetOperation::kCommit) acknowledged_.at(op.order).state = OrderState::kSold;
      if (op.kind == FleetOperation::kCancel) acknowledged_.at(op.order).state = OrderState::kCancelled;
    }
  }

  static int64_t Number(const std::string& sql) { return std::stoll(server().Value(sql)); }
  int64_t PaidFromNodes() const {
    return Number(Concat("SELECT COALESCE(SUM(sold+held),0) FROM ", Table("stock"), " WHERE segment>=1000000"));
  }

  // What is wrong in the tables, or differs from the answers that callers have. Asks the two shops for each order that
  // it was not sent to first, one by the request id and one by its own.
  std::vector<std::string> Problems() {
    std::vector<std::string> problems = Audit();
    int64_t answered = -returned_;
    for (const auto& [id, order] : acknowledged_) {
      if (order.state == OrderState::kSold) answered += order.request.units + order.request.second_units;
    }
    const int64_t sold = Number("SELECT SUM(sold) FROM " + Table("stock"));
    if (sold != answered) problems.push_back(Concat(sold, " units are sold, and callers have ", answered));
    const int64_t granted = Number("SELECT SUM(granted) FROM " + Table("skus"));
    if (granted != granted_) problems.push_back(Concat(granted, " units are granted, and not ", granted_.load()));
    RunThreads(kShops, [&](int process) {
      for (const auto& [id, order] : acknowledged_) {
        if (order.process != static_cast<size_t>(process)) continue;
        size_t one = (order.process + 1) % kShops;
        size_t other = (order.process + 2) % kShops;
        FleetOperation again = order.request;
        again.order = 0;
        FleetCaller(order.caller).CallBy([&](const auto& call) { return Ask(one, call, 0); }, again);
        const auto state = Ask(
            other, [&, order_id = id](Inventory& of) { return of.StateOf(order_id); }, 0);
        if (again.order == id && state.ok() && *state == order.state) continue;
        const std::lock_guard lock(mutex_);
        problems.push_back(Concat("order ", id, " is ", again.order, " now: ", state.status().ToString()));
      }
    });
    return problems;
  }

  // Of the network and of the servers. They end by themselves, or by "heal".
  FaultDriver Faults() {
    const FaultDriver::Pass pass = [](int64_t ms) { poll(nullptr, 0, static_cast<int>(ms)); };
    const auto pause = [pass](auto& server, int64_t ms) {
      server.Pause();
      pass(ms);
      server.Resume();
    };
    const auto kill = [pass](auto& server, int64_t ms) {
      server.Kill();
      pass(ms);
      server.Restart();
    };
    const auto part = [](int64_t shop, int server) {
      network().Cut(kFirstShop + static_cast<int>(shop), server);
      network().Cut(server, kFirstShop + static_cast<int>(shop));
    };
    const auto part_from_nodes = [part](auto of) {
      for (int i = 0; i < kNodes; ++i) part(of[0], kFirstNode + i);
    };
    const auto reset = [](auto of) { network().Reset(kFirstShop + static_cast<int>(of[0]), kLedger); };
    return {Together(Together(NetworkFaults(network(), kFirstShop, pass, 3000), ProxyFaults(proxies_, pass, 400)),
                     {{"part-from-nodes", {kShops}, part_from_nodes},
                      {"part-from-ledger", {kShops}, [part](auto of) { part(of[0], kLedger); }, 2},
                      {"reset-from-ledger", {kShops}, reset, 2},
                      {"close-connections", {}, [](auto) { server().KillConnections(); }, 2},
                      {"empty-node", {kNodes}, [this](auto of) { node(of[0]).Call({"FLUSHALL"}); }},
                      {"kill-node", {kNodes, 400}, [this, kill](auto of) { kill(node(of[0]), of[1]); }},
                      {"pause-node", {kNodes, 400}, [this, pause](auto of) { pause(node(of[0]), of[1]); }},
                      {"kill-ledger", {400}, [kill](auto of) { kill(server(), of[0]); }},
                      {"pause-ledger", {1000}, [pause](auto of) { pause(server(), of[0]); }}}),
            pass};
  }

  std::array<std::unique_ptr<Inventory>, kShops> shops_;
  std::mutex mutex_;
  // This, the next two and returned_ are written under mutex_ while calls run, and read once these have ended.
  std::map<OrderId, Acknowledged> acknowledged_;
  absl::Duration longest_call_;
  int64_t unavailable_ = 0;
  std::atomic<int64_t> granted_ = 0;
  int64_t returned_ = 0;
  std::atomic<int64_t> answered_ = 0;

 private:
  static inline std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::unique_ptr<TcpProxy> proxy_;  // Before the ledger, on its host.
  std::vector<TcpProxy*> proxies_;   // This one.
};

TEST_F(FleetPartitionTest, NetworkAndServersFail_NothingIsOversoldLostOrThereTwice) {
  constexpr int kGroups = 12;
  ConnectShops();
  const FaultDriver driver = Faults();
  const uint64_t end = Seed() + static_cast<uint64_t>(Scaled(2, 20));
  for (uint64_t seed = Seed(); seed < end && !HasFailure(); ++seed) {
    SCOPED_TRACE(Concat("STOCKADE_TEST_SEED=", seed));
    const std::vector<Fault> faults = FaultsToRun(driver.Draw(seed, 20, 250), seed);
    std::atomic<bool> over = false;
    std::vector<std::thread> groups;
    for (int g = 0; g < kGroups; ++g) {
      groups.emplace_back([&, g] {
        for (uint64_t h = 0; !over; ++h)
          RunHistory((seed * kGroups + static_cast<uint64_t>(g)) * 1000 + h, Concat(seed, "-", g, "-", h, "-"));
      });
    }
    driver.MakeAll(faults);
    network().Heal();
    over = true;
    for (std::thread& group : groups) group.join();
    // All shops serve again.
    for (size_t shop = 0; shop < kShops; ++shop) {
      const RestockRequest restock{.sku = Concat(seed, "-0-0-a"), .request_id = Concat("after ", seed, shop)};
      EXPECT_TRUE(Ask(
                      shop, [&](Inventory& of) { return of.Restock(restock); }, 0)
                      .ok());
      ++granted_;
    }
    EXPECT_THAT(Problems(), IsEmpty());
  }
  std::cout << answered_ << " calls were answered, after " << unavailable_ << " without an answer, the longest in "
            << longest_call_ << "; " << acknowledged_.size() << " orders, " << PaidFromNodes()
            << " units paid from rows of nodes\n";
  if (FaultsAreGiven()) return;
  EXPECT_GT(unavailable_, 0);
  EXPECT_GT(PaidFromNodes(), 0);
}

TEST_F(FleetPartitionTest, PromiseIsBroken_IsNoticed) {
  ConnectShops(absl::Minutes(1));
  for (uint64_t seed = 0; acknowledged_.size() < 4; ++seed) RunHistory(seed, Concat(seed, "-"));
  EXPECT_THAT(Problems(), IsEmpty());
  tables_are_damaged_ = true;
  server().Query(Concat("UPDATE ", Table("stock"), " SET sold=sold+1,units=units-1 WHERE units>0 LIMIT 1"));
  EXPECT_THAT(Problems(), Contains(HasSubstr("units are sold")));
  EXPECT_THAT(Problems(), Contains(HasSubstr("totals")));
  for (const auto& [id, order] : acknowledged_) {
    for (const char* const table : {"orders", "requests"}) {
      server().Query(Concat("DELETE FROM ", Table(table), " WHERE order_id=", id));
    }
    EXPECT_THAT(Problems(), Contains(HasSubstr(Concat("order ", id, " "))));
  }
}

TEST_F(FleetPartitionTest, ProcessCannotReachTheNodes_ItSellsFromTheLedger) {
  ConnectShops(absl::Minutes(1));
  int requests = 0;
  const auto take = [&](size_t shop) {
    const std::string id = Concat("id", ++requests);
    const auto taken = AskOnce(shop, [&](Inventory& of) { return of.Take({.sku = "sneaker", .request_id = id}); });
    EXPECT_TRUE(taken.ok()) << taken.status();
  };
  const auto await_payment = [&](size_t shop) {
    const int64_t before = PaidFromNodes();
    Await("a payment from the rows of nodes", [&] { return take(shop), PaidFromNodes() > before; });
  };
  ASSERT_TRUE(AskOnce(0, [](Inventory& shop) {
                return shop.AddSku("sneaker", {.stock = 100'000, .redis_segments = true});
              }).ok());
  await_payment(0);
  network().Cut(kFirstShop, kFirstNode);
  network().Cut(kFirstNode + 1, kFirstShop);
  for (int i = 0; i < 20; ++i) take(0);
  await_payment(1);
  network().Heal();
  await_payment(0);
}

TEST_F(FleetPartitionTest, ProcessIsCutOffFromTheLedger_AnotherOneShowsTheOutcome) {
  ConnectShops(kPatience, /*lanes=*/1);
  size_t cut_off = 0;
  size_t other = 1;
  ASSERT_TRUE(Ask(
                  other, [](Inventory& shop) { return shop.EnsureSku("sneaker", {.stock = 100}); }, 0)
                  .ok());
  int64_t quantity = 1;
  const auto take = [](const std::string& id, int64_t units) {
    return [=](Inventory& shop) { return shop.Take({.sku = "sneaker", .quantity = units, .request_id = id}); };
  };
  for (const auto& [from, to] : {std::pair(kLedger, kFirstShop), std::pair(kFirstShop, kLedger)}) {
    const std::string orders = Concat("SELECT COUNT(*) FROM ", Table("orders"), " WHERE quantity=", ++quantity);
    const std::string id = Concat(from, " to ", to);
    int calls = 0;
    Await("a call that is cut off", [&] {
      network().Heal();
      // Then its lane has a connection, and knows the SKU.
      EXPECT_TRUE(Ask(cut_off, take(Concat(id, ++calls), 1), 0).ok());
      network().Cut(from, to);
      const auto unknown = AskOnce(cut_off, take(id, quantity));
      EXPECT_EQ(RefusalOf(unknown.status()), Refusal::kUnavailable) << unknown.status();
      return from != kLedger || Number(orders) == 1;
    });
    const auto taken = Ask(other, take(id, quantity), 0);
    ASSERT_TRUE(taken.ok()) << taken.status();
    network().Heal();
    const auto again = Ask(cut_off, take(id, quantity), 0);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->id(), taken->id());
    EXPECT_EQ(Number(orders), 1) << "what was lost is sent again, and must do nothing";
  }
}

}  // namespace
}  // namespace stockade::testing

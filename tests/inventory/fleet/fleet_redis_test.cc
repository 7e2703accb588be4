// Segments at Redis nodes: whatever a node loses, repeats or makes up, each unit is sold once.

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fleet_dispenser.h"
#include "fleet_pause.h"
#include "inventory/fleet/fleet_test.h"
#include "redis/support/redis_cluster.h"
#include "redis/support/redis_server.h"
#include "redis/support/sentinel_set.h"
#include "stockade/base/log.h"
#include "support/await.h"
#include "support/exported.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::RedisServer;

// Longer than any reply takes.
constexpr absl::Duration kPatiently = absl::Seconds(20);
// For nodes that do not answer.
constexpr absl::Duration kBriefly = absl::Milliseconds(50);

class FleetRedisTest : public testing::FleetTest {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    FleetTest::SetUp();
  }
  // A process with one lane over these nodes.
  FleetInventoryOptions With(std::vector<std::string> nodes, absl::Duration timeout = kPatiently) const {
    FleetInventoryOptions options = Options();
    options.redis = std::move(nodes);
    options.redis_timeout = timeout;
    options.lanes = 1;
    return options;
  }
  std::unique_ptr<Inventory> Process(absl::Duration timeout = kPatiently) const {
    return Connect(With({node_->url()}, timeout));
  }
  RedisServer& node() { return *node_; }
  void StartNode() { node_ = std::make_unique<RedisServer>(); }

  static int64_t Number(const std::string& sql) { return std::stoll(server().Value(sql)); }
  // A sum over the rows of stock.
  int64_t Stock(std::string_view what, std::string_view where) const {
    return Number(Concat("SELECT COALESCE(SUM(", what, "),0) FROM ", Table("stock"), " WHERE ", where));
  }
  int64_t OfNodes(std::string_view what) const { return Stock(what, "segment>=1000000"); }
  std::string Key(int segment = 1'000'000) const {
    return Concat("stockade:inv:{", fleet(), ":",
                  server().Value(Concat("SELECT sku_id FROM ", Table("skus"), " WHERE sku='sneaker'")), "}:", segment);
  }
  // A field of the counter: "g", "f", or "n" for the one with the units, which is named like the generation. 0 if there
  // is none.
  int64_t Counter(const std::string& field) {
    const std::string name = field == "n" ? Concat(Counter("g")) : field;
    const std::string value = node().Call({"HGET", Key(), name}).text;
    return value.empty() ? 0 : std::stoll(value);
  }
  void SetCounter(const std::string& field, int64_t value) {
    const std::string name = field == "n" ? Concat(Counter("g")) : field;
    EXPECT_FALSE(node().Call({"HSET", Key(), name, Concat(value)}).lost());
  }
  // The same units and fills under another generation.
  void SetGeneration(int64_t generation) {
    const int64_t units = Counter("n");
    EXPECT_FALSE(node().Call({"HDEL", Key(), Concat(Counter("g"))}).lost());
    SetCounter("g", generation);
    SetCounter("n", units);
  }
  absl::Status Add(Inventory& shop, int64_t stock, int32_t shards = 0) const {
    return shop.AddSku("sneaker", {.stock = stock, .shards = shards, .redis_segments = true});
  }
  absl::Status Take(Inventory& shop, int64_t quantity = 1) {
    return shop.Take({.sku = "sneaker", .quantity = quantity, .request_id = Concat("request", ++requests_)}).status();
  }
  // Sells one unit after another until `holds()` is true.
  template <typename Predicate>
  void SellUntil(Inventory& shop, std::string_view what, Predicate holds) {
    Await(what, [&] {
      const absl::Status taken = Take(shop);
      EXPECT_TRUE(taken.ok()) << what << ": " << taken;
      return !taken.ok() || holds();
    });
  }
  // A SKU whose node has units.
  std::unique_ptr<Inventory> FilledProcess(int64_t stock, absl::Duration timeout = kPatiently) {
    std::unique_ptr<Inventory> shop = Process(timeout);
    EXPECT_TRUE(Add(*shop, stock).ok());
    AwaitFill(*shop);
    return shop;
  }
  // Sells one unit, and more until the node has some.
  void AwaitFill(Inventory& shop) {
    const int64_t fills = Counter("f");
    SellUntil(shop, "units at the node", [&] { return Counter("f") > fills; });
  }
  // Sells until a payment comes from the node's row.
  void AwaitPayment(Inventory& shop) {
    const int64_t before = OfNodes("sold");
    SellUntil(shop, "a payment from the node's row", [&] { return OfNodes("sold") > before; });
  }
  // Sells all that is left, one unit at a time, and expects that nothing is refused before.
  void SellOut(Inventory& shop) {
    for (int64_t left = shop.Available("sneaker").value(); left > 0; --left) {
      const absl::Status taken = Take(shop);
      ASSERT_TRUE(taken.ok()) << taken << " with " << left << " left";
    }
    EXPECT_EQ(RefusalOf(Take(shop)), Refusal::kSoldOut);
    EXPECT_EQ(shop.Available("sneaker").value(), 0);
  }

 private:
  std::unique_ptr<RedisServer> node_ = std::make_unique<RedisServer>();
  int requests_ = 0;
};

TEST_F(FleetRedisTest, SkuIsSoldOverThreeNodes_EachUnitOnce) {
  const RedisServer others[2];
  FleetInventoryOptions options = With({node().url(), others[0].url(), others[1].url()});
  options.lanes = 3;  // So that each node has one.
  options.max_batch = 8;
  constexpr int kUnits = 3000;
  const std::unique_ptr<Inventory> shops[] = {Connect(options), Connect(options)};
  ASSERT_TRUE(Add(*shops[0], kUnits, 2).ok());
  EXPECT_EQ(SoldByThreads(*shops[0], *shops[1]), kUnits);
  EXPECT_EQ(Stock("units", "TRUE"), 0);
  EXPECT_EQ(Stock("1", "segment>=1000000 AND sold>0"), 3) << "each node has sold some";
  EXPECT_GT(OfNodes("sold"), kUnits / 2) << "most come from nodes";
}

// Two fleets share a server, which has two URLs.
TEST_F(FleetRedisTest, NodesFleetsAndSkusOnOneServer_HaveCountersOfTheirOwn) {
  FleetInventoryOptions options = With({node().url(), Concat("redis://localhost:", node().port())});
  options.lanes = 2;
  options.max_batch = 8;
  FleetInventoryOptions of_another = options;
  of_another.fleet += "b";
  ASSERT_TRUE(FleetInventory::Migrate(of_another).ok());
  const std::unique_ptr<Inventory> shops[] = {Connect(options), Connect(of_another)};
  for (const char* const sku : {"{sneaker}", "100%s '\"\\"}) {
    constexpr int kUnits = 500;
    for (const auto& shop : shops) {
      ASSERT_TRUE(shop->AddSku(sku, {.stock = kUnits, .redis_segments = true}).ok());
      std::vector<TakeRequest> requests;
      for (int i = 0; i <= kUnits; ++i) requests.push_back({.sku = sku, .request_id = Concat(sku, i)});
      int sold = 0;
      for (const auto& order : shop->TakeMany(requests)) sold += order.ok() ? 1 : 0;
      EXPECT_EQ(sold, kUnits);
    }
  }
  EXPECT_GT(OfNodes("sold"), 0);
  for (const testing::FleetFinding& found : testing::AuditFleet(server(), "test." + of_another.fleet)) {
    ADD_FAILURE() << found.statement << ": " << found.row;
  }
}

TEST_F(FleetRedisTest, NodeIsEmptied_SaleGoesOnToTheLastUnit) {
  const auto shop = FilledProcess(400);
  AwaitPayment(*shop);
  node().Call({"FLUSHALL"});
  AwaitFill(*shop);  // In the same generation.
  EXPECT_EQ(OfNodes("fence"), 1);
  EXPECT_GT(OfNodes("units"), Counter("n")) << "what the node has lost stays in its row";
  node().Call({"FLUSHALL"});
  SellOut(*shop);
}

TEST_F(FleetRedisTest, NodeIsRolledBack_PaymentsFailAndANewGenerationBegins) {
  const auto shop = FilledProcess(1000);
  const int64_t before = Counter("n");
  while (Counter("n") > 20) ASSERT_TRUE(Take(*shop).ok());
  // An old snapshot: it gives out units that were sold.
  SetCounter("n", before);
  SellUntil(*shop, "a new generation", [&] { return Counter("g") > 1; });
  EXPECT_EQ(OfNodes("fence"), Counter("g"));
  SellOut(*shop);
}

// The older generation has ended, but the node has forgotten that.
TEST_F(FleetRedisTest, NodeIsRolledBackToAnOlderGeneration_ItsUnitsAreNotPaid) {
  const auto shop = FilledProcess(1000);
  const auto plain = Connect();
  const int64_t units = Counter("n");
  ASSERT_TRUE(Take(*plain, 600).ok()) << "more than the ledger's segment has: it merges";
  EXPECT_EQ(OfNodes("units"), 0);
  EXPECT_EQ(OfNodes("fence"), 2);
  SellUntil(*shop, "the second generation", [&] { return Counter("g") == 2; });
  SetGeneration(1);
  SetCounter("n", units);
  AwaitPayment(*shop);
  SellOut(*shop);
}

TEST_F(FleetRedisTest, TwoMastersOfOneSegment_EachUnitIsSoldOnce) {
  const auto one = FilledProcess(1000);
  AwaitPayment(*one);
  // The other master, which has the same units.
  const RedisServer other;
  const std::string dump = node().Call({"DUMP", Key()}).text;
  EXPECT_EQ(other.Call({"RESTORE", Key(), "0", dump}).text, "OK");
  server().Query(Concat("UPDATE ", Table("nodes"), " SET name='", other.url(), "'"));
  const auto two = Connect(With({other.url()}));
  AwaitPayment(*two);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM " + Table("nodes")), 1);
  int64_t sold = 0;
  for (Inventory* shop : {one.get(), two.get()}) AwaitPayment(*shop);
  for (int64_t left = one->Available("sneaker").value(); left > 0; --left, ++sold) {
    ASSERT_TRUE(Take(sold % 2 == 0 ? *one : *two).ok()) << left;
  }
  EXPECT_EQ(RefusalOf(Take(*one)), Refusal::kSoldOut);
  EXPECT_EQ(RefusalOf(Take(*two)), Refusal::kSoldOut);
}

TEST_F(FleetRedisTest, NodeStops_SaleGoesOnAndUsesItAgain) {
  const auto shop = FilledProcess(2000, kBriefly);
  node().Pause();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Take(*shop).ok());
  node().Resume();
  AwaitPayment(*shop);
  node().Kill();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Take(*shop).ok());
  node().Restart();
  AwaitFill(*shop);
  AwaitPayment(*shop);
  node().Pause();
  SellOut(*shop);
  node().Resume();
}

TEST_F(FleetRedisTest, NodeIsAwayAtFirst_ItIsUsedLater) {
  node().Kill();
  const auto shop = Process(kBriefly);
  ASSERT_TRUE(Add(*shop, 1000).ok());
  ASSERT_TRUE(Take(*shop).ok());
  EXPECT_EQ(OfNodes("1"), 0);
  node().Restart();
  AwaitPayment(*shop);
}

// Other programs or people have changed it.
TEST_F(FleetRedisTest, CounterCannotBeUsed_OtherSkusUseTheNode) {
  std::atomic<int> logged = 0;
  ASSERT_TRUE(FilledProcess(2000)->AddSku("boot", {.stock = 2000, .redis_segments = true}).ok());
  const std::string key = Key();
  SetLogSink([&](LogSeverity, std::string_view message) { logged += message.find(key) != message.npos; });
  const auto boots = [&] {
    return Stock("held",
                 Concat("segment>=1000000 AND sku_id=(SELECT sku_id FROM ", Table("skus"), " WHERE sku='boot')"));
  };
  const std::vector<std::vector<std::string>> changes = {
      {"SET", key, "text"},
      {"HSET", key, "g", "1", "f", "1", "1", "many"},
      {"HSET", key, "g", "1", "f", "1", "1", "1e6"},
      {"HSET", key, "g", "99999999999999999999", "99999999999999999999", "100", "f", "1"},
      {"HSET", key, "g", "inf", "inf", "inf", "f", "inf"},
  };
  int baskets = 0;
  for (const std::vector<std::string>& change : changes) {
    SCOPED_TRACE(change[2] + change.back());
    node().Call({"DEL", key});
    EXPECT_NE(node().Call(change).type, '-');
    const int64_t before = boots();
    const auto shop = Process();
    Await("boots that are paid from the node's row", [&] {
      const auto held = shop->ReserveBasket({.lines = {{"boot", 1}, {"sneaker", 1}}, .request_id = Concat(++baskets)});
      EXPECT_TRUE(held.ok()) << held.status();
      return !held.ok() || boots() > before || !shop->Commit(held->id()).ok();
    });
    EXPECT_EQ(logged.exchange(0), 1) << "messages";
  }
  SetLogSink({});
}

TEST_F(FleetRedisTest, NodeRefusesCommands_SaleGoesOnAndUsesItAgain) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> states = {
      {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
      {{"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}},
      {{"ACL", "SETUSER", "default", "-@scripting"}, {"ACL", "SETUSER", "default", "+@scripting"}},
      {{"CONFIG", "SET", "min-replicas-to-write", "1"}, {"CONFIG", "SET", "min-replicas-to-write", "0"}},
  };
  const auto shop = FilledProcess(20'000, kBriefly);
  for (const auto& [refuse, accept] : states) {
    SCOPED_TRACE(refuse[1] + refuse[2]);
    EXPECT_EQ(node().Call(refuse).text, "OK");
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(Take(*shop).ok());
    EXPECT_EQ(node().Call(accept).text, "OK");
    AwaitPayment(*shop);
  }
  EXPECT_TRUE(shop->Health().ok());
}

TEST_F(FleetRedisTest, Metrics_TellWhatTheNodesAnswer) {
  MetricsRegistry registry;
  const auto count = [&](std::string_view metric, std::string_view label = "") {
    return testing::Exported(registry, Concat("stockade_inventory_fleet_", metric, "{inventory=\"shop\"", label, "}"));
  };
  std::string with_user = node().url();
  with_user.insert(with_user.find("://") + 3, "default:@");
  FleetInventoryOptions options = With({with_user}, kBriefly);
  options.name = "shop";
  options.metrics = &registry;
  const auto shop = Connect(std::move(options));
  ASSERT_TRUE(Add(*shop, 2'000).ok());
  AwaitFill(*shop);
  AwaitPayment(*shop);
  EXPECT_GE(count("node_fills_total"), 1);
  EXPECT_GE(count("node_takes_total", ",result=\"given\""), 1);
  EXPECT_GE(count("node_takes_total", ",result=\"empty\""), 1);

  const double away = count("node_takes_total", ",result=\"away\"");
  std::mutex mutex;
  std::vector<std::string> logged;
  SetLogSink([&](LogSeverity, std::string_view message) {
    const std::lock_guard lock(mutex);
    if (message.find("the Redis node") != message.npos) logged.emplace_back(message);
  });
  const std::string of_node = Concat(",node=\"", node().url(), "\"");
  node().Kill();
  SellUntil(*shop, "a node that is away", [&] { return count("nodes_away", of_node) == 1; });
  EXPECT_GT(count("node_takes_total", ",result=\"away\""), away);
  node().Restart();
  AwaitPayment(*shop);
  EXPECT_EQ(count("nodes_away", of_node), 0);
  SetLogSink(nullptr);
  ASSERT_EQ(logged.size(), 2U) << "once each";
  EXPECT_NE(logged[0].find(Concat(node().port(), " cannot be used")), std::string::npos) << logged[0];
  EXPECT_NE(logged[1].find(Concat(node().port(), " can be used again")), std::string::npos) << logged[1];

  const double unpaid = count("node_unpaid_total");
  SetCounter("n", 1'000'000);  // An old snapshot: it gives out more than its row has.
  SellUntil(*shop, "units that are not paid", [&] { return count("node_unpaid_total") > unpaid; });
}

// As if the process had ended between the commit and the fill.
TEST_F(FleetRedisTest, FillIsLost_ItsUnitsAreFound) {
  static RedisServer* server = nullptr;
  static std::atomic<bool> lost = false;
  server = &node();
  inventory_internal::fleet_pause = [](inventory_internal::FleetPause place) {
    if (place != inventory_internal::FleetPause::kBeforeFill || lost) return;
    server->Kill();
    lost = true;
  };
  const auto shop = Process(kBriefly);
  ASSERT_TRUE(Add(*shop, 100).ok());
  ASSERT_TRUE(Take(*shop).ok());
  Await("the loss", [&] { return lost.load(); });
  inventory_internal::fleet_pause = nullptr;
  EXPECT_EQ(OfNodes("units"), 49);
  node().Restart();
  SellOut(*shop);
}

// As after a restore of the ledger.
TEST_F(FleetRedisTest, NodeIsAheadOfTheLedger_ItsGenerationsAreSkipped) {
  const auto shop = FilledProcess(1000);
  SetGeneration(3);
  SellUntil(*shop, "a newer generation", [&] { return Counter("g") == 4; });
  EXPECT_EQ(OfNodes("fence"), 4);
  SetCounter("n", 0);
  SetCounter("f", 100);
  SellUntil(*shop, "a newer generation", [&] { return Counter("g") == 5; });
  AwaitPayment(*shop);
  SellOut(*shop);
}

TEST_F(FleetRedisTest, NodeIsTakenAway_OthersSellItsUnits) {
  auto shop = FilledProcess(1000);
  shop.reset();
  EXPECT_GT(OfNodes("units"), 0);
  const auto without = Connect();
  SellOut(*without);
  // A process that still has the node finds nothing more.
  const auto with = Process();
  EXPECT_EQ(RefusalOf(Take(*with)), Refusal::kSoldOut);
}

// Then a transaction that was rolled back costs the node nothing.
TEST_F(FleetRedisTest, PacketIsRolledBack_ItsUnitsPayTheNextOne) {
  const auto shop = FilledProcess(1000);
  AwaitPayment(*shop);
  const auto first = shop->Take({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(first.ok()) << first.status();
  const int64_t units = Counter("n");
  const int64_t sold = OfNodes("sold");
  EXPECT_EQ(shop->Take({.sku = "sneaker", .request_id = "a"})->id(), first->id());
  EXPECT_EQ(Counter("n"), units - 1);
  ASSERT_TRUE(Take(*shop).ok());
  EXPECT_EQ(Counter("n"), units - 1);
  EXPECT_EQ(OfNodes("sold"), sold + 1);
}

TEST_F(FleetRedisTest, BasketsAndEndsOfOrders_GoWithOtherUnits) {
  const auto shop = FilledProcess(1000);
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 10}).ok());
  AwaitPayment(*shop);
  const int64_t available = shop->Available("sneaker").value();
  const auto basket = shop->ReserveBasket({.lines = {{"lace", 2}, {"sneaker", 3}}, .request_id = "basket"});
  ASSERT_TRUE(basket.ok()) << basket.status();
  EXPECT_EQ(OfNodes("held"), 3);
  ASSERT_TRUE(shop->Cancel(basket->id()).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), available);
  const auto held = shop->Reserve({.sku = "sneaker", .quantity = 4, .request_id = "held"});
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(shop->Commit(held->id()).ok());
  SellOut(*shop);
}

TEST_F(FleetRedisTest, SkuIsRestockedReshardedAndRemoved_WithUnitsAtANode) {
  const auto shop = FilledProcess(1000);
  const int64_t available = shop->Available("sneaker").value();
  ASSERT_TRUE(shop->Restock({.sku = "sneaker", .quantity = 10, .request_id = "restock"}).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), available + 10);
  for (const int32_t shards : {3, 1, 2}) {
    ASSERT_TRUE(shop->Reshard("sneaker", shards).ok());
    EXPECT_EQ(OfNodes("units"), 0);
    EXPECT_EQ(shop->Snapshot("sneaker")->shards, shards);
    EXPECT_EQ(shop->Available("sneaker").value(), available + 10);
    for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  }
  AwaitFill(*shop);
  AwaitPayment(*shop);
  ASSERT_TRUE(shop->RemoveSku("sneaker").ok());
  EXPECT_EQ(RefusalOf(Take(*shop)), Refusal::kUnknownSku);
  EXPECT_EQ(shop->Figures("sneaker")->available, 0);
}

TEST_F(FleetRedisTest, SkuIsSoldOut_NodesAreLatchedAndFilledAgain) {
  FleetInventoryOptions options = With({node().url()});
  options.refusal_lease = absl::Milliseconds(50);
  const auto shop = Connect(options);
  ASSERT_TRUE(Add(*shop, 200).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .quantity = 100, .request_id = "held"});
  ASSERT_TRUE(held.ok()) << held.status();
  AwaitPayment(*shop);
  while (shop->Available("sneaker").value() > 0) ASSERT_TRUE(Take(*shop).ok());
  Await("the latch", [&] {
    EXPECT_EQ(RefusalOf(Take(*shop)), Refusal::kAllHeld);
    return Stock("latched", "TRUE") == 2;
  });
  for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  ASSERT_TRUE(shop->Cancel(held->id()).ok());
  Await("the units", [&] { return Take(*shop).ok(); });
  EXPECT_EQ(Stock("latched", "TRUE"), 0);
  AwaitPayment(*shop);
  SellOut(*shop);
}

TEST_F(FleetRedisTest, CounterGivesAllOrNothing_OfItsGeneration) {
  constexpr uint64_t kSku = 7;
  FleetInventoryOptions options = With({node().url()});
  options.name = options.fleet;
  const auto nodes = inventory_internal::ConnectFleetNodes(options, {{1'000'000, "node"}}).value();
  const std::string key = Concat("stockade:inv:{", fleet(), ":", kSku, "}:1000000");
  const auto take = [&](int64_t least_generation, int64_t units) {
    const inventory_internal::FleetDispenser::Want want{
        .sku = kSku, .least_generation = least_generation, .units = units};
    const auto got = nodes->Take(0, {&want, 1}).value().at(0);
    return std::vector<int64_t>{got.generation, got.units, got.left};
  };
  using Got = std::vector<int64_t>;
  EXPECT_EQ(take(0, 4), (Got{0, 0, 0}));
  EXPECT_EQ(take(3, 4), (Got{0, 0, 0}));
  EXPECT_EQ(node().Call({"EXISTS", key}).text, "0");

  ASSERT_TRUE(nodes->Fill(0, kSku, 2, 1, 10));
  EXPECT_EQ(take(0, 3), (Got{2, 3, 7}));
  EXPECT_EQ(take(2, 3), (Got{2, 3, 4}));
  EXPECT_EQ(take(2, 5), (Got{2, 0, 4}));
  EXPECT_EQ(take(1, 5), (Got{2, 0, 4}));
  EXPECT_EQ(take(3, 1), (Got{2, 0, 4}));
  EXPECT_EQ(take(1, 4), (Got{2, 4, 0}));
  EXPECT_EQ(take(2, 1), (Got{2, 0, 0}));

  EXPECT_TRUE(nodes->Fill(0, kSku, 2, 1, 10)) << "a repeat";
  EXPECT_EQ(take(2, 1), (Got{2, 0, 0}));
  EXPECT_TRUE(nodes->Fill(0, kSku, 2, 2, 10));
  EXPECT_EQ(take(2, 1), (Got{2, 1, 9}));
  EXPECT_TRUE(nodes->Fill(0, kSku, 3, 3, 5));
  EXPECT_EQ(take(2, 1), (Got{3, 1, 4})) << "the units of the older generation are gone";
  EXPECT_FALSE(nodes->Fill(0, kSku, 2, 4, 10));
  EXPECT_FALSE(nodes->Fill(0, kSku, 3, 2, 10));
  EXPECT_EQ(take(3, 4), (Got{3, 4, 0}));
  EXPECT_GT(std::stoll(node().Call({"PTTL", key}).text), 0);
}

TEST_F(FleetRedisTest, NodeIsACluster_OrASentinelSet) {
  testing::RedisCluster cluster;
  testing::SentinelSet sentinels;
  for (const std::string& url : {cluster.url(), sentinels.url()}) {
    const auto shop = Connect(With({url}));
    ASSERT_TRUE(shop->AddSku(url, {.stock = 100, .redis_segments = true}).ok());
    const int64_t before = OfNodes("sold");
    int taken = 0;
    Await("a payment from the node's row", [&] {
      EXPECT_TRUE(shop->Take({.sku = url, .request_id = Concat(url, ++taken)}).ok());
      return OfNodes("sold") > before;
    });
  }
}

// Nodes are emptied, rolled back, stopped and killed under load, and so is the server.
TEST_F(FleetRedisTest, NodesAndServerFailUnderLoad_EachUnitIsSoldOnce) {
  constexpr size_t kNodes = 3;
  constexpr int64_t kUnits = 2000;  // At first, and of each restock.
  const int64_t faults = std::max<int64_t>(testing::Scaled(20, 200), 5);
  std::minstd_rand random(static_cast<uint32_t>(testing::Seed()));
  std::array<RedisServer, kNodes> nodes;
  std::array<std::map<std::string, std::string>, kNodes> snapshots;
  std::vector<std::unique_ptr<Inventory>> shops;
  for (int process = 0; process < 3; ++process) {
    FleetInventoryOptions options = With({nodes[0].url(), nodes[1].url(), nodes[2].url()}, kBriefly);
    options.lanes = 2;
    options.retention = absl::Seconds(2);  // So that the audit has little to read.
    shops.push_back(Connect(options));
  }
  ASSERT_TRUE(Add(*shops[0], kUnits, 2).ok());

  std::atomic<bool> over = false;
  std::atomic<int64_t> sold = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2 * shops.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !over; ++i) {
        std::vector<TakeRequest> requests;
        for (int k = 0; k < 10; ++k) {
          requests.push_back({.sku = "sneaker", .quantity = 5 + k, .request_id = Concat(t, ".", i, ".", k)});
        }
        for (const auto& order : shops[t % shops.size()]->TakeMany(requests)) {
          if (order.ok()) {
            sold += order->quantity();
          } else {
            EXPECT_EQ(RefusalOf(order.status()), Refusal::kSoldOut) << order.status();
          }
        }
      }
    });
  }
  int64_t granted = kUnits;
  // Until so many units are sold.
  const auto sell = [&](int64_t units) {
    const int64_t end = sold + units;
    while (granted < end + kUnits) {
      EXPECT_TRUE(shops[0]->Restock("sneaker", kUnits).ok());
      granted += kUnits;
    }
    Await("sales", [&] { return sold >= end; });
  };
  for (int64_t fault = 0; fault < faults; ++fault) {
    const size_t at = random() % kNodes;
    RedisServer& node = nodes[at];
    switch (random() % 6) {
      case 0: node.Call({"FLUSHALL"}); break;
      case 1:
        for (const testing::RawReply& key : node.Call({"KEYS", "*"}).items) {
          snapshots[at][key.text] = node.Call({"DUMP", key.text}).text;
        }
        break;
      case 2:
        for (const auto& [key, dump] : snapshots[at]) {
          if (!dump.empty()) node.Call({"RESTORE", key, "0", dump, "REPLACE"});
        }
        break;
      case 3:
        node.Pause();
        sell(500);
        node.Resume();
        break;
      case 4:
        node.Kill();
        sell(500);
        node.Restart();
        break;
      case 5:
        server().Kill();
        server().Restart();
        break;
    }
    sell(500);
    for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  const int64_t left = shops[0]->Available("sneaker").value();
  EXPECT_EQ(sold + left, granted);
  EXPECT_GT(OfNodes("sold"), 0);
  EXPECT_GT(Stock("fence", "TRUE"), 1) << "no generation has ended";
  if (left > 0) {
    EXPECT_TRUE(Take(*shops[1], left).ok());
  }
  EXPECT_EQ(RefusalOf(Take(*shops[2])), Refusal::kSoldOut);
}

TEST_F(FleetRedisTest, OptionsThatDoNotFit_AreInvalid) {
  const auto without = Connect();
  EXPECT_TRUE(absl::IsInvalidArgument(Add(*without, 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(without->EnsureSku("sneaker", {.redis_segments = true})));
  Inventory local;
  EXPECT_TRUE(absl::IsInvalidArgument(Add(local, 1)));
  const auto with = Process();
  ASSERT_TRUE(Add(*with, 1).ok());
  EXPECT_TRUE(without->EnsureSku("sneaker", {}).ok()) << "as it was added";

  const auto check = [&](std::vector<std::string> nodes) { return With(std::move(nodes)).Validate(); };
  EXPECT_TRUE(check({"redis://one", "redis://two"}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(check({"http://one"})));
  EXPECT_TRUE(absl::IsInvalidArgument(check({"redis://one", "redis://one"})));
  EXPECT_TRUE(absl::IsInvalidArgument(check({"redis://:a@one", "redis://:b@one"}))) << "the same but for passwords";
  EXPECT_TRUE(absl::IsInvalidArgument(check({"redis://" + std::string(1100, 'a')})));
  EXPECT_TRUE(absl::IsInvalidArgument(check(std::vector<std::string>(65, "redis://one"))));
  EXPECT_TRUE(absl::IsInvalidArgument(With({"redis://one"}, absl::ZeroDuration()).Validate()));
}

TEST_F(FleetRedisTest, NodesHaveNumbersThatStay) {
  const RedisServer other;
  (void)Connect(With({node().url(), other.url()}));
  (void)Connect(With({other.url()}));
  EXPECT_EQ(server().Value(Concat("SELECT GROUP_CONCAT(node_id,'=',name ORDER BY node_id) FROM ", Table("nodes"))),
            Concat("0=", node().url(), ",1=", other.url()));
}

}  // namespace
}  // namespace stockade

#include <algorithm>
#include <future>
#include <new>
#include <set>
#include <thread>

#include "inventory/fleet/fleet_test.h"
#include "stockade/base/executor.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"
#include "support/exported.h"

namespace stockade {
namespace {

using base_internal::Concat;

class FleetInventoryTest : public testing::FleetTest {};

TEST_F(FleetInventoryTest, UnitsAreSoldOnceInTwoProcesses) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_EQ(one->EnsureSku("sneaker", {.stock = 3}), absl::OkStatus());
  ASSERT_EQ(two->EnsureSku("sneaker", {.stock = 3}), absl::OkStatus());
  const auto first = one->Take({.sku = "sneaker", .quantity = 2, .request_id = "a"});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->state(), OrderState::kSold);
  const auto again = two->Take({.sku = "sneaker", .quantity = 2, .request_id = "a"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, *first);
  EXPECT_EQ(RefusalOf(two->Take({.sku = "sneaker", .quantity = 2, .request_id = "b"}).status()), Refusal::kSoldOut);
  EXPECT_EQ(RefusalOf(two->Take({.sku = "sneaker", .quantity = 1, .request_id = "a"}).status()),
            Refusal::kRequestMismatch);
  EXPECT_EQ(RefusalOf(two->Take({.sku = "boot", .request_id = "c"}).status()), Refusal::kUnknownSku);
  EXPECT_TRUE(two->Take({.sku = "sneaker", .request_id = "d"}).ok());
  const auto figures = one->Figures("sneaker");
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->granted, 3);
  EXPECT_EQ(figures->available, 0);
  EXPECT_EQ(figures->sold, 3);
}

TEST_F(FleetInventoryTest, ReservationsEndOnceInAnyProcess) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_EQ(one->AddSku("sneaker", {.stock = 4, .shards = 2, .per_buyer_limit = 2}), absl::OkStatus());
  const auto held = one->Reserve({.sku = "sneaker", .quantity = 2, .request_id = "a", .buyer = "ann"});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(held->state(), OrderState::kHeld);
  EXPECT_EQ(RefusalOf(two->Reserve({.sku = "sneaker", .request_id = "b", .buyer = "ann"}).status()),
            Refusal::kBuyerLimit);
  EXPECT_EQ(RefusalOf(two->Reserve({.sku = "sneaker", .quantity = 3, .request_id = "c"}).status()), Refusal::kInvalid);
  EXPECT_EQ(two->Commit(held->id()), absl::OkStatus());
  EXPECT_EQ(one->Commit(held->id()), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(one->Cancel(held->id())));
  EXPECT_EQ(two->StateOf(held->id()).value(), OrderState::kSold);
  EXPECT_TRUE(absl::IsNotFound(two->StateOf(77).status()));
  const auto other = two->Reserve({.sku = "sneaker", .quantity = 2, .request_id = "d", .buyer = "bob"});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(RefusalOf(one->Take({.sku = "sneaker", .request_id = "e", .buyer = "eve"}).status()), Refusal::kAllHeld);
  EXPECT_EQ(one->Cancel(other->id()), absl::OkStatus());
  EXPECT_EQ(two->Cancel(other->id()), absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(two->Commit(other->id())));
  EXPECT_EQ(one->Available("sneaker").value(), 2);
}

TEST_F(FleetInventoryTest, ExpiresByTheDatabasesClock) {
  const auto shop = Connect();
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 1}), absl::OkStatus());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Milliseconds(1)});
  ASSERT_TRUE(held.ok()) << held.status();
  testing::Await("the expiry", [&] { return shop->Available("sneaker").value() == 1; });
  EXPECT_EQ(shop->StateOf(held->id()).value(), OrderState::kExpired);
  const auto again = shop->Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::Milliseconds(1)});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state(), OrderState::kExpired);
}

TEST_F(FleetInventoryTest, BasketsRestocksReshardAndRemoval) {
  const auto shop = Connect();
  ASSERT_EQ(shop->AddSku("a", {.stock = 5}), absl::OkStatus());
  ASSERT_EQ(shop->AddSku("b", {.stock = 1, .shards = 4}), absl::OkStatus());
  const auto basket = shop->ReserveBasket({.lines = {{"b", 1}, {"a", 1}, {"a", 1}}, .request_id = "1"});
  ASSERT_TRUE(basket.ok()) << basket.status();
  EXPECT_EQ(basket->lines(), (std::vector<OrderLine>{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(RefusalOf(shop->ReserveBasket({.lines = {{"a", 1}, {"b", 1}}, .request_id = "2"}).status()),
            Refusal::kAllHeld);
  EXPECT_EQ(shop->Available("a").value(), 3);
  EXPECT_EQ(shop->Restock({.sku = "b", .quantity = 10, .request_id = "r"}), absl::OkStatus());
  EXPECT_EQ(shop->Restock({.sku = "b", .quantity = 10, .request_id = "r"}), absl::OkStatus());
  EXPECT_EQ(shop->Available("b").value(), 10);
  EXPECT_TRUE(absl::IsAlreadyExists(shop->Restock({.sku = "b", .quantity = 9, .request_id = "r"})));
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "b", .request_id = "r"}).status()), Refusal::kRequestMismatch);
  EXPECT_EQ(shop->Reshard("b", 3), absl::OkStatus());
  EXPECT_EQ(shop->Reshard("b", 3), absl::OkStatus()) << "as it is already";
  EXPECT_EQ(shop->Snapshot("b")->shard_units, (std::vector<int64_t>{4, 3, 3}));
  EXPECT_TRUE(shop->Take({.sku = "b", .quantity = 8, .request_id = "3"}).ok()) << "merges the segments";
  EXPECT_EQ(shop->RemoveSku("b"), absl::OkStatus());
  EXPECT_EQ(shop->Cancel(basket->id()), absl::OkStatus());
  const auto figures = shop->Figures("b");
  EXPECT_EQ(figures->granted, 8);
  EXPECT_EQ(figures->available, 0);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "b", .request_id = "4"}).status()), Refusal::kUnknownSku);
  EXPECT_TRUE(absl::IsAlreadyExists(shop->EnsureSku("b", {.stock = 1})));
  ASSERT_EQ(shop->Snapshot().size(), 1);
  EXPECT_EQ(shop->Snapshot()[0].available, 5);
}

TEST_F(FleetInventoryTest, ManyThreadsOfTwoProcessesSellWhatThereIs) {
  constexpr int kUnits = 2000;
  const std::unique_ptr<Inventory> shops[] = {Connect(), Connect()};
  ASSERT_TRUE(shops[0]->AddSku("sneaker", {.stock = kUnits, .shards = 4}).ok());
  EXPECT_EQ(SoldByThreads(*shops[0], *shops[1]), kUnits);
}

TEST_F(FleetInventoryTest, ProcessesPayFromDifferentSegments) {
  const auto first = Connect();
  ASSERT_EQ(first->AddSku("sneaker", {.stock = 16'000, .shards = 16}), absl::OkStatus());
  for (int process = 0; process < 10; ++process) {
    FleetInventoryOptions options = Options();
    options.lanes = 1;
    ASSERT_TRUE(Connect(options)->Take({.sku = "sneaker", .request_id = Concat(process)}).ok());
  }
  // That ten processes have the same two segments by chance is one in 2^27.
  EXPECT_GT(server().Query("SELECT segment FROM " + Table("stock") + " WHERE sold>0").size(), 2u);
}

TEST_F(FleetInventoryTest, ServerThatLogsStatements_IsRefused) {
  server().Query("SET GLOBAL binlog_format='STATEMENT'");
  const auto shop = FleetInventory::Connect(Options());
  server().Query("SET GLOBAL binlog_format='MIXED'");
  EXPECT_TRUE(absl::IsFailedPrecondition(shop.status())) << shop.status();
  EXPECT_NE(shop.status().message().find("binlog_format"), std::string_view::npos);
}

TEST_F(FleetInventoryTest, ProcessNeedsOnlyPrivilegesOnRows) {
  server().Query("CREATE USER clerk@'127.0.0.1' IDENTIFIED BY 'secret'");
  server().Query("GRANT SELECT, INSERT, UPDATE, DELETE ON test.* TO clerk@'127.0.0.1'");
  FleetInventoryOptions options = Options();
  options.ledger = Concat("mysql://clerk:secret@127.0.0.1:", server().port(), "/test");
  const auto shop = Connect(options);
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 9, .shards = 2, .per_buyer_limit = 5}), absl::OkStatus());
  const auto held = shop->Reserve({.sku = "sneaker", .quantity = 5, .request_id = "a", .buyer = "ann"});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(shop->Cancel(held->id()), absl::OkStatus());
  EXPECT_EQ(shop->Reshard("sneaker", 3), absl::OkStatus());
  EXPECT_EQ(shop->RemoveSku("sneaker"), absl::OkStatus());
  options.fleet = "another";
  EXPECT_TRUE(absl::IsPermissionDenied(FleetInventory::Migrate(options))) << FleetInventory::Migrate(options);
}

TEST_F(FleetInventoryTest, UserLacksARight_ConnectNamesIt) {
  struct Right {
    const char* table;
    const char* right;
  };
  constexpr Right kNeeded[] = {
      {"fleet", "SELECT"},       {"fleet", "UPDATE"},     {"lanes", "SELECT"},       {"lanes", "INSERT"},
      {"lanes", "UPDATE"},       {"skus", "SELECT"},      {"skus", "INSERT"},        {"skus", "UPDATE"},
      {"stock", "SELECT"},       {"stock", "INSERT"},     {"stock", "UPDATE"},       {"stock", "DELETE"},
      {"requests", "SELECT"},    {"requests", "INSERT"},  {"orders", "SELECT"},      {"orders", "INSERT"},
      {"orders", "UPDATE"},      {"orders", "DELETE"},    {"order_lines", "SELECT"}, {"order_lines", "INSERT"},
      {"order_lines", "DELETE"}, {"buyers", "SELECT"},    {"buyers", "INSERT"},      {"buyers", "UPDATE"},
      {"buyers", "DELETE"},      {"forgotten", "SELECT"}, {"changes", "SELECT"},     {"changes", "INSERT"},
      {"changes", "DELETE"}};
  server().Query("CREATE USER novice@'127.0.0.1' IDENTIFIED BY 'secret'");
  FleetInventoryOptions options = Options();
  options.ledger = Concat("mysql://novice:secret@127.0.0.1:", server().port(), "/test");
  const auto change = [&](const char* verb, const Right& right, const char* preposition) {
    server().Query(Concat(verb, " ", right.right, " ON ", Table(right.table), preposition, "novice@'127.0.0.1'"));
  };
  for (const Right& right : kNeeded) change("GRANT", right, " TO ");
  EXPECT_NE(Connect(options), nullptr) << "it needs no other right";
  for (const Right& right : kNeeded) {
    change("REVOKE", right, " FROM ");
    const absl::Status status = FleetInventory::Connect(options).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << right.table << " " << right.right << ": " << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(Concat(right.right, " command denied")));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(Concat(fleet(), "_", right.table)));
    change("GRANT", right, " TO ");
  }
}

TEST_F(FleetInventoryTest, SessionClockStandsStill_IsRefused) {
  server().Query("SET GLOBAL init_connect='SET timestamp=1700000000'");
  const absl::Status status = FleetInventory::Connect(Options()).status();
  server().Query("SET GLOBAL init_connect=''");
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("init_connect is 'SET timestamp=1700000000'"));
  EXPECT_TRUE(FleetInventory::Connect(Options()).ok());
}

TEST_F(FleetInventoryTest, RetentionBelowASecond_IsInvalid) {
  FleetInventoryOptions options = Options();
  options.retention = absl::Seconds(1) - absl::Nanoseconds(1);
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));
  options.retention = absl::Seconds(1);
  EXPECT_TRUE(options.Validate().ok());
}

TEST_F(FleetInventoryTest, UnitsAreInOtherSegments_TheFirstPacketMergesThem) {
  ASSERT_EQ(Connect()->AddSku("sneaker", {.stock = 4, .shards = 2}), absl::OkStatus());
  const auto shop = Connect();
  const auto order = shop->Take({.sku = "sneaker", .quantity = 4, .request_id = "a"});
  ASSERT_TRUE(order.ok()) << order.status();
  // A lane counts its packets, those too that were rolled back and followed by another one.
  EXPECT_EQ(server().Value(Concat("SELECT batch FROM ", Table("lanes"), " WHERE lane_id=", order->id() >> 32)), "1");
}

TEST_F(FleetInventoryTest, DamagedRowsStopNoOtherCall) {
  tables_are_damaged_ = true;
  const auto shop = Connect();
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 100, .per_buyer_limit = 50}), absl::OkStatus());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .quantity = 1, .request_id = "a", .buyer = "ann"}).ok());
  ASSERT_TRUE(shop->Reserve({.sku = "sneaker", .quantity = 1, .request_id = "b", .buyer = "bob"}).ok());
  const OrderId held = shop->Reserve({.sku = "sneaker", .quantity = 1, .request_id = "c", .buyer = "eve"})->id();
  server().Query("UPDATE " + Table("buyers") + " SET most=units WHERE units=1");
  std::vector<TakeRequest> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back(
        {.sku = "sneaker", .request_id = Concat("r", i), .buyer = i % 8 == 0 ? "ann" : Concat("buyer", i)});
  }
  const auto orders = shop->TakeMany(requests);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(RefusalOf(orders[static_cast<size_t>(i)].status()), i % 8 == 0 ? Refusal::kUnavailable : Refusal::kNone)
        << i << ": " << orders[static_cast<size_t>(i)].status();
  }
  server().Query("DELETE FROM " + Table("buyers") + " WHERE units=1 AND most=1");
  EXPECT_EQ(RefusalOf(shop->Cancel(held)), Refusal::kUnavailable);
  EXPECT_NE(shop->Cancel(held).message().find("fleet_audit.sql"), std::string_view::npos);
  EXPECT_TRUE(shop->Health().ok());
}

TEST_F(FleetInventoryTest, ReadsOfADamagedSku_SayThatItIs) {
  tables_are_damaged_ = true;
  const auto shop = Connect();
  for (const char* const sku : {"sneaker", "boot"}) ASSERT_TRUE(shop->AddSku(sku, {.stock = 9}).ok());
  const std::string of_sneaker = " WHERE sku_id=(SELECT sku_id FROM " + Table("skus") + " WHERE sku='sneaker')";
  for (const std::string& damage :
       {"SET STATEMENT check_constraint_checks=0 FOR UPDATE " + Table("stock") + " SET units=-1" + of_sneaker,
        "DELETE FROM " + Table("stock") + of_sneaker}) {
    server().Query(damage);
    for (const absl::Status& read :
         {shop->Available("sneaker").status(), shop->Figures("sneaker").status(), shop->Snapshot("sneaker").status()}) {
      EXPECT_EQ(RefusalOf(read), Refusal::kUnavailable) << damage << ": " << read;
      EXPECT_NE(read.message().find("the ledger is damaged: 'sneaker' has "), std::string_view::npos) << read;
      EXPECT_EQ(read.message().find("changed"), std::string_view::npos) << read;
    }
    EXPECT_EQ(shop->Available("boot").value(), 9);
    EXPECT_EQ(shop->Snapshot().size(), 2U);
  }
}

TEST_F(FleetInventoryTest, BasketsAndExtendedOrders_AreFoundByAnyProcess) {
  const auto one = Connect();
  const auto two = Connect();
  std::vector<OrderLine> lines;
  for (int i = 0; i < 40; ++i) {
    lines.push_back({Concat("sku", 10 + i), i + 1});
    ASSERT_TRUE(one->AddSku(lines.back().sku, {.stock = 100}).ok());
  }
  const auto basket =
      one->ReserveBasket({.lines = {lines.rbegin(), lines.rend()}, .request_id = "a", .ttl = absl::Minutes(10)});
  ASSERT_TRUE(basket.ok()) << basket.status();
  const auto extended = one->Extend({.order = basket->id(), .ttl = absl::Minutes(20)});
  ASSERT_TRUE(extended.ok()) << extended.status();
  OrderInfo wanted{.id = basket->id(), .request_id = "a", .expires_at = *extended};
  for (const OrderLine& line : lines) wanted.lines.push_back({.sku = line.sku, .quantity = line.quantity});
  EXPECT_EQ(two->FindByRequest("a").value(), wanted);
  wanted.request_id.clear();  // The tables have a hash of it.
  EXPECT_EQ(two->Find(basket->id()).value(), wanted);
  const auto endless = one->Reserve({.sku = "sku10", .request_id = "b", .ttl = absl::InfiniteDuration()});
  EXPECT_EQ(two->Find(endless->id())->expires_at, absl::InfiniteFuture());
  ASSERT_TRUE(two->Commit(basket->id()).ok());
  EXPECT_EQ(one->Find(basket->id())->state, OrderState::kSold);
  EXPECT_EQ(one->Find(basket->id())->expires_at, absl::InfiniteFuture());
}

TEST_F(FleetInventoryTest, CallbackWithinTheDestructor_FindsItUnavailable) {
  auto owner = Connect();
  Inventory& shop = *owner;
  ASSERT_TRUE(shop.AddSku("sneaker", {.stock = 9}).ok());
  InlineExecutor executor;
  std::vector<absl::Status> within;
  shop.TakeAsync({.sku = "sneaker", .request_id = "a"}, executor, [&](const auto& order) {
    EXPECT_TRUE(order.ok()) << order.status();
    while (shop.Health().ok()) std::this_thread::yield();  // Until no lane is left.
    within.push_back(shop.Take({.sku = "sneaker", .request_id = "b"}).status());
    within.push_back(shop.Find(order->id()).status());
    shop.FindAsync({.request_id = "a"}, executor, [&](const auto& found) { within.push_back(found.status()); });
  });
  owner.reset();
  ASSERT_EQ(within.size(), 3U);
  for (const absl::Status& status : within) EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
}

TEST_F(FleetInventoryTest, RowOfTheFleetIsMissing_MigrateMakesNoOtherFleet) {
  tables_are_damaged_ = true;
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  server().Query(Concat("CREATE TABLE ", Table("copy"), " AS SELECT * FROM ", Table("fleet")));
  server().Query("DELETE FROM " + Table("fleet"));
  const absl::Status migrated = FleetInventory::Migrate(Options());
  EXPECT_TRUE(absl::IsFailedPrecondition(migrated)) << migrated;
  EXPECT_NE(migrated.message().find("restore it"), std::string_view::npos) << migrated;
  EXPECT_TRUE(absl::IsFailedPrecondition(FleetInventory::Connect(Options()).status()));
  server().Query(Concat("INSERT INTO ", Table("fleet"), " SELECT * FROM ", Table("copy")));
  EXPECT_TRUE(FleetInventory::Migrate(Options()).ok());
  EXPECT_EQ(Connect()->Available("sneaker").value(), 9);
}

TEST_F(FleetInventoryTest, FindOfADamagedOrder_SaysThatItIs) {
  tables_are_damaged_ = true;
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  const OrderId order = shop->Take({.sku = "sneaker", .request_id = "a"})->id();
  for (const std::string& damage : {"DELETE FROM " + Table("skus"), "UPDATE " + Table("orders") + " SET quantity=0"}) {
    server().Query("SET STATEMENT check_constraint_checks=0 FOR " + damage);
    for (const absl::Status& found : {shop->Find(order).status(), shop->FindByRequest("a").status()}) {
      EXPECT_EQ(RefusalOf(found), Refusal::kUnavailable) << found;
      EXPECT_NE(found.message().find("the ledger is damaged: order "), std::string_view::npos) << found;
    }
  }
}

TEST_F(FleetInventoryTest, ExecutorHasNoMemoryForTheAnswer_DoneIsInvokedAllTheSame) {
  class NoMemory : public Executor {
   public:
    void Schedule(Task) override { throw std::bad_alloc(); }
  } executor;
  const auto shop = Connect();
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 1}), absl::OkStatus());
  std::promise<absl::Status> answer;
  shop->TakeAsync({.sku = "sneaker", .request_id = "a"}, executor,
                  [&](absl::StatusOr<Order> order) { answer.set_value(order.status()); });
  EXPECT_EQ(answer.get_future().get(), absl::OkStatus());
}

// A process that exports what is in stock.
struct Exporter {
  double Value(const std::string& metric, const std::string& labels = "") const {
    return testing::Exported(*registry, Concat("stockade_inventory_", metric, "{inventory=\"shop\"", labels, "}"));
  }
  std::unique_ptr<MetricsRegistry> registry = std::make_unique<MetricsRegistry>();
  std::unique_ptr<Inventory> shop = nullptr;
};

class FleetStockMetricsTest : public FleetInventoryTest {
 protected:
  Exporter NewExporter(int32_t sku_metrics) const {
    Exporter exporter;
    FleetInventoryOptions options = Options();
    options.name = "shop";
    options.metrics = exporter.registry.get();
    options.sku_metrics = sku_metrics;
    exporter.shop = Connect(std::move(options));
    return exporter;
  }
};

TEST_F(FleetStockMetricsTest, OneProcessAtATimeExportsWhatAllHaveInStock) {
  auto shop = Connect();
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 7, .shards = 2}), absl::OkStatus());
  ASSERT_EQ(shop->AddSku("boot", {.stock = 5, .per_buyer_limit = 2}), absl::OkStatus());
  ASSERT_EQ(shop->AddSku("sandal", {.stock = 3}), absl::OkStatus());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "a"}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sandal", .quantity = 1, .request_id = "b"}).ok());
  ASSERT_TRUE(shop->Reserve({.sku = "boot", .request_id = "c", .buyer = "ann"}).ok());
  ASSERT_EQ(shop->RemoveSku("sandal"), absl::OkStatus());
  shop.reset();
  server().Query("UPDATE " + Table("fleet") + " SET janitor_until=0");
  const Exporter one = NewExporter(2);
  const auto exports = [](const Exporter& of) { return of.Value("available_units") >= 0; };
  testing::Await("the metrics", [&] { return exports(one); });
  const Exporter two = NewExporter(1);
  const auto has_all = [&](const Exporter& of) {
    return of.Value("available_units") == 9 && of.Value("held_units") == 1 && of.Value("sold_units") == 3 &&
           of.Value("oversold_units") == 0 && of.Value("over_limit_buyers") == 0;
  };
  EXPECT_TRUE(has_all(one));
  EXPECT_FALSE(exports(two));
  EXPECT_EQ(two.Value("oversold_units"), -1);
  for (const auto& [sku, available, held, sold] : {std::tuple("sneaker", 5, 0, 2), std::tuple("boot", 4, 1, 0)}) {
    const std::string label = Concat(",sku=\"", sku, "\"");
    EXPECT_EQ(one.Value("sku_available_units", label), available);
    EXPECT_EQ(one.Value("sku_held_units", label), held);
    EXPECT_EQ(one.Value("sku_sold_units", label), sold);
    EXPECT_EQ(two.Value("sku_sold_units", label), -1);
  }
  // A third one does the upkeep for a while, and then one of the two.
  server().Query("UPDATE " + Table("fleet") +
                 " SET janitor=1,janitor_until=TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))+5000000");
  testing::Await("the end of the series", [&] { return !exports(one) && !exports(two); });
  EXPECT_EQ(one.Value("sku_sold_units", ",sku=\"sneaker\""), -1);
  testing::Await("new ones", [&] { return exports(one) || exports(two); });
  const Exporter& next = exports(one) ? one : two;
  EXPECT_TRUE(has_all(next));
  EXPECT_FALSE(exports(one) && exports(two));
  int series = 0;
  for (const char* const sku : {"sneaker", "boot"}) {
    series += next.Value("sku_sold_units", Concat(",sku=\"", sku, "\"")) >= 0;
  }
  EXPECT_EQ(series, &next == &one ? 2 : 1) << "sku_metrics";
}

TEST_F(FleetStockMetricsTest, OversoldUnitsAndBuyersOverTheirLimit_AreCounted) {
  tables_are_damaged_ = true;
  {
    const auto shop = Connect();
    ASSERT_EQ(shop->AddSku("sneaker", {.stock = 7, .per_buyer_limit = 2}), absl::OkStatus());
    for (const char* const buyer : {"ann", "bob", "eve"}) {
      ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = buyer, .buyer = buyer}).ok());
    }
  }
  server().Query("UPDATE " + Table("stock") + " SET sold=10");
  server().Query("SET STATEMENT check_constraint_checks=0 FOR UPDATE " + Table("buyers") + " SET units=3 LIMIT 2");
  server().Query("UPDATE " + Table("fleet") + " SET janitor_until=0");
  const Exporter exporter = NewExporter(0);
  testing::Await("the metrics", [&] { return exporter.Value("oversold_units") >= 0; });
  EXPECT_EQ(exporter.Value("oversold_units"), 3);
  EXPECT_EQ(exporter.Value("over_limit_buyers"), 2);
}

TEST_F(FleetInventoryTest, AnswersAsyncCallsOnTheirExecutor) {
  const auto shop = Connect();
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 5}), absl::OkStatus());
  InlineExecutor inline_executor;
  std::promise<absl::Status> committed;
  shop->ReserveAsync({.sku = "sneaker", .request_id = "a"}, inline_executor, [&](absl::StatusOr<Reservation> held) {
    committed.set_value(held.ok() ? shop->Commit(held->id()) : held.status());
  });
  EXPECT_TRUE(committed.get_future().get().ok());
}

}  // namespace
}  // namespace stockade

// Refusals of SKUs that are sold out: without the ledger, and true. The clock is the tests' own.

#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "inventory/fleet/fleet_faults_test.h"
#include "stockade/base/manual_clock.h"
#include "support/await.h"
#include "support/exported.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::FleetFaultsTest;
using testing::TextOf;

constexpr absl::Duration kLease = absl::Seconds(2);
const absl::Duration kWait = kLease * 1.1;

class FleetRefusalsTest : public FleetFaultsTest {
 protected:
  FleetInventoryOptions Leased(std::string name) {
    FleetInventoryOptions options = Options();
    options.name = std::move(name);
    options.refusal_lease = kLease;
    options.clock = &clock_;
    options.metrics = &registry_;
    return options;
  }
  std::unique_ptr<Inventory> Process(std::string name) { return Connect(Leased(std::move(name))); }

  int64_t Count(std::string_view metric, const std::string& process, std::string_view label = "") const {
    return static_cast<int64_t>(testing::Exported(
        registry_, Concat("stockade_inventory_fleet_", metric, "{inventory=\"", process, "\"", label, "}")));
  }
  int64_t RefusedByLease(const std::string& process) const { return Count("refusals_total", process, ",by=\"lease\""); }
  static Refusal Wanted(Inventory& shop, const std::string& id, int64_t quantity = 1) {
    return RefusalOf(shop.Take({.sku = "sneaker", .quantity = quantity, .request_id = id}).status());
  }
  // Until the process refuses without the ledger.
  void AwaitLease(Inventory& shop, const std::string& process, Refusal refusal = Refusal::kSoldOut) {
    const int64_t before = RefusedByLease(process);
    Await("a refusal by a lease", [&] {
      EXPECT_EQ(Wanted(shop, "nobody"), refusal);
      return RefusedByLease(process) > before;
    });
  }
  std::string Sku(std::string_view column) const {
    return server().Value(Concat("SELECT ", column, " FROM ", Table("skus"), " WHERE sku='sneaker'"));
  }
  // Its lanes wait, for nothing but time.
  void Pass(absl::Duration time) { clock_.Advance(time); }

  ManualClock clock_;
  MetricsRegistry registry_;
};

TEST_F(FleetRefusalsTest, SkuIsSoldOut_RequestsAreRefusedWithoutTheLedger) {
  FleetInventoryOptions options = Leased("one");
  options.ledger = ByProxy().ledger;
  const auto one = Connect(options);
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 2}).ok());
  const auto first = one->Take({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(one->Take({.sku = "sneaker", .request_id = "b"}).ok());
  AwaitLease(*one, "one");
  EXPECT_EQ(Count("latches_total", "one"), 1);
  EXPECT_EQ(Count("leased_skus", "one"), 1);
  // A request that took units gets its first answer.
  EXPECT_EQ(one->Take({.sku = "sneaker", .request_id = "a"})->id(), first->id());
  proxy().Hold();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Wanted(*one, Concat("late", i)), Refusal::kSoldOut);
  EXPECT_EQ(RefusalOf(one->ReserveBasket({.lines = {{"lace", 1}, {"sneaker", 1}}, .request_id = "basket"}).status()),
            Refusal::kSoldOut);
  proxy().Release();
  // A lease that nobody has renewed is over.
  const int64_t by_ledger = Count("refusals_total", "one", ",by=\"ledger\"");
  Pass(40 * kLease);
  Await("the lease to be forgotten", [&] { return Count("leased_skus", "one") == 0; });
  EXPECT_EQ(Wanted(*one, "later"), Refusal::kSoldOut);
  EXPECT_EQ(Count("refusals_total", "one", ",by=\"ledger\""), by_ledger + 1);
}

// Of one id, each request waits for the answer to the one before.
TEST_F(FleetRefusalsTest, OneIdManyTimesInACall_AllAreRefusedByTheLease) {
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 0}).ok());
  AwaitLease(*one, "one");
  const std::vector<TakeRequest> requests(50'000, {.sku = "sneaker", .request_id = "same"});
  size_t sold_out = 0;
  for (const auto& order : one->TakeMany(requests)) sold_out += RefusalOf(order.status()) == Refusal::kSoldOut;
  EXPECT_EQ(sold_out, requests.size());
}

TEST_F(FleetRefusalsTest, RequestsAskAllTheTime_TheLeaseIsRenewed) {
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 0}).ok());
  AwaitLease(*one, "one");
  const std::string epoch = Sku("epoch");
  for (int i = 0; i < 10; ++i) {
    // Before the lease is due: one that nobody has asked for then waits for more of this clock's time.
    EXPECT_EQ(Wanted(*one, "nobody"), Refusal::kSoldOut);
    Pass(kLease / 2);
    Await("the renewal", [&] {
      return testing::Exported(registry_, "stockade_inventory_fleet_lease_age_seconds{inventory=\"one\"}") <
             absl::ToDoubleSeconds(kLease / 2);
    });
  }
  EXPECT_EQ(Sku("epoch"), epoch);
}

TEST_F(FleetRefusalsTest, OrderIsCancelled_UnitsAreForSaleWhenAllLeasesHaveEnded) {
  const auto one = Process("one");
  const auto two = Process("two");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 3, .shards = 2}).ok());
  const auto held = one->Reserve({.sku = "sneaker", .quantity = 2, .request_id = "a"});
  const auto more = two->Reserve({.sku = "sneaker", .request_id = "b"});
  ASSERT_TRUE(held.ok() && more.ok()) << held.status() << more.status();
  AwaitLease(*one, "one", Refusal::kAllHeld);
  AwaitLease(*two, "two", Refusal::kAllHeld);
  const std::string epoch = Sku("epoch");
  ASSERT_TRUE(one->Cancel(held->id()).ok());
  EXPECT_EQ(Sku("limbo"), "2");
  EXPECT_EQ(one->Figures("sneaker")->held, 3) << "not for sale yet, and not sold";
  EXPECT_EQ(Count("limbo_units", "one"), 2);
  Pass(kWait - absl::Milliseconds(1));
  EXPECT_EQ(Wanted(*one, "c"), Refusal::kAllHeld);
  EXPECT_EQ(Wanted(*two, "d"), Refusal::kAllHeld);
  // What comes back meanwhile does not wait for as long again.
  ASSERT_TRUE(two->Cancel(more->id()).ok());
  EXPECT_EQ(Sku("limbo"), "3");
  Pass(absl::Milliseconds(1));
  Await("the units", [&] { return two->Available("sneaker").value() == 3; });
  EXPECT_EQ(Wanted(*two, "d", 3), Refusal::kNone);
  EXPECT_EQ(Sku("epoch"), epoch);
}

TEST_F(FleetRefusalsTest, Restock_ReturnsWhenItsUnitsAreForSale) {
  const auto one = Process("one");
  const auto two = Process("two");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 0}).ok());
  AwaitLease(*one, "one");
  AwaitLease(*two, "two");
  std::atomic<int> returned = 0;
  std::vector<std::thread> threads;
  // The second one is a repeat.
  for (Inventory* const shop : {one.get(), two.get()}) {
    threads.emplace_back([&, shop] {
      EXPECT_TRUE(shop->Restock({.sku = "sneaker", .quantity = 4, .request_id = "restock"}).ok());
      // Then every process finds its units.
      EXPECT_EQ(Wanted(*one, Concat("one", ++returned)), Refusal::kNone);
      EXPECT_EQ(Wanted(*two, Concat("two", returned.load())), Refusal::kNone);
    });
  }
  Await("the deposit", [&] { return Sku("limbo") == "4"; });
  EXPECT_NE(Wanted(*two, "early"), Refusal::kNone);
  EXPECT_EQ(returned, 0);
  Await("the restock", [&] {
    Pass(absl::Milliseconds(50));  // The second one may have seen the units in limbo later.
    return returned == 2;
  });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(FleetRefusalsTest, ProcessThatPutUnitsIntoLimboEnds_AnotherOneMovesThem) {
  auto one = Process("one");
  const auto two = Process("two");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 1}).ok());
  const auto held = one->Reserve({.sku = "sneaker", .request_id = "a"});
  AwaitLease(*two, "two", Refusal::kAllHeld);
  ASSERT_TRUE(one->Cancel(held->id()).ok());
  one.reset();
  // The lanes of a janitor that has gone are replaced by the clock of the server.
  Await("the units", [&] {
    Pass(absl::Milliseconds(100));
    return two->Available("sneaker").value() == 1;
  });
  // The units can be seen before the process that has moved them counts it.
  Await("the count", [&] { return Count("limbo_moves_total", "two") >= 1; });
  EXPECT_EQ(Count("limbo_moves_total", "two"), 1);
}

// Each process that has seen units in limbo tries to move them.
TEST_F(FleetRefusalsTest, AnotherProcessHasMovedTheUnits_RestockReturns) {
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 0}).ok());
  AwaitLease(*one, "one");
  std::thread restock([&] { EXPECT_TRUE(one->Restock("sneaker", 4).ok()); });
  Await("the deposit", [&] { return Count("limbo_units", "one") == 4; });
  server().Query(Concat("UPDATE ", Table("skus"), " SET limbo=0,mode=0"));
  server().Query(Concat("UPDATE ", Table("stock"), " SET latched=0,units=4"));
  Pass(kWait);
  restock.join();
  EXPECT_EQ(Count("limbo_units", "one"), 0);
  EXPECT_EQ(Count("limbo_moves_total", "one"), 0);
  // A lane registers when it first writes: on a busy machine one of the two has not yet.
  EXPECT_LE(Number(Concat("SELECT COUNT(*) FROM ", Table("lanes"))), 2) << "no lane was registered again";
}

TEST_F(FleetRefusalsTest, SkuIsResharded_LatchAndLimboStay) {
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 1}).ok());
  const auto held = one->Reserve({.sku = "sneaker", .request_id = "a"});
  AwaitLease(*one, "one", Refusal::kAllHeld);
  ASSERT_TRUE(one->Reshard("sneaker", 3).ok());
  EXPECT_EQ(Wanted(*one, "b"), Refusal::kAllHeld);
  ASSERT_TRUE(one->Cancel(held->id()).ok());
  ASSERT_TRUE(one->Reshard("sneaker", 2).ok());
  for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  EXPECT_EQ(Sku("limbo"), "1");
  Pass(kWait);
  Await("the unit", [&] { return Wanted(*one, "c") == Refusal::kNone; });
}

TEST_F(FleetRefusalsTest, SkuIsRemovedWhileItIsDraining_ItsUnitsAreWithdrawn) {
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 2}).ok());
  const auto held = one->Reserve({.sku = "sneaker", .request_id = "a"});
  const auto late = one->Reserve({.sku = "sneaker", .request_id = "b"});
  AwaitLease(*one, "one", Refusal::kAllHeld);
  ASSERT_TRUE(one->Cancel(held->id()).ok());
  ASSERT_TRUE(one->RemoveSku("sneaker").ok());
  EXPECT_EQ(Wanted(*one, "c"), Refusal::kUnknownSku);
  EXPECT_EQ(one->Figures("sneaker")->granted, 1);
  ASSERT_TRUE(one->Cancel(late->id()).ok());
  EXPECT_EQ(one->Figures("sneaker")->granted, 0);
}

TEST_F(FleetRefusalsTest, SkuHasALimit_RequestsWithoutABuyerAreInvalid) {
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 1, .per_buyer_limit = 1}).ok());
  ASSERT_TRUE(one->Take({.sku = "sneaker", .request_id = "a", .buyer = "ann"}).ok());
  Await("a refusal by a lease", [&] {
    EXPECT_EQ(RefusalOf(one->Take({.sku = "sneaker", .request_id = "b", .buyer = "bob"}).status()), Refusal::kSoldOut);
    return RefusedByLease("one") > 0;
  });
  EXPECT_EQ(Wanted(*one, "c"), Refusal::kInvalid);
}

TEST_F(FleetRefusalsTest, MoreIdsTookUnitsThanAreRemembered_TheLedgerIsAsked) {
  FleetInventoryOptions options = Leased("few");
  options.max_known_ids = 1;
  const auto few = Connect(options);
  const auto many = Process("many");
  ASSERT_TRUE(few->AddSku("sneaker", {.stock = 3}).ok());
  ASSERT_TRUE(few->AddSku("lace", {.stock = 0}).ok());
  const auto took = few->ReserveBasket({.lines = {{"sneaker", 1}}, .request_id = "basket"});
  ASSERT_TRUE(took.ok()) << took.status();
  ASSERT_TRUE(few->Take({.sku = "sneaker", .quantity = 2, .request_id = "a"}).ok());
  AwaitLease(*many, "many", Refusal::kAllHeld);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Wanted(*few, Concat("late", i)), Refusal::kAllHeld);
  EXPECT_EQ(RefusedByLease("few"), 0);
  // An id that took units in a basket is known, too.
  EXPECT_EQ(many->ReserveBasket({.lines = {{"sneaker", 1}}, .request_id = "basket"})->id(), took->id());
  // Other SKUs are not concerned.
  Await("a refusal by a lease", [&] {
    EXPECT_EQ(RefusalOf(few->Take({.sku = "lace", .request_id = "nobody"}).status()), Refusal::kSoldOut);
    return RefusedByLease("few") > 0;
  });
}

// They are loaded in pages.
TEST_F(FleetRefusalsTest, ThousandsOfOrdersTookUnits_NoneIsRefusedAgain) {
  constexpr size_t kOrders = 12'345;
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = kOrders + 1}).ok());
  std::vector<TakeRequest> requests;
  for (size_t i = 0; i < kOrders; ++i) requests.push_back({.sku = "sneaker", .request_id = Concat(i)});
  const auto orders = one->TakeMany(requests);
  ASSERT_TRUE(one->ReserveBasket({.lines = {{"sneaker", 1}}, .request_id = "basket"}).ok());
  AwaitLease(*one, "one", Refusal::kAllHeld);
  const int64_t by_lease = RefusedByLease("one");
  const auto again = one->TakeMany(requests);
  for (size_t i = 0; i < kOrders; ++i) {
    ASSERT_TRUE(orders[i].ok() && again[i].ok()) << i << ": " << orders[i].status() << again[i].status();
    ASSERT_EQ(orders[i]->id(), again[i]->id()) << i;
  }
  EXPECT_TRUE(one->ReserveBasket({.lines = {{"sneaker", 1}}, .request_id = "basket"}).ok());
  EXPECT_EQ(RefusedByLease("one"), by_lease);
}

TEST_F(FleetRefusalsTest, LedgerIsAway_RefusalsEndWithTheLease) {
  FleetInventoryOptions options = Leased("one");
  options.ledger = ByProxy().ledger;
  options.patience = absl::Seconds(1);
  const auto one = Connect(options);
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 0}).ok());
  AwaitLease(*one, "one");
  proxy().Refuse();
  proxy().CloseAll();
  Pass(kLease - absl::Milliseconds(1));
  Await("the lease that was there", [&] { return Wanted(*one, "b") == Refusal::kSoldOut; });
  Pass(absl::Milliseconds(1));
  std::atomic<bool> answered = false;
  std::thread asks([&] {
    EXPECT_EQ(Wanted(*one, "c"), Refusal::kUnavailable);
    answered = true;
  });
  Await("the end of patience", [&] {
    Pass(absl::Milliseconds(100));
    return answered.load();
  });
  asks.join();
  proxy().Accept();
}

// Processes with different options have one lease: that of the one that latched.
TEST_F(FleetRefusalsTest, ProcessesHaveDifferentLeases_TheLatchDecides) {
  FleetInventoryOptions brief = Leased("brief");
  brief.refusal_lease = absl::Milliseconds(10);
  const auto one = Connect(brief);
  const auto two = Process("two");
  ASSERT_TRUE(two->AddSku("sneaker", {.stock = 1}).ok());
  const auto held = two->Reserve({.sku = "sneaker", .request_id = "a"});
  AwaitLease(*two, "two", Refusal::kAllHeld);
  EXPECT_EQ(Sku("lease_us"), "2000000");
  ASSERT_TRUE(one->Cancel(held->id()).ok());
  Pass(kWait - absl::Milliseconds(1));
  EXPECT_EQ(Sku("limbo"), "1");
  Pass(absl::Milliseconds(1));
  Await("the unit", [&] { return Wanted(*one, "b") == Refusal::kNone; });
  AwaitLease(*one, "brief");
  EXPECT_EQ(Sku("lease_us"), "10000");
}

// As a failover to a server that lacks the last transactions. The ids that took units are others then, although the SKU
// is sold out as before.
TEST_F(FleetRefusalsTest, LedgerIsPutBack_IdsAreLoadedAgain) {
  const auto one = Process("one");
  const auto two = Process("two");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 1}).ok());
  const char* const kTables[] = {"skus", "stock", "requests", "orders"};
  for (const char* const table : kTables) {
    server().Query(Concat("CREATE TABLE ", Table(Concat("copy_", table)), " AS SELECT * FROM ", Table(table)));
  }
  ASSERT_TRUE(one->Take({.sku = "sneaker", .request_id = "lost"}).ok());
  AwaitLease(*one, "one");
  for (const char* const table : kTables) {
    server().Query("DELETE FROM " + Table(table));
    server().Query(Concat("INSERT INTO ", Table(table), " SELECT * FROM ", Table(Concat("copy_", table))));
  }
  const auto order = two->Take({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(order.ok()) << order.status();
  AwaitLease(*two, "two");
  Pass(kLease);
  AwaitLease(*one, "one");
  const auto again = one->Take({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id(), order->id());
}

class FleetMigrationTest : public FleetRefusalsTest {
 protected:
  // As an older version of this code made the tables.
  void BringBack(int version) const {
    const std::string tables = Table("");
    server().Query(Concat("ALTER TABLE ", tables, "lanes DROP CONSTRAINT ", fleet(),
                          "_code_is_too_old, DROP COLUMN code",
                          version < 3 ? ", DROP COLUMN retention_us, DROP COLUMN seen_at" : ""));
    server().Query(Concat("ALTER TABLE ", tables, "orders DROP COLUMN version"));
    server().Query(Concat("UPDATE ", tables, "fleet SET oldest_code=1,version=", version));
    if (version > 1) return;
    for (const std::string& sql :
         {Concat("ALTER TABLE ", tables, "skus DROP CONSTRAINT ", fleet(),
                 "_limbo, DROP KEY mode, DROP COLUMN mode, DROP ",
                 "COLUMN epoch, DROP COLUMN lease_us, DROP COLUMN limbo, DROP COLUMN redis_segments"),
          Concat("ALTER TABLE ", tables, "stock DROP CONSTRAINT ", fleet(),
                 "_latched, DROP COLUMN latched, DROP COLUMN fence, DROP COLUMN fills"),
          Concat("DROP TABLE ", tables, "nodes"), Concat("ALTER TABLE ", tables, "orders DROP KEY by_sku"),
          Concat("ALTER TABLE ", tables, "order_lines DROP KEY by_sku")}) {
      server().Query(sql);
    }
  }
};

TEST_F(FleetMigrationTest, TablesOfVersionOne_AreMigrated) {
  BringBack(1);
  const absl::Status refused = FleetInventory::Connect(Options()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  // It may be run again at any time, also if it was ended between two tables.
  server().Query(Concat("ALTER TABLE ", Table(""), "orders ADD KEY by_sku (sku_id, order_id, request)"));
  for (int i = 0; i < 2; ++i) {
    const absl::Status migrated = FleetInventory::Migrate(Options());
    ASSERT_TRUE(migrated.ok()) << migrated;
  }
  const auto one = Process("one");
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 0}).ok());
  AwaitLease(*one, "one");
}

TEST_F(FleetMigrationTest, TablesOfVersionThree_AreMigrated_AlsoAfterAnInterruption) {
  OrderId held = 0;
  {
    const auto shop = Connect();
    ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 2}).ok());
    held = shop->Reserve({.sku = "sneaker", .request_id = "a"}).value().id();
  }
  BringBack(3);
  server().Query("ALTER TABLE " + Table("lanes") + " ADD COLUMN code INT NOT NULL DEFAULT 4");
  ASSERT_EQ(FleetInventory::Migrate(Options()), absl::OkStatus());
  const auto shop = Connect();
  EXPECT_TRUE(shop->Extend({.order = held, .ttl = absl::Minutes(20)}).ok());
  EXPECT_TRUE(shop->Commit(held).ok());
  EXPECT_EQ(server().Value("SELECT version FROM " + Table("orders")), "2");
}

TEST_F(FleetMigrationTest, TablesOfVersionTwo_AreMigrated_AndItsProcessesCountAsADay) {
  BringBack(2);
  const std::string lane = "INSERT INTO " + Table("lanes") + " (lane_id,nonce,fence,batch,created_at) VALUES (";
  server().Query(lane + "1,1,1,0,1)");
  const absl::Status refused = FleetInventory::Connect(Options()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  const absl::Status migrated = FleetInventory::Migrate(Options());
  ASSERT_TRUE(migrated.ok()) << migrated;
  server().Query("INSERT INTO " + Table("lanes") +  // By a process that started long ago.
                 " (lane_id,nonce,fence,batch,created_at,code) VALUES (2,2,1,0,1,4)");
  FleetInventoryOptions options = Options();
  options.retention = absl::Seconds(1);
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 2}).ok());
  // Most looks for old orders are only for those of the last minute before the time from which orders are kept.
  const auto ended_before = [&](const std::string& id, int64_t seconds) {
    const OrderId order = shop->Take({.sku = "sneaker", .request_id = id}).value().id();
    server().Query(Concat("UPDATE ", Table("orders"), " SET at=at-", seconds, "000000 WHERE order_id=", order));
    return order;
  };
  const OrderId kept = ended_before("kept", 30);  // By the process that was there at the migration.
  const OrderId forgotten = ended_before("forgotten", 86'400 + 30);
  Await("an order is forgotten", [&] { return !shop->StateOf(forgotten).ok(); });
  EXPECT_TRUE(shop->StateOf(kept).ok());
  server().Query("UPDATE " + Table("lanes") + " SET seen_at=1 WHERE lane_id=1");
  Await("the other one is, too", [&] { return !shop->StateOf(kept).ok(); });
}

TEST_F(FleetMigrationTest, TablesThatVersionTwoHasWritten_HaveTheirOrdersAfterMigrate) {
  server().Wipe();
  std::ifstream file(STOCKADE_SOURCE_DIR "/tests/inventory/fixtures/fleet_tables_v2.sql");
  std::string statement;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("--")) statement += line + "\n";
    if (!line.ends_with(";")) continue;
    server().Query(absl::StrReplaceAll(statement, {{"{fleet}", "test." + fleet()}, {"{name}", fleet()}}));
    statement.clear();
  }
  FleetInventoryOptions options = Options();
  options.retention = absl::InfiniteDuration();  // The orders are years old.
  const absl::Status refused = FleetInventory::Connect(options).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(TextOf(refused), ::testing::HasSubstr("Migrate()"));
  ASSERT_EQ(FleetInventory::Migrate(options), absl::OkStatus());
  const auto shop = Connect(options);

  const auto reserved = [&](const std::string& sku, int64_t quantity, const std::string& id, const std::string& buyer,
                            absl::Duration ttl) {
    return shop->Reserve({.sku = sku, .quantity = quantity, .request_id = id, .buyer = buyer, .ttl = ttl}).value();
  };
  const absl::Duration ever = absl::InfiniteDuration();
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "take", .buyer = "ann"}).ok());
  EXPECT_EQ(reserved("sneaker", 1, "it's sold", "", absl::Minutes(10)).state(), OrderState::kSold);
  EXPECT_EQ(reserved("cap", 2, "cancelled", "bob", absl::Minutes(10)).state(), OrderState::kCancelled);
  EXPECT_EQ(reserved("sneaker", 1, "expired", "", absl::Milliseconds(1)).state(), OrderState::kExpired);
  EXPECT_EQ(reserved("sneaker", 1, "due by now", "", absl::Minutes(1)).state(), OrderState::kExpired);
  EXPECT_EQ(shop->Restock({.sku = "sneaker", .quantity = 10, .request_id = "restock"}), absl::OkStatus());
  EXPECT_EQ(shop->Commit(reserved("sneaker", 4, "held for ever", "", ever).id()), absl::OkStatus());
  EXPECT_EQ(shop->Cancel(reserved("cap", 2, "caps held", "bob", ever).id()), absl::OkStatus());
  const auto basket = shop->ReserveBasket({.lines = {{.sku = "sneaker", .quantity = 2}, {.sku = "cap"}},
                                           .request_id = "basket held",
                                           .buyer = "eve",
                                           .ttl = ever});
  EXPECT_EQ(shop->Commit(basket->id()), absl::OkStatus());
  const absl::Status over = shop->Take({.sku = "cap", .quantity = 4, .request_id = "more", .buyer = "eve"}).status();
  EXPECT_EQ(RefusalOf(over), Refusal::kBuyerLimit) << over;
  const auto sneaker = shop->Snapshot("sneaker");
  EXPECT_EQ(std::tuple(sneaker->granted, sneaker->held, sneaker->sold), std::tuple(110, 0, 12));

  // Scarves are latched, and what is held of a SKU that was removed can be given back.
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "scarf", .request_id = "one"}).status()), Refusal::kAllHeld);
  EXPECT_EQ(shop->Cancel(reserved("scarf", 1, "scarf 1", "", ever).id()), absl::OkStatus());
  Await("the scarf", [&] { return shop->Take({.sku = "scarf", .request_id = "two"}).ok(); });
  const OrderId of_removed = std::stoull(server().Value(Concat("SELECT order_id FROM ", Table("orders"), " o JOIN ",
                                                               Table("skus"), " s USING (sku_id) WHERE removed=1")));
  EXPECT_EQ(shop->Cancel(of_removed), absl::OkStatus());
}

TEST_F(FleetMigrationTest, FiveProcessesMigrateAtOnce_AllSucceed) {
  for (int round = 0; round < 6; ++round) {
    if (round % 3 == 0) {
      server().Wipe();
    } else {
      BringBack(round % 3);
    }
    RunThreads(5, [&](int) {
      const absl::Status migrated = FleetInventory::Migrate(Options());
      EXPECT_TRUE(migrated.ok()) << migrated;
    });
    EXPECT_TRUE(FleetInventory::Connect(Options()).ok());
  }
}

TEST_F(FleetMigrationTest, AnotherProcessMigratesForLong_IsUnavailable) {
  Client other;
  std::optional<int64_t> locked;
  other.Run(Concat("SELECT GET_LOCK(CONCAT('stockade.',SHA1(CONCAT(DATABASE(),'.", fleet(), "'))),60)"),
            mysql_internal::MySqlInto(locked));
  ASSERT_EQ(locked, 1);
  FleetInventoryOptions options = Options();
  options.patience = absl::Seconds(1);
  const absl::Status status = FleetInventory::Migrate(options);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

TEST_F(FleetRefusalsTest, RefusalLeaseOutOfRange_IsInvalid) {
  FleetInventoryOptions options = Options();
  for (const absl::Duration lease : {absl::Milliseconds(9), absl::Seconds(61), -absl::Seconds(1)}) {
    options.refusal_lease = lease;
    EXPECT_TRUE(absl::IsInvalidArgument(options.Validate())) << lease;
  }
  options.refusal_lease = absl::Seconds(60);
  EXPECT_TRUE(options.Validate().ok());
  options.max_known_ids = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(options.Validate()));
}

}  // namespace
}  // namespace stockade

// What becomes of the calls of a fleet when its ledger, its network or other clients of the database misbehave.
// fleet_clock_test.cc steps its clock, fleet_cuts_test.cc cuts connections, fleet_kill_test.cc kills and stops
// processes.

#include "inventory/fleet/fleet_faults_test.h"

#include <gmock/gmock.h>

#include <fstream>
#include <future>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_replace.h"
#include "stockade/base/executor.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/exported.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using ::testing::HasSubstr;
using testing::kNothingHasChanged;
using testing::kNotKnown;
using testing::Says;
using testing::TextOf;

using FleetFaultsTest = testing::FleetFaultsTest;

template <typename Call>
auto InThread(Call call) {
  return std::async(std::launch::async, std::move(call));
}

TEST_F(FleetFaultsTest, SameIdInTwoProcessesAtOnce_IsOneOrder) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 100, .shards = 2}).ok());
  for (int i = 0; i < 50; ++i) {
    const TakeRequest request{.sku = "sneaker", .request_id = Concat(i)};
    auto here = InThread([&] { return one->Take(request); });
    const auto there = two->Take(request);
    const auto order = here.get();
    ASSERT_TRUE(order.ok()) << order.status();
    ASSERT_TRUE(there.ok()) << there.status();
    EXPECT_EQ(*order, *there);
  }
  EXPECT_EQ(one->Available("sneaker").value(), 50);
}

TEST_F(FleetFaultsTest, SameBuyerInTwoProcessesAtOnce_GetsNoMoreThanTheLimit) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 1000, .shards = 2, .per_buyer_limit = 3}).ok());
  for (int i = 0; i < 20; ++i) {
    const std::string buyer = Concat("buyer-", i);
    const auto all = [&](Inventory& shop, std::string_view name) {
      std::vector<TakeRequest> requests;
      for (int k = 0; k < 3; ++k) {
        requests.push_back({.sku = "sneaker", .request_id = Concat(name, i, ".", k), .buyer = buyer});
      }
      int got = 0;
      for (const auto& order : shop.TakeMany(requests)) {
        got += order.ok() ? 1 : 0;
        if (!order.ok()) {
          EXPECT_EQ(RefusalOf(order.status()), Refusal::kBuyerLimit) << order.status();
        }
      }
      return got;
    };
    auto here = InThread([&] { return all(*one, "one"); });
    const int there = all(*two, "two");
    EXPECT_EQ(here.get() + there, 3);
  }
}

// The first order of another SKU comes between the buyer's rows and the orders.
TEST_F(FleetFaultsTest, BuyerOrdersWhileItIsForgotten_TheRowsFitTogether) {
  FleetInventoryOptions options = Options();
  options.lanes = 1;
  const auto shop = Connect(options);
  for (const char* const sku : {"sneaker", "boot"}) {
    ASSERT_TRUE(shop->AddSku(sku, {.stock = 9, .per_buyer_limit = 2}).ok());
  }
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a", .buyer = "ann"}).ok());
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("orders"));
  auto forgetting = InThread([&] { return FleetInventory::ForgetBuyer(options, "ann"); });
  AwaitLockWait();
  const auto held = shop->Reserve({.sku = "boot", .request_id = "b", .buyer = "ann"});
  ASSERT_TRUE(held.ok()) << held.status();
  other.Run("COMMIT");
  const absl::Status forgotten = forgetting.get();
  EXPECT_TRUE(forgotten.ok()) << forgotten;
  EXPECT_EQ(Audit(), std::vector<std::string>());
  const absl::Status cancelled = shop->Cancel(held->id());
  EXPECT_TRUE(cancelled.ok()) << cancelled;
}

TEST_F(FleetFaultsTest, ServerIsDown_CallsAreUnavailableAfterTheirPatienceAndHaveChangedNothing) {
  const auto shop = Connect(OptionsWith(absl::Seconds(2)));
  AddSneakers(*shop, {.stock = 5});
  EXPECT_TRUE(shop->Health().ok()) << shop->Health();
  server().Kill();
  std::future<absl::Status> calls[] = {
      InThread([&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).status(); }),
      InThread([&] { return shop->Reserve({.sku = "sneaker", .request_id = "c"}).status(); }),
      InThread([&] { return shop->Commit(1); }),
      InThread([&] { return shop->Restock("sneaker", 1); }),
      InThread([&] { return shop->RemoveSku("sneaker"); }),
  };
  std::future<absl::Status> reads[] = {
      InThread([&] { return shop->Available("sneaker").status(); }),
      InThread([&] { return shop->Figures("sneaker").status(); }),
      InThread([&] { return shop->StateOf(1).status(); }),
  };
  for (std::future<absl::Status>& call : calls) {
    const absl::Status status = call.get();
    EXPECT_TRUE(Says(status, kNothingHasChanged)) << status;
    EXPECT_FALSE(OutcomeUnknown(status)) << status;
  }
  for (std::future<absl::Status>& read : reads) {
    const absl::Status status = read.get();
    EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::Not(::testing::HasSubstr("changed"))) << status;
  }
  EXPECT_TRUE(shop->Snapshot().empty());
  EXPECT_EQ(RefusalOf(shop->Health()), Refusal::kUnavailable);
  server().Restart();
  Await("the health, without a call", [&] { return shop->Health().ok(); });
  Await("the ledger", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
  EXPECT_EQ(Number("SELECT units FROM " + Table("stock")), 3);
}

TEST_F(FleetFaultsTest, ServerIsSilentForLongerThanPatience_TheSameIdShowsTheOutcome) {
  auto options = OptionsWith(absl::Milliseconds(500));
  options.connect_timeout = absl::Seconds(1);
  const auto shop = Connect(options);
  AddSneakers(*shop, {.stock = 5});
  server().Pause();
  const auto order = shop->Take({.sku = "sneaker", .request_id = "b"});
  EXPECT_EQ(RefusalOf(order.status()), Refusal::kUnavailable) << order.status();
  const auto later = shop->Take({.sku = "sneaker", .request_id = "c"});
  EXPECT_EQ(RefusalOf(later.status()), Refusal::kUnavailable) << later.status();
  server().Resume();
  const auto other = Connect();
  for (const char* const id : {"b", "c"}) {
    const auto there = other->Take({.sku = "sneaker", .request_id = id});
    ASSERT_TRUE(there.ok()) << there.status();
    Await("the same order", [&] {
      const auto here = shop->Take({.sku = "sneaker", .request_id = id});
      return here.ok() && *here == *there;
    });
  }
  EXPECT_EQ(other->Available("sneaker").value(), 2);
}

TEST_F(FleetFaultsTest, ServerIsSilentWhileLanesConnect_CallsHaveNoMoreThanTheirPatience) {
  auto options = OptionsWith(absl::Milliseconds(200));
  options.connect_timeout = absl::Minutes(10);
  const auto shop = Connect(options);
  AddSneakers(*shop, {.stock = 9});
  server().Pause();
  // The first ones are in packets, and break the connections of both lanes.
  for (int i = 0; i < 6; ++i) {
    const auto order = shop->Take({.sku = "sneaker", .request_id = Concat("a", i)});
    EXPECT_EQ(RefusalOf(order.status()), Refusal::kUnavailable) << order.status();
  }
  EXPECT_FALSE(shop->Figures("sneaker").ok());
  server().Resume();
  Await("the ledger", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
}

// The order is there before the lane gives the reply up. A caller that reads "nothing has changed" orders elsewhere.
TEST_F(FleetFaultsTest, ReplyComesAfterPatience_NobodyIsToldThatNothingHasChanged) {
  auto options = ByProxy(absl::Seconds(1));
  options.connect_timeout = absl::Seconds(30);
  const auto shop = Connect(options);
  AddSneakers(*shop, {.stock = 5});
  const uint64_t accepted = proxy().counts().accepted;
  proxy().Hold();
  auto taking = InThread([&] { return shop->Take({.sku = "sneaker", .request_id = "b"}); });
  Await("the order", [&] { return Orders() == 2; });
  ASSERT_TRUE(proxy().Await([&](const auto& counts) { return counts.accepted > accepted; }));
  proxy().Release();
  const auto order = taking.get();
  EXPECT_TRUE(order.ok() || Says(order.status(), kNotKnown)) << order.status();
  EXPECT_EQ(OutcomeUnknown(order.status()), !order.ok());
  Await("the order", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
  EXPECT_EQ(Number("SELECT units FROM " + Table("stock")), 3);
}

TEST_F(FleetFaultsTest, DestroyedWhileAnOutcomeIsNotKnown_AnswersAtOnce) {
  FleetInventoryOptions options = ByProxy(absl::Seconds(60));
  options.lanes = 1;
  auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 5}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  proxy().Refuse();
  proxy().DropReply();
  InlineExecutor inline_executor;
  std::promise<absl::Status> answered;
  shop->TakeAsync({.sku = "sneaker", .request_id = "b"}, inline_executor,
                  [&](absl::StatusOr<Order> order) { answered.set_value(order.status()); });
  Await("a cut", [&] { return !shop->Health().ok(); });
  const Instant began = Clock::System()->Now();
  shop.reset();
  EXPECT_LT(Clock::System()->Now() - began, absl::Seconds(30));
  const absl::Status status = answered.get_future().get();
  EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
}

TEST_F(FleetFaultsTest, CutOffFromTheLedger_NothingIsRefusedFromMemory) {
  const auto cut_off = Connect(ByProxy(absl::Milliseconds(300)));
  const auto other = Connect();
  AddSneakers(*cut_off, {.stock = 1});
  Await("a refusal",
        [&] { return RefusalOf(cut_off->Take({.sku = "sneaker", .request_id = "b"}).status()) == Refusal::kSoldOut; });
  proxy().Refuse();
  proxy().CloseAll();
  ASSERT_TRUE(other->Restock("sneaker", 1).ok());
  EXPECT_EQ(RefusalOf(cut_off->Take({.sku = "sneaker", .request_id = "c"}).status()), Refusal::kUnavailable);
  EXPECT_TRUE(other->Take({.sku = "sneaker", .request_id = "d"}).ok());
  proxy().Accept();
  Await("the true answer",
        [&] { return RefusalOf(cut_off->Take({.sku = "sneaker", .request_id = "e"}).status()) == Refusal::kSoldOut; });
}

TEST_F(FleetFaultsTest, SoldOut_IsNoFailureOfTheLedger) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 2}).ok());
  ASSERT_TRUE(one->Take({.sku = "sneaker", .request_id = "a"}).ok());
  ASSERT_TRUE(two->Take({.sku = "sneaker", .request_id = "b"}).ok());
  EXPECT_EQ(RefusalOf(one->Take({.sku = "sneaker", .request_id = "c"}).status()), Refusal::kSoldOut);
  EXPECT_TRUE(one->Health().ok()) << one->Health();
}

TEST_F(FleetFaultsTest, ServerRestarted_CallsGoOn) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 5}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  server().Restart();
  EXPECT_TRUE(shop->Commit(held->id()).ok());
  server().Kill();
  auto taking = InThread([&] { return shop->Take({.sku = "sneaker", .request_id = "b"}); });
  server().Restart();
  const auto order = taking.get();
  EXPECT_TRUE(order.ok()) << order.status();
}

TEST_F(FleetFaultsTest, ConnectionKilledWithinAPacket_TheCallIsServedOnce) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 5}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  for (const char* const kill : {"KILL CONNECTION ", "KILL QUERY "}) {
    Client other;
    other.Run("START TRANSACTION");
    other.LockRows(Table("stock"));
    auto taking = InThread([&] { return shop->Take({.sku = "sneaker", .request_id = kill}); });
    const std::string waiting = AwaitWaitingConnection("stock");
    (void)server().TryQuery(kill + waiting);
    other.Run("COMMIT");
    const auto order = taking.get();
    EXPECT_TRUE(order.ok()) << kill << order.status();
  }
  EXPECT_EQ(shop->Available("sneaker").value(), 2);
}

TEST_F(FleetFaultsTest, ReadOnlyServer_IsUnavailableAndNothingHasChanged) {
  const auto shop = Connect(OptionsWith(absl::Milliseconds(500)));
  AddSneakers(*shop, {.stock = 5});
  server().Query("SET GLOBAL read_only = 1");
  const absl::Status order =
      AwaitRefusal("read-only", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).status(); });
  const auto connected = FleetInventory::Connect(Options());
  server().Query("SET GLOBAL read_only = 0");
  EXPECT_TRUE(Says(order, kNothingHasChanged)) << order;
  EXPECT_TRUE(absl::IsUnavailable(connected.status())) << connected.status();
  Await("the ledger", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
}

TEST_F(FleetFaultsTest, UserMayNotWrite_IsUnavailableWithTheReason) {
  const auto shop = Connect(OptionsWith(absl::Seconds(1)));
  AddSneakers(*shop, {.stock = 5});
  server().Query("REVOKE INSERT ON test.* FROM stockade@'127.0.0.1'");
  server().KillConnections();
  const absl::Status order =
      AwaitRefusal("INSERT command denied", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).status(); });
  const absl::Status added = AwaitRefusal("INSERT command denied", [&] { return shop->AddSku("boot", {.stock = 1}); });
  server().Query("GRANT INSERT ON test.* TO stockade@'127.0.0.1'");
  EXPECT_TRUE(Says(order, kNothingHasChanged)) << order;
  EXPECT_TRUE(Says(added, kNothingHasChanged)) << added;
  Await("the privilege", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
}

// The locks of a failed transaction, and what it has done, would otherwise be committed by the next one.
TEST_F(FleetFaultsTest, PacketFails_NoTransactionIsLeftOpen) {
  const auto one = Connect();
  const auto two = Connect();
  ASSERT_TRUE(one->AddSku("sneaker", {.stock = 2}).ok());
  ASSERT_TRUE(one->Take({.sku = "sneaker", .request_id = "a"}).ok());
  ASSERT_TRUE(two->Take({.sku = "sneaker", .quantity = 1, .request_id = "b"}).ok());
  EXPECT_EQ(RefusalOf(one->Take({.sku = "sneaker", .request_id = "c"}).status()), Refusal::kSoldOut);
  EXPECT_EQ(Number("SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_mysql_thread_id IN "
                   "(SELECT id FROM information_schema.processlist WHERE command='Sleep')"),
            0);
  Client other;
  other.LockRows(Table("stock"));
  other.LockRows(Table("requests"));
}

// The server fails COMMIT by a time-out: no error that says whether it was rolled back.
TEST_F(FleetFaultsTest, CommitFails_TheOutcomeIsAskedFor) {
  auto options = ByProxy(absl::Seconds(4));
  const auto shop = Connect(options);
  AddSneakers(*shop, {.stock = 5});
  const uint64_t accepted = proxy().counts().accepted;
  const auto root =
      mysql_internal::MySqlConnection::Open(
          mysql_internal::ParseMySqlUrl("mysql://root@localhost/test?socket=" + server().unix_socket()).value(), -1)
          .value();
  const auto as_root = [&](const char* sql) {
    return root->Run(sql, Clock::System()->Now() + absl::Seconds(60)).status;
  };
  ASSERT_TRUE(as_root("BACKUP STAGE START").ok());
  ASSERT_TRUE(as_root("BACKUP STAGE BLOCK_COMMIT").ok());
  auto taking = InThread([&] { return shop->Take({.sku = "sneaker", .request_id = "b"}); });
  ASSERT_TRUE(proxy().Await([&](const auto& counts) { return counts.accepted > accepted; }));
  ASSERT_TRUE(as_root("BACKUP STAGE END").ok());
  const auto order = taking.get();
  EXPECT_TRUE(order.ok() || Says(order.status(), kNotKnown) || Says(order.status(), kNothingHasChanged))
      << order.status();
  if (Says(order.status(), kNothingHasChanged)) {
    EXPECT_EQ(Orders(), 1);
  }
  Await("the order", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
  EXPECT_EQ(Number("SELECT units FROM " + Table("stock")), 3);
}

TEST_F(FleetFaultsTest, Deadlock_IsRetriedUnseen) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 5}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  EXPECT_TRUE(
      InADeadlock("stock", "lanes", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).status(); }).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), 3);
}

// A commit locks the order first, and then the row of the buyer.
TEST_F(FleetFaultsTest, DeadlockWithForgetBuyer_IsRetriedUnseen) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 5, .per_buyer_limit = 2}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a", .buyer = "ann"}).ok());
  const absl::Status forgotten =
      InADeadlock("orders", "buyers", [&] { return FleetInventory::ForgetBuyer(Options(), "ann"); });
  EXPECT_TRUE(forgotten.ok()) << forgotten;
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "b", .buyer = "ann"}).ok());
}

TEST_F(FleetFaultsTest, StockRowLockedForAWhile_TheCallWaits) {
  const auto shop = Connect(OptionsWith(absl::Seconds(60)));
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 5}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  const std::string timeouts =
      "SELECT variable_value FROM information_schema.global_status WHERE variable_name='Com_rollback'";
  const int64_t before = Number(timeouts);
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("stock"));
  auto taking = InThread([&] { return shop->Take({.sku = "sneaker", .request_id = "b"}); });
  Await("a wait that is given up (error 1205)", [&] { return Number(timeouts) > before; });
  other.Run("COMMIT");
  const auto order = taking.get();
  EXPECT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(shop->Available("sneaker").value(), 3);
}

TEST_F(FleetFaultsTest, StockRowLockedForLongerThanPatience_IsUnavailableAndTheSameIdShowsTheOutcome) {
  const auto shop = Connect(OptionsWith(absl::Seconds(3)));
  AddSneakers(*shop, {.stock = 5});
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("stock"));
  const auto order = shop->Take({.sku = "sneaker", .request_id = "b"});
  EXPECT_EQ(RefusalOf(order.status()), Refusal::kUnavailable) << order.status();
  other.Run("COMMIT");
  if (Says(order.status(), kNothingHasChanged)) {
    EXPECT_EQ(Orders(), 1);
  }
  Await("the order", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
  EXPECT_EQ(Number("SELECT units FROM " + Table("stock")), 3);
}

TEST_F(FleetFaultsTest, LaneIsFenced_ItGoesOnAsAnother) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  const auto fence = [&] { server().Query("UPDATE " + Table("lanes") + " SET fence=fence+1"); };
  const int64_t lanes = Number("SELECT COUNT(*) FROM " + Table("lanes"));
  fence();
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .request_id = "b"}).ok());
  fence();
  EXPECT_TRUE(shop->Commit(held->id()).ok());
  fence();
  EXPECT_TRUE(shop->Restock("sneaker", 1).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), 8);
  EXPECT_GT(Number("SELECT COUNT(*) FROM " + Table("lanes")), lanes);
}

// The packet waits for its lane's row, whose fence is raised meanwhile: as one that comes late.
TEST_F(FleetFaultsTest, LaneIsFencedBeforeItsPacketArrives_ThePacketChangesNothing) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  const auto fenced_while = [&](auto call) {
    Client other;
    other.Run("START TRANSACTION");
    other.Run("UPDATE " + Table("lanes") + " SET fence=fence+1");
    auto calling = InThread(call);
    AwaitLockWait();
    other.Run("COMMIT");
    return calling.get();
  };
  EXPECT_TRUE(fenced_while([&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).status(); }).ok());
  EXPECT_TRUE(fenced_while([&] { return shop->Cancel(held->id()); }).ok());
  EXPECT_TRUE(fenced_while([&] { return shop->Restock("sneaker", 1); }).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), 9);
}

// A packet that a network delivers late: as the server's log has it, and as it was sent.
TEST_F(FleetFaultsTest, PacketArrivesAfterItsLaneWasFenced_ItChangesNothing) {
  server().Query("SET GLOBAL log_output='TABLE', GLOBAL general_log=1");
  FleetInventoryOptions options = Options();
  options.lanes = 1;
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 1}).ok());
  ASSERT_TRUE(shop->Restock("sneaker", 10).ok());
  server().Query("SET GLOBAL general_log=0");
  const std::string packet = server().Value(
      Concat("SELECT argument FROM mysql.general_log WHERE command_type='Query' AND argument LIKE 'SET @miss%", fleet(),
             "_stock%' ORDER BY event_time DESC LIMIT 1"));
  Client late;
  std::tuple<std::optional<int64_t>, std::optional<int64_t>, int64_t> end;
  late.Run(packet, mysql_internal::MySqlInto(end));
  EXPECT_EQ(shop->Available("sneaker").value(), 21) << "the lane has not been fenced yet";
  // A lane that had lost a reply since the backup has raised its fence itself.
  FinishRestore();
  late.Run(packet, mysql_internal::MySqlInto(end));
  EXPECT_EQ(shop->Available("sneaker").value(), 21);
  const std::string raised =
      absl::StrReplaceAll(packet, {{"fence=1;", "fence=2;"}, {"ROW_COUNT()=1,1,", "ROW_COUNT()=1,2,"}});
  ASSERT_NE(raised, packet);
  late.Run(raised, mysql_internal::MySqlInto(end));
  EXPECT_EQ(shop->Available("sneaker").value(), 21);
}

TEST_F(FleetFaultsTest, LaneRowDeleted_ItGoesOnAsAnother) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  const auto remove = [&] { server().Query("DELETE FROM " + Table("lanes")); };
  remove();
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .request_id = "b"}).ok());
  remove();
  EXPECT_TRUE(shop->Commit(held->id()).ok());
  remove();
  EXPECT_TRUE(shop->Restock("sneaker", 1).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), 8);
}

// The lane's row is all that tells whether a packet without a reply was committed.
TEST_F(FleetFaultsTest, LaneRowDeletedWhileAnOutcomeIsNotKnown_TheUnitsAreNotStockedTwice) {
  const auto shop = Connect(ByProxy(absl::Seconds(10)));
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 1}).ok());
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("stock"));
  auto restocking = InThread([&] { return shop->Restock("sneaker", 10); });
  AwaitLockWait();
  proxy().Hold();
  other.Run("COMMIT");
  Await("the units", [&] { return Number("SELECT units FROM " + Table("stock")) == 11; });
  server().Query("DELETE FROM " + Table("lanes"));
  proxy().CloseAll();
  proxy().Release();
  const absl::Status restocked = restocking.get();
  EXPECT_TRUE(restocked.ok() || Says(restocked, kNotKnown)) << restocked;
  EXPECT_EQ(shop->Available("sneaker").value(), 11);
}

TEST_F(FleetFaultsTest, OrderIdsOfALaneAreTaken_OthersAreUsed) {
  tables_are_damaged_ = true;  // The orders in the way are of no SKU.
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  // As after a restore, with the rows of a time that is lost.
  for (int i = 1; i <= 3; ++i) {
    server().Query(Concat("INSERT INTO ", Table("orders"), " SELECT lane_id<<32|", (held->id() & UINT32_MAX) + i,
                          ",1,RANDOM_BYTES(16),0,0,REPEAT(CHAR(0),16),3,1,0,0,UNIX_TIMESTAMP()*1000000,0 FROM ",
                          Table("lanes")));
  }
  server().Query("INSERT INTO " + Table("requests") + " SELECT request,order_id FROM " + Table("orders") +
                 " WHERE sku_id=0");
  std::set<OrderId> ids = {held->id()};
  for (const char* const id : {"b", "c", "d"}) {
    const auto order = shop->Take({.sku = "sneaker", .request_id = id});
    ASSERT_TRUE(order.ok()) << order.status();
    EXPECT_TRUE(ids.insert(order->id()).second);
  }
  EXPECT_TRUE(shop->Restock({.sku = "sneaker", .quantity = 1, .request_id = "r"}).ok());
  EXPECT_EQ(shop->Available("sneaker").value(), 6);
}

// The ledger is put back to an earlier time, and what came later is lost. Ids of orders that are lost do not come
// again.
TEST_F(FleetFaultsTest, LedgerIsPutBack_NoOrderIdComesAgain) {
  const auto shop = Connect();
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 100}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  const char* const kTables[] = {"lanes", "skus", "stock", "requests", "orders"};
  for (const char* const table : kTables) {
    server().Query(Concat("CREATE TABLE ", Table(Concat("copy_", table)), " AS SELECT * FROM ", Table(table)));
  }
  std::set<OrderId> ids;
  for (int i = 0; i < 10; ++i) ids.insert(shop->Take({.sku = "sneaker", .request_id = Concat("lost", i)})->id());
  for (const char* const table : kTables) {
    server().Query("DELETE FROM " + Table(table));
    server().Query(Concat("INSERT INTO ", Table(table), " SELECT * FROM ", Table(Concat("copy_", table))));
  }
  const auto other = Connect();
  for (int i = 0; i < 10; ++i) {
    for (Inventory* const any : {shop.get(), other.get()}) {
      const auto order = any->Take({.sku = "sneaker", .request_id = Concat(i, any == shop.get() ? "one" : "two")});
      ASSERT_TRUE(order.ok()) << order.status();
      EXPECT_TRUE(ids.insert(order->id()).second) << order->id();
    }
  }
}

TEST_F(FleetFaultsTest, StockRowDeleted_NothingIsGrantedOrPutBack) {
  tables_are_damaged_ = true;
  FleetInventoryOptions options = OptionsWith(absl::Seconds(5));
  options.lanes = 1;
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  ASSERT_TRUE(shop->AddSku("boot", {.stock = 9}).ok());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a"});
  ASSERT_TRUE(held.ok()) << held.status();
  const auto boots = shop->Reserve({.sku = "boot", .request_id = "b"});
  ASSERT_TRUE(boots.ok()) << boots.status();
  server().Query("DELETE FROM " + Table("stock") + " WHERE sku_id=(SELECT sku_id FROM " + Table("skus") +
                 " WHERE sku='sneaker')");
  EXPECT_FALSE(shop->Take({.sku = "sneaker", .request_id = "c"}).ok());
  EXPECT_FALSE(shop->Commit(held->id()).ok());
  EXPECT_FALSE(shop->Restock("sneaker", 1).ok());
  EXPECT_EQ(Orders(), 2);
  EXPECT_EQ(shop->StateOf(held->id()).value(), OrderState::kHeld);
  // A damaged SKU stops no other one, not even in the same call.
  const OrderId both[] = {held->id(), boots->id()};
  EXPECT_TRUE(shop->CommitMany(both)[1].ok());
  EXPECT_TRUE(shop->Take({.sku = "boot", .request_id = "d"}).ok());
}

// The merge of the segments must not empty the others for a payment that goes nowhere.
TEST_F(FleetFaultsTest, FirstSegmentDeleted_MergingLosesNoUnits) {
  tables_are_damaged_ = true;
  const auto shop = Connect(OptionsWith(absl::Seconds(1)));
  AddSneakers(*shop, {.stock = 40, .shards = 4});
  server().Query("DELETE FROM " + Table("stock") + " WHERE segment=0");
  const int64_t before = Number("SELECT SUM(units) FROM " + Table("stock"));
  const int64_t orders = Orders();
  const auto order = shop->Take({.sku = "sneaker", .quantity = 15, .request_id = "b"});
  EXPECT_FALSE(order.ok());
  EXPECT_EQ(Number("SELECT SUM(units) FROM " + Table("stock")), before);
  EXPECT_EQ(Orders(), orders);
}

TEST_F(FleetFaultsTest, SessionDefaultsOfTheServer_AreReplaced) {
  server().Query(
      "SET GLOBAL sql_mode='', GLOBAL check_constraint_checks=0, GLOBAL autocommit=0, GLOBAL sql_select_limit=1");
  const std::unique_ptr<Inventory> shops[] = {Connect(), Connect()};
  ASSERT_TRUE(shops[0]->AddSku("sneaker", {.stock = 8, .shards = 4}).ok());
  for (int i = 0; i < 4; ++i) {
    const auto order = shops[i % 2]->Take({.sku = "sneaker", .quantity = 2, .request_id = Concat(i)});
    EXPECT_TRUE(order.ok()) << order.status();
  }
  for (const auto& shop : shops) {
    EXPECT_EQ(RefusalOf(shop->Take({.sku = "sneaker", .request_id = "e"}).status()), Refusal::kSoldOut);
  }
  server().Query(
      "SET GLOBAL sql_mode=DEFAULT, GLOBAL check_constraint_checks=1, GLOBAL autocommit=1, "
      "GLOBAL sql_select_limit=DEFAULT");
  EXPECT_TRUE(shops[0]->Restock("sneaker", 4).ok());
  server().Query("UPDATE " + Table("lanes") + " SET fence=fence+1");
  EXPECT_TRUE(shops[1]->Take({.sku = "sneaker", .request_id = "f"}).ok());
  EXPECT_EQ(Number("SELECT MIN(fence) FROM " + Table("orders")), 1) << "a NULL that became 0";
  EXPECT_EQ(shops[0]->Available("sneaker").value(), 3);
}

TEST_F(FleetFaultsTest, ServerThatMayLoseAcknowledgedOrders_IsRefused) {
  for (const auto& [variable, value] :
       {std::pair("sync_binlog", "0"), std::pair("innodb_flush_log_at_trx_commit", "2")}) {
    server().Query(Concat("SET GLOBAL ", variable, "=", value));
    const auto shop = FleetInventory::Connect(Options());
    server().Query(Concat("SET GLOBAL ", variable, "=1"));
    EXPECT_TRUE(absl::IsFailedPrecondition(shop.status())) << shop.status();
    EXPECT_THAT(TextOf(shop.status()), HasSubstr(Concat(variable, " is '", value, "', not 1")));
  }
}

TEST_F(FleetFaultsTest, ProxyThatReadsSql_IsRefused) {
  // Behind such a proxy, the server reports another id of the connection than the handshake did.
  server().Query("GRANT BINLOG REPLAY ON *.* TO stockade@'127.0.0.1'");
  server().Query("SET GLOBAL init_connect='SET pseudo_thread_id=12345'");
  const auto shop = FleetInventory::Connect(Options());
  server().Query("SET GLOBAL init_connect=''");
  EXPECT_TRUE(absl::IsFailedPrecondition(shop.status())) << shop.status();
  EXPECT_THAT(TextOf(shop.status()), HasSubstr("behind a proxy"));
}

TEST_F(FleetFaultsTest, ConstraintDropped_IsRefused) {
  for (const auto& [table, name] :
       {std::pair("stock", "paid"), std::pair("buyers", "within"), std::pair("lanes", "fenced")}) {
    const std::string constraint = Concat(fleet(), "_", name);
    server().Query(Concat("CREATE TABLE ", Table("copy"), " LIKE ", Table(table)));
    server().Query(Concat("ALTER TABLE ", Table(table), " DROP CONSTRAINT `", constraint, "`"));
    const auto shop = FleetInventory::Connect(Options());
    EXPECT_TRUE(absl::IsFailedPrecondition(shop.status())) << shop.status();
    EXPECT_THAT(TextOf(shop.status()), HasSubstr(constraint));
    server().Query(Concat("DROP TABLE ", Table(table)));
    server().Query(Concat("RENAME TABLE ", Table("copy"), " TO ", Table(table)));
  }
  EXPECT_NE(Connect(), nullptr);
}

TEST_F(FleetFaultsTest, OtherVersionOfTheTables_IsRefusedUnlessThisCodeMayUseIt) {
  const auto connect_with = [&](int version, int oldest_code) {
    server().Query(Concat("UPDATE ", Table("fleet"), " SET version=", version, ",oldest_code=", oldest_code));
    return FleetInventory::Connect(Options()).status();
  };
  const absl::Status newer = connect_with(7, 6);
  EXPECT_TRUE(absl::IsFailedPrecondition(newer)) << newer;
  EXPECT_THAT(TextOf(newer), HasSubstr("version 7"));
  const absl::Status older = connect_with(3, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(older)) << older;
  EXPECT_THAT(TextOf(older), HasSubstr("Migrate()"));
  EXPECT_TRUE(connect_with(5, 4).ok()) << "the next version, which code of this one may use";
  EXPECT_TRUE(connect_with(4, 4).ok());
}

// As Migrate() of a later version leaves the tables.
TEST_F(FleetFaultsTest, TablesBecomeThoseOfALaterVersion_AProcessThatIsStillConnectedSaysWhyItEnds) {
  const auto shop = Connect(OptionsWith(absl::Milliseconds(500)));
  AddSneakers(*shop, {.stock = 9});
  const std::string constraint = Concat("`", fleet(), "_code_is_too_old`");
  server().Query("UPDATE " + Table("lanes") + " SET fence=fence+1,nonce=nonce^1,code=5");
  server().Query(Concat("ALTER TABLE ", Table("lanes"), " DROP CONSTRAINT ", constraint, ",ADD CONSTRAINT ", constraint,
                        " CHECK (code >= 5)"));
  for (const char* const id : {"b", "c", "d"}) {
    const absl::Status refused =
        AwaitRefusal("code_is_too_old", [&] { return shop->Take({.sku = "sneaker", .request_id = id}).status(); });
    EXPECT_EQ(RefusalOf(refused), Refusal::kUnavailable) << refused;
  }
  EXPECT_EQ(Orders(), 1);
}

TEST_F(FleetFaultsTest, MigrateOfTheVersionBefore_EndsTheLanesThatItHad) {
  FleetInventoryOptions options = OptionsWith(absl::Minutes(1));
  options.lanes = 1;
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  const std::string lane = server().Value("SELECT lane_id FROM " + Table("lanes"));
  const std::string fence = Concat("SELECT fence FROM ", Table("lanes"), " WHERE lane_id=", lane);
  server().Query("UPDATE " + Table("fleet") + " SET version=3,oldest_code=1");
  const int64_t before = Number(fence);
  ASSERT_TRUE(FleetInventory::Migrate(Options()).ok());
  EXPECT_EQ(Number(fence), before + 1);
  ASSERT_TRUE(FleetInventory::Migrate(Options()).ok());
  EXPECT_EQ(Number(fence), before + 1) << "there was nothing to do";
  EXPECT_EQ(server().Value("SELECT CONCAT(version,'.',oldest_code) FROM " + Table("fleet")), "4.4");
  // This code may have lanes: it makes another.
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
}

TEST_F(FleetFaultsTest, NoTables_IsRefused) {
  FleetInventoryOptions options = Options();
  options.fleet = "nobody";
  const auto shop = FleetInventory::Connect(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(shop.status())) << shop.status();
  EXPECT_THAT(TextOf(shop.status()), HasSubstr("Migrate()"));
}

TEST_F(FleetFaultsTest, TablesOfAnotherFleetAfterAReconnect_AreNotUsed) {
  const auto shop = Connect(OptionsWith(absl::Seconds(1)));
  AddSneakers(*shop, {.stock = 9});
  // Its keys hash the same names to other numbers.
  const std::string keys = server().Value("SELECT HEX(hash_keys) FROM " + Table("fleet"));
  server().Query("UPDATE " + Table("fleet") + " SET hash_keys=RANDOM_BYTES(80)");
  server().KillConnections();
  const absl::Status order =
      AwaitRefusal("another fleet", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).status(); });
  EXPECT_TRUE(Says(order, kNothingHasChanged)) << order;
  EXPECT_EQ(Orders(), 1);
  server().Query("UPDATE " + Table("fleet") + " SET hash_keys=UNHEX('" + keys + "')");
  Await("the own tables", [&] { return shop->Take({.sku = "sneaker", .request_id = "b"}).ok(); });
}

TEST_F(FleetFaultsTest, TooManyCalls_AreUnavailableAtOnce) {
  FleetInventoryOptions options = OptionsWith(absl::Seconds(60));
  options.max_waiting_calls = 3;
  options.lanes = 1;
  options.max_batch = 1;
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 100}).ok());
  Client other;
  other.Run("START TRANSACTION");
  other.LockRows(Table("stock"));
  std::vector<TakeRequest> requests;
  for (int i = 0; i < 10; ++i) requests.push_back({.sku = "sneaker", .request_id = Concat(i)});
  auto taking = InThread([&] { return shop->TakeMany(requests); });
  AwaitLockWait();
  other.Run("COMMIT");
  int granted = 0;
  for (const auto& order : taking.get()) {
    granted += order.ok() ? 1 : 0;
    if (!order.ok()) {
      EXPECT_TRUE(Says(order.status(), kNothingHasChanged)) << order.status();
    }
  }
  EXPECT_GE(granted, 3);
  EXPECT_LT(granted, 10);
  EXPECT_EQ(Orders(), granted);
}

// Servers of other kinds, one for each test.
TEST(FleetServersTest, NoBinaryLog_IsRefused) {
  STOCKADE_NEEDS_MARIADB();
  const testing::MariaDbServer server;
  const absl::Status status = FleetInventory::Connect({.ledger = server.url(), .metrics = nullptr}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(TextOf(status), HasSubstr("log_bin is 'OFF', not ON"));
}

TEST(FleetServersTest, GaleraNode_IsRefused) {
  STOCKADE_NEEDS_MARIADB();
  std::vector<std::string> flags = testing::FleetServerFlags();
  for (const char* const flag : {"--wsrep-on=ON", "--wsrep-provider=none", "--binlog-format=ROW"})
    flags.push_back(flag);
  const testing::MariaDbServer server({.flags = flags});
  const absl::Status status = FleetInventory::Connect({.ledger = server.url(), .metrics = nullptr}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(TextOf(status), HasSubstr("wsrep_on is ON"));
}

class FleetFullDiskTest : public testing::FleetFaultsTest {
 protected:
  static void SetUpTestSuite() {
    StartServer({.flags = {"--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:16M"}});
  }
};

TEST_F(FleetFullDiskTest, NoRoomForOrders_IsUnavailableAndNothingHasChanged) {
  const auto shop = Connect(OptionsWith(absl::Seconds(1)));
  AddSneakers(*shop, {.stock = 1'000'000});
  server().Query("CREATE TABLE test.ballast (a INT PRIMARY KEY, b VARBINARY(2000))");
  for (int i = 0;
       server().TryQuery(Concat("INSERT INTO test.ballast VALUES (", i, ",REPEAT('x',2000))")).has_value();) {
    ++i;
  }
  // Pages that are begun have some room left.
  std::vector<TakeRequest> requests;
  for (int i = 0; i < 500; ++i) requests.push_back({.sku = "sneaker", .request_id = Concat(i)});
  int64_t granted = 1;
  absl::Status refused;
  for (int batch = 0; refused.ok() && batch < 200; ++batch) {
    for (TakeRequest& request : requests) request.request_id += "'";
    for (const auto& order : shop->TakeMany(requests)) {
      granted += order.ok() ? 1 : 0;
      // On a busy machine some of a batch are refused because their turn comes too late.
      const bool late = TextOf(order.status()).find("did not get to it in time") != std::string::npos;
      if (!order.ok() && !late) refused = order.status();
    }
  }
  EXPECT_TRUE(Says(refused, kNothingHasChanged)) << refused;
  EXPECT_THAT(TextOf(refused), HasSubstr("is full"));
  EXPECT_EQ(Orders(), granted);
  const absl::Status restocked = shop->Restock("sneaker", 1);
  EXPECT_TRUE(restocked.ok() || Says(restocked, kNothingHasChanged)) << restocked;
  server().Query("DROP TABLE test.ballast");
  Await("room", [&] { return shop->Take({.sku = "sneaker", .request_id = requests[0].request_id}).ok(); });
}

// The server refuses what the damaged row makes of the statement, and all that is in the packet with it.
TEST_F(FleetFaultsTest, NumberOfADamagedRowIsTooLarge_DelaysNoOtherOrder) {
  tables_are_damaged_ = true;
  const auto shop = Connect(OptionsWith(absl::Minutes(5)));
  ASSERT_TRUE(shop->AddSku("bad", {.stock = 9, .shards = 1}).ok());
  ASSERT_TRUE(shop->AddSku("ok", {.stock = 9, .shards = 1}).ok());
  const OrderId bad = shop->Reserve({.sku = "bad", .request_id = "a"}).value().id();
  const OrderId ok = shop->Reserve({.sku = "ok", .request_id = "b"}).value().id();
  server().Query(Concat("UPDATE ", Table("stock"), " SET units=9223372036854775807 WHERE units=8 AND sku_id=(SELECT ",
                        "sku_id FROM ", Table("skus"), " WHERE sku='bad')"));
  const std::vector<absl::Status> cancelled = shop->CancelMany({{bad, ok}});
  EXPECT_EQ(RefusalOf(cancelled.at(0)), Refusal::kUnavailable);
  EXPECT_THAT(TextOf(cancelled.at(0)), HasSubstr("docs/fleet_audit.sql"));
  EXPECT_EQ(cancelled.at(1), absl::OkStatus());
  EXPECT_EQ(shop->Health(), absl::OkStatus());
}

TEST_F(FleetFaultsTest, RowsDoNotFitTogether_ChangesOfTheSkuSaySo) {
  tables_are_damaged_ = true;
  const auto shop = Connect(OptionsWith(absl::Minutes(5)));
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  server().Query(Concat("UPDATE ", Table("skus"), " SET mode=1"));
  const absl::Status refused = shop->Reshard("sneaker", 3);
  EXPECT_EQ(RefusalOf(refused), Refusal::kUnavailable);
  EXPECT_THAT(TextOf(refused), HasSubstr("docs/fleet_audit.sql"));
}

TEST_F(FleetFaultsTest, RepliesAreLost_EachOrderIsCountedAsWhatItIs) {
  MetricsRegistry registry;
  FleetInventoryOptions options = ByProxy();
  options.name = "shop";
  options.metrics = &registry;
  options.lanes = 1;
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 9}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a"}).ok());
  proxy().DropReply();
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "b"}).ok());
  proxy().DropReply();
  ASSERT_TRUE(shop->Reserve({.sku = "sneaker", .request_id = "c"}).ok());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "b"}).ok());
  const auto counted = [&](const std::string& what) {
    return testing::Exported(registry, Concat("stockade_inventory_", what, "_total{inventory=\"shop\"}"));
  };
  EXPECT_EQ(counted("takes"), 2);
  EXPECT_EQ(counted("reservations"), 1);
  EXPECT_EQ(counted("repeats"), 1);
}

TEST_F(FleetFaultsTest, EqualRequestsInOneCall_AreEachCountedAsRefused) {
  MetricsRegistry registry;
  FleetInventoryOptions options = Options();
  options.name = "shop";
  options.metrics = &registry;
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 0}).ok());
  const std::vector<ReserveRequest> requests(3, {.sku = "sneaker", .request_id = "a"});
  for (const auto& answer : shop->ReserveMany(requests)) EXPECT_EQ(RefusalOf(answer.status()), Refusal::kSoldOut);
  EXPECT_EQ(testing::Exported(registry, "stockade_inventory_fleet_refusals_total{inventory=\"shop\",by=\"ledger\"}"),
            3);
}

}  // namespace
}  // namespace stockade

// Units that come back after the sale: Inventory::Return() in one process.
#include <atomic>
#include <future>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "inventory/scarce_ledger.h"
#include "inventory/sqlite_ledger_support.h"
#include "request_fingerprint.h"
#include "stockade/base/executor.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;
using testing::PlainSql;
using testing::RecordingDisk;
using testing::RecordingLedger;
using testing::ScarceDisk;
using testing::ScarceLedger;
using testing::TempDir;
using Disposition = ReturnRequest::Disposition;

std::string UnitsOf(const Inventory& shop, const std::string& sku) {
  const StockFigures at = shop.Figures(sku).value();
  return absl::StrCat(at.granted, " = ", at.available, " + ", at.held, " + ", at.sold);
}

class InventoryReturnTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kRetention = absl::Hours(1);

  InventoryReturnTest() {
    disk_->clock = &clock_;
    Open();
    EXPECT_TRUE(shop_->AddSku("shoe", {.stock = 10, .shards = 2, .per_buyer_limit = 4}).ok());
    EXPECT_TRUE(shop_->AddSku("lace", {.stock = 10, .shards = 2}).ok());
  }
  void Open() {
    shop_.reset();
    shop_ = Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk_),
                               .clock = &clock_,
                               .metrics = nullptr,
                               .stripes = 3,
                               .retention = kRetention})
                .value();
  }
  // Four shoes and two laces.
  OrderId SellBasket(const std::string& id = "basket") {
    const auto held = shop_->ReserveBasket({.lines = {{"shoe", 4}, {"lace", 2}}, .request_id = id, .buyer = "ann"});
    EXPECT_TRUE(shop_->Commit(held->id()).ok());
    return held->id();
  }
  absl::StatusOr<std::vector<ReturnedLine>> Return(OrderId order, const std::string& id,
                                                   std::vector<OrderLine> lines = {},
                                                   Disposition disposition = Disposition::kToStock) {
    return shop_->Return({.order = order, .lines = std::move(lines), .request_id = id, .disposition = disposition});
  }
  Refusal RefusalOfReturn(OrderId order, const std::string& id, std::vector<OrderLine> lines = {}) {
    return RefusalOf(Return(order, id, std::move(lines)).status());
  }
  std::string Figures(const std::string& sku) { return UnitsOf(*shop_, sku); }

  ManualClock clock_;
  std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_;
};

TEST_F(InventoryReturnTest, Return_OfSomeAndThenOfAll_IsForSaleAgainAndFreesTheLimit) {
  const OrderId order = SellBasket();
  EXPECT_EQ(RefusalOf(shop_->Take({"shoe", 1, "more", "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_EQ(Return(order, "a", {{"shoe", 3}}).value(), (std::vector<ReturnedLine>{{"shoe", 3, true}}));
  EXPECT_EQ(Figures("shoe"), "10 = 9 + 0 + 1");
  EXPECT_EQ(Figures("lace"), "10 = 8 + 0 + 2");
  EXPECT_EQ(shop_->Find(order)->lines, (std::vector<OrderInfoLine>{{"lace", 2, 0}, {"shoe", 4, 3}}));
  EXPECT_TRUE(shop_->Take({"shoe", 3, "more", "ann"}).ok());
  EXPECT_EQ(RefusalOf(shop_->Take({"shoe", 1, "yet more", "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_EQ(Return(order, "b").value(), (std::vector<ReturnedLine>{{"lace", 2, true}, {"shoe", 1, true}}));
  EXPECT_EQ(Figures("shoe"), "10 = 7 + 0 + 3");
  EXPECT_EQ(Figures("lace"), "10 = 10 + 0 + 0");
  EXPECT_EQ(shop_->Find(order)->state, OrderState::kSold);
  EXPECT_EQ(shop_->Find(order)->lines, (std::vector<OrderInfoLine>{{"lace", 2, 2}, {"shoe", 4, 4}}));
  // All of it came back, which every other call on the order says.
  EXPECT_EQ(RefusalOf(shop_->Commit(order)), Refusal::kReturned);
  EXPECT_EQ(RefusalOf(shop_->Cancel(order)), Refusal::kReturned);
  EXPECT_EQ(RefusalOf(shop_->Extend({.order = order}).status()), Refusal::kReturned);
  EXPECT_EQ(RefusalOfReturn(order, "c"), Refusal::kTooMany);
  EXPECT_EQ(RefusalOfReturn(order, "c", {{"lace", 1}}), Refusal::kTooMany);
  const auto again =
      shop_->ReserveBasket({.lines = {{"lace", 2}, {"shoe", 4}}, .request_id = "basket", .buyer = "ann"});
  EXPECT_EQ(again->lines(), (std::vector<OrderLine>{{"lace", 2}, {"shoe", 4}})) << "the first answer";
}

TEST_F(InventoryReturnTest, WrittenOffUnitsAndThoseOfARemovedSku_AreWithdrawn) {
  const OrderId order = SellBasket();
  EXPECT_EQ(Return(order, "a", {{"shoe", 1}, {"lace", 1}, {"shoe", 1}}, Disposition::kWriteOff).value(),
            (std::vector<ReturnedLine>{{"lace", 1, false}, {"shoe", 2, false}}));
  EXPECT_EQ(Figures("shoe"), "8 = 6 + 0 + 2");
  EXPECT_EQ(Figures("lace"), "9 = 8 + 0 + 1");
  EXPECT_TRUE(shop_->Take({"shoe", 2, "more", "ann"}).ok()) << "they do not count towards the limit";
  ASSERT_TRUE(shop_->RemoveSku("shoe").ok());
  const std::vector<ReturnedLine> rest = {{"lace", 1, true}, {"shoe", 2, false}};
  EXPECT_EQ(Return(order, "b").value(), rest);
  EXPECT_EQ(Figures("shoe"), "2 = 0 + 0 + 2");
  EXPECT_EQ(Figures("lace"), "9 = 9 + 0 + 0");
  Open();
  EXPECT_EQ(Return(order, "b").value(), rest);
  EXPECT_EQ(Figures("shoe"), "2 = 0 + 0 + 2");
}

TEST_F(InventoryReturnTest, Refusals_NameWhatIsWrong) {
  const auto held = shop_->Reserve({.sku = "lace", .request_id = "held", .ttl = absl::Minutes(5)});
  const auto cancelled = shop_->Reserve({.sku = "lace", .request_id = "cancelled"});
  ASSERT_TRUE(shop_->Cancel(cancelled->id()).ok());
  const OrderId sold = SellBasket();
  const auto text = [&](OrderId order, std::vector<OrderLine> lines = {}) {
    return std::string(Return(order, "r", std::move(lines)).status().message());
  };
  EXPECT_EQ(RefusalOfReturn(held->id(), "r"), Refusal::kWrongState);
  EXPECT_THAT(text(held->id()), HasSubstr(absl::StrCat("order ", held->id(), " cannot be returned: it is held")));
  EXPECT_EQ(RefusalOfReturn(cancelled->id(), "r"), Refusal::kCancelled);
  EXPECT_EQ(RefusalOfReturn(sold, "r", {{"shoe", 5}}), Refusal::kTooMany);
  EXPECT_THAT(text(sold, {{"shoe", 3}, {"shoe", 2}}),
              HasSubstr("has 4 units of 'shoe' left, and 5 are to be returned"));
  EXPECT_EQ(RefusalOfReturn(sold, "r", {{"hat", 1}}), Refusal::kInvalid);
  EXPECT_THAT(text(sold, {{"hat", 1}}), HasSubstr("has no units of 'hat'"));
  EXPECT_EQ(RefusalOfReturn(sold, "r", {{"shoe", 0}}), Refusal::kInvalid);
  EXPECT_EQ(RefusalOfReturn(sold, ""), Refusal::kInvalid);
  EXPECT_EQ(RefusalOfReturn(sold, std::string(kMaxRequestIdBytes + 1, 'x')), Refusal::kInvalid);
  EXPECT_EQ(RefusalOfReturn(sold, "r", {{std::string(kMaxSkuBytes, 'x'), 1}}), Refusal::kInvalid) << "not in it";
  EXPECT_THAT(text(sold, {{std::string(kMaxSkuBytes + 1, 'x'), 1}}), HasSubstr("the sku has 256 bytes"));
  EXPECT_THAT(text(sold, std::vector<OrderLine>(kMaxBasketLines + 1, {"shoe", 1})), HasSubstr("has 1001 lines"));
  EXPECT_EQ(Return(77'777, "r").status().code(), absl::StatusCode::kNotFound);
  clock_.Advance(absl::Minutes(5));
  EXPECT_EQ(RefusalOfReturn(held->id(), "r"), Refusal::kExpired);
  EXPECT_EQ(disk_->Journal().back().kind, LedgerRecord::Kind::kExpire) << "before the answer says so";
  EXPECT_TRUE(Return(sold, std::string(kMaxRequestIdBytes, 'x')).ok()) << "a refused id may be used";
}

TEST_F(InventoryReturnTest, RequestId_TakesBackOnceAndIsSharedWithOrders) {
  const OrderId order = SellBasket();
  const OrderId other = shop_->Take({"lace", 2, "taken", "bob"})->id();
  const std::vector<ReturnedLine> first = Return(order, "a", {{"lace", 1}}).value();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Return(order, "a", {{"lace", 1}}).value(), first);
    EXPECT_EQ(RefusalOfReturn(other, "a", {{"lace", 1}}), Refusal::kRequestMismatch) << "another order";
    EXPECT_EQ(RefusalOfReturn(order, "a", {{"lace", 2}}), Refusal::kRequestMismatch) << "another quantity";
    EXPECT_EQ(RefusalOfReturn(order, "a"), Refusal::kRequestMismatch) << "of all";
    EXPECT_EQ(RefusalOf(Return(order, "a", {{"lace", 1}}, Disposition::kWriteOff).status()), Refusal::kRequestMismatch);
    EXPECT_EQ(RefusalOf(shop_->Take({"lace", 1, "a", "ann"}).status()), Refusal::kRequestMismatch);
    EXPECT_EQ(RefusalOf(shop_->Restock({.sku = "lace", .request_id = "a"})), Refusal::kRequestMismatch);
    EXPECT_EQ(RefusalOfReturn(order, "taken"), Refusal::kRequestMismatch);
    const absl::Status found = shop_->FindByRequest("a").status();
    EXPECT_TRUE(absl::IsNotFound(found));
    EXPECT_THAT(std::string(found.message()), HasSubstr("is that of a return"));
    EXPECT_EQ(Figures("lace"), "10 = 7 + 0 + 3");
    Open();
  }
  // The rest of what is left when it is asked for, and the same for ever.
  const std::vector<ReturnedLine> rest = Return(order, "rest").value();
  EXPECT_EQ(Return(order, "rest").value(), rest);
  EXPECT_EQ(RefusalOfReturn(order, "rest", {{"lace", 1}, {"shoe", 4}}), Refusal::kRequestMismatch);
}

// The order is kept from its last return on, so that each return can be repeated for as long.
TEST_F(InventoryReturnTest, OrderIsKeptFromItsLastReturnOn) {
  const OrderId order = SellBasket();
  clock_.Advance(kRetention - absl::Seconds(1));
  ASSERT_TRUE(Return(order, "a", {{"lace", 1}}).ok());
  clock_.Advance(kRetention - absl::Seconds(1));
  ASSERT_TRUE(Return(order, "b", {{"lace", 1}}).ok());
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(RefusalOfReturn(order, "a", {{"lace", 1}}), Refusal::kRequestForgotten);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(Return(order, "b", {{"lace", 1}}).ok());
    EXPECT_EQ(shop_->Find(order)->lines[0], (OrderInfoLine{"lace", 2, 2}));
    Open();
  }
  clock_.Advance(kRetention - absl::Seconds(1));
  EXPECT_EQ(Return(order, "c").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RefusalOfReturn(order, "b", {{"lace", 1}}), Refusal::kRequestForgotten);
  // New orders replace those that are forgotten.
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(shop_->Take({"lace", 1, absl::StrCat(i), ""}).ok());
  EXPECT_EQ(RefusalOfReturn(order, "a", {{"lace", 1}}), Refusal::kRequestForgotten);
}

TEST_F(InventoryReturnTest, Answer_WaitsUntilItIsDurable_AndACrashBeforeLeavesNothing) {
  const OrderId order = SellBasket();
  disk_->HoldUp(true);
  InlineExecutor executor;
  std::vector<absl::Status> answers;
  const auto note = [&](const auto& answer) { answers.push_back(answer.status()); };
  shop_->ReturnAsync({.order = order, .request_id = "a"}, executor, note);
  shop_->ReturnAsync({.order = order, .request_id = "a"}, executor, note);
  shop_->ReturnAsync({.order = order, .request_id = "b"}, executor, note);
  EXPECT_EQ(answers.size(), 0u) << "not even the refusal, which the first return is the reason of";
  disk_->Crash();
  Open();
  EXPECT_EQ(answers.size(), 3u);
  EXPECT_EQ(Figures("shoe"), "10 = 6 + 0 + 4");
  EXPECT_EQ(Return(order, "a").value().size(), 2u);
}

TEST_F(InventoryReturnTest, Forms_AnswerAlike) {
  const OrderId order = SellBasket();
  const std::vector<ReturnRequest> requests = {{.order = order, .lines = {{"lace", 1}}, .request_id = "a"},
                                               {.order = 77'777, .request_id = "b"},
                                               {.order = order, .lines = {{"lace", 1}}, .request_id = "a"},
                                               {.order = order, .lines = {{"lace", 2}}, .request_id = "c"}};
  const auto many = shop_->ReturnMany(requests);
  ASSERT_EQ(many.size(), 4u);
  EXPECT_EQ(many[0].value(), (std::vector<ReturnedLine>{{"lace", 1, true}}));
  EXPECT_EQ(many[1].status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(many[2].value(), many[0].value());
  EXPECT_EQ(RefusalOf(many[3].status()), Refusal::kTooMany);
  InlineExecutor executor;
  std::promise<absl::StatusOr<std::vector<ReturnedLine>>> later;
  shop_->ReturnAsync(requests[0], executor, [&](auto answer) { later.set_value(std::move(answer)); });
  EXPECT_EQ(later.get_future().get().value(), many[0].value());
}

// Of each unit one return takes effect.
TEST_F(InventoryReturnTest, ReturnsRaceWithEachOtherAndWithTakes_EachUnitComesBackOnce) {
  ASSERT_TRUE(shop_->AddSku("boot", {.stock = 2, .shards = 2}).ok());
  for (int round = 0; round < 100; ++round) {
    const auto first = shop_->Take({"boot", 2, absl::StrCat(round), ""});
    ASSERT_TRUE(first.ok()) << first.status();
    std::atomic<int> returned{0};
    testing::RunThreads(4, [&](int thread) {
      const std::string id = absl::StrCat(round, "-", thread);
      if (thread < 3) returned += Return(first->id(), id, {{"boot", 1}}).ok();
      if (thread < 3) return;
      for (int i = 0; i < 20; ++i) {
        // One unit is resold at most: the other one is held, or on sale, or still the first buyer's.
        const auto held = shop_->Reserve({.sku = "boot", .request_id = absl::StrCat(id, "-", i)});
        if (held.ok()) EXPECT_TRUE(shop_->Cancel(held->id()).ok());
      }
    });
    EXPECT_EQ(returned, 2);
    EXPECT_EQ(Figures("boot"), "2 = 2 + 0 + 0");
  }
}

// Two growing counts tell what is sold. A sum that a return makes too high once made this kSoldOut.
TEST(InventoryReturnCountsTest, AUnitThatIsHeldAllTheTime_IsNeverSoldOut) {
  Inventory shop({.metrics = nullptr});
  ASSERT_TRUE(shop.AddSku("shoe", {.stock = 2, .shards = 2}).ok());
  ASSERT_TRUE(shop.Reserve({.sku = "shoe", .request_id = "held", .ttl = absl::InfiniteDuration()}).ok());
  std::atomic<bool> stop{false};
  testing::RunThreads(3, [&](int thread) {
    for (int i = 0; thread < 2 && i < 5'000; ++i) {
      const std::string id = absl::StrCat(thread, "-", i);
      const auto sold = shop.Take({"shoe", 1, id, ""});
      if (!sold.ok()) continue;
      const Disposition disposition = i % 2 == 0 ? Disposition::kToStock : Disposition::kWriteOff;
      EXPECT_TRUE(
          shop.Return({.order = sold->id(), .request_id = absl::StrCat("r", id), .disposition = disposition}).ok());
      if (disposition == Disposition::kWriteOff) EXPECT_TRUE(shop.Restock("shoe", 1).ok());
    }
    if (thread < 2) stop = true;
    for (int i = 0; thread == 2 && !stop; ++i) {
      const auto held = shop.Reserve({.sku = "shoe", .request_id = absl::StrCat("one", i)});
      if (held.ok()) EXPECT_TRUE(shop.Cancel(held->id()).ok());
      if (!held.ok()) ASSERT_EQ(RefusalOf(held.status()), Refusal::kAllHeld) << held.status();
    }
  });
}

// The unit was sold again since: both are taken back, the later one first.
TEST(InventoryReturnScarceTest, RefusedReturn_LeavesTheOrderAsItWas) {
  const auto disk = std::make_shared<ScarceDisk>();
  ManualClock clock;
  const auto shop =
      Inventory::Create({.ledger = std::make_unique<ScarceLedger>(disk, 1), .clock = &clock, .metrics = nullptr})
          .value();
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 4, .per_buyer_limit = 4}).ok());
  const OrderId order = shop->Take({"shoe", 4, "a", "ann"})->id();
  InlineExecutor executor;
  std::promise<absl::Status> first, back, sold, off;
  {
    const std::lock_guard lock(disk->mutex);  // All are in one batch, behind one that is being written.
    const int64_t begun = disk->batches;
    shop->ReturnAsync({.order = order, .lines = {{"shoe", 1}}, .request_id = "r1"}, executor,
                      [&](const auto& answer) { first.set_value(answer.status()); });
    while (disk->batches == begun) std::this_thread::yield();
    shop->ReturnAsync({.order = order, .lines = {{"shoe", 1}}, .request_id = "r2"}, executor,
                      [&](const auto& answer) { back.set_value(answer.status()); });
    shop->TakeAsync({"shoe", 2, "b", "bob"}, executor, [&](const auto& answer) { sold.set_value(answer.status()); });
    shop->ReturnAsync({.order = order, .request_id = "r3", .disposition = ReturnRequest::Disposition::kWriteOff},
                      executor, [&](const auto& answer) { off.set_value(answer.status()); });
    disk->full = true;
  }
  EXPECT_EQ(first.get_future().get(), absl::OkStatus());
  for (std::promise<absl::Status>* const refused : {&back, &sold, &off}) {
    EXPECT_THAT(std::string(refused->get_future().get().message()), HasSubstr("nothing has changed"));
  }
  disk->full = false;
  EXPECT_EQ(UnitsOf(*shop, "shoe"), "4 = 1 + 0 + 3");
  EXPECT_EQ(shop->Find(order)->lines, (std::vector<OrderInfoLine>{{"shoe", 4, 1}}));
  EXPECT_EQ(RefusalOf(shop->Take({"shoe", 2, "c", "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_TRUE(shop->Take({"shoe", 1, "c", "ann"}).ok());
  for (const char* const id : {"r2", "r1"}) {
    EXPECT_TRUE(shop->Return({.order = order, .lines = {{"shoe", 1}}, .request_id = id}).ok()) << id;
  }
  EXPECT_EQ(UnitsOf(*shop, "shoe"), "4 = 1 + 0 + 3");
  EXPECT_TRUE(testing::Replay(disk->Journal()).never_oversold);
}

// Keeps nothing, and holds up the append of one request.
class GateLedger final : public Ledger {
 public:
  static constexpr FingerprintKey kKey = {1, 2};

  LedgerState TakeRecovered() override {
    LedgerState state;
    state.fingerprint_key = kKey;
    return state;
  }
  uint64_t Append(LedgerRecord record) override {
    if (!record.request_id.empty() && record.request_id == held_up) {
      arrived.release();
      go_on.acquire();
    }
    return ++appended_;
  }
  absl::Status AwaitDurable(uint64_t) override { return absl::OkStatus(); }
  void NotifyDurable(uint64_t, absl::AnyInvocable<void(absl::Status)> done) override { done(absl::OkStatus()); }
  absl::Status Health() const override { return absl::OkStatus(); }

  std::string held_up;
  std::binary_semaphore arrived{0};
  std::binary_semaphore go_on{0};

 private:
  std::atomic<uint64_t> appended_{0};
};

// Tells when one thread reads it.
class WatchedClock final : public Clock {
 public:
  Instant Now() const override {
    if (std::this_thread::get_id() == watched.load()) has_read.release();
    return clock_.Now();
  }
  Instant CoarseNow() const override { return clock_.CoarseNow(); }
  absl::Time WallNow() const override { return clock_.WallNow(); }
  bool WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    return clock_.WaitUntil(changed, lock, deadline);
  }

  std::atomic<std::thread::id> watched;
  mutable std::counting_semaphore<> has_read{0};

 private:
  ManualClock clock_;
};

// Ids of orders can be guessed. A return finds no order, so it locks no buyer, and then waits for the stripe of its own
// request id. Meanwhile the order is made.
TEST(InventoryReturnGuessTest, OrderThatIsMadeDuringTheCall_DoesNotExistForIt) {
  auto made = std::make_unique<GateLedger>();
  GateLedger& gate = *made;
  WatchedClock clock;
  const auto shop =
      Inventory::Create({.ledger = std::move(made), .clock = &clock, .metrics = nullptr, .stripes = 2}).value();
  ASSERT_TRUE(shop->AddSku("free", {.stock = 9}).ok());
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 9, .per_buyer_limit = 9}).ok());
  const inventory_internal::RequestFingerprint fingerprint(GateLedger::kKey);
  int ids = 0;
  const auto id_in = [&](uint64_t stripe) {
    std::string id;
    do id = absl::StrCat("id", ids++);
    while (fingerprint(id) >> 63 != stripe);
    return id;
  };
  const OrderId guessed = shop->Take({.sku = "free", .request_id = id_in(1)})->id() + 2;
  gate.held_up = id_in(0);
  const std::string return_id = id_in(0);
  std::thread holder([&] { EXPECT_TRUE(shop->Take({.sku = "free", .request_id = gate.held_up}).ok()); });
  gate.arrived.acquire();
  std::thread returner([&] {
    clock.watched = std::this_thread::get_id();
    const auto back = shop->Return({.order = guessed, .request_id = return_id});
    clock.watched = std::thread::id();
    EXPECT_EQ(back.status().code(), absl::StatusCode::kNotFound) << back.status();
  });
  clock.has_read.acquire();  // It has looked for the order, or does so now with its stripe locked.
  const auto sold = shop->Take({"shoe", 5, id_in(1), "ann"});
  gate.go_on.release();
  holder.join();
  returner.join();
  EXPECT_EQ(sold.value().id(), guessed);
  EXPECT_TRUE(shop->Return({.order = guessed, .request_id = "now"}).ok());
}

class InventoryReturnFileTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kRetention = absl::Minutes(10);

  void Open() {
    shop_.reset();
    auto ledger = SqliteLedger::Open(path(), {.clock = &clock_, .metrics = nullptr}).value();
    shop_ =
        Inventory::Create({.ledger = std::move(ledger), .clock = &clock_, .metrics = nullptr, .retention = kRetention})
            .value();
  }
  void CloseAndAudit() {
    shop_.reset();
    EXPECT_EQ(SqliteLedger::Audit(path()), absl::OkStatus());
  }
  // So many records, older than `kRetention` afterwards or not.
  void Fill(int count) {
    std::vector<TakeRequest> requests;
    requests.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) requests.push_back({.sku = "filler", .request_id = absl::StrCat("f", filled_++)});
    for (const auto& order : shop_->TakeMany(requests)) ASSERT_TRUE(order.ok()) << order.status();
  }
  std::string path() const { return dir_.File("orders.db"); }

  const TempDir dir_;
  ManualClock clock_;
  std::unique_ptr<Inventory> shop_;
  int filled_ = 0;
};

// The row of the sale is folded, always before that of its return: the order is kept for that, and the file opens at
// each such moment. It is forgotten with its last return, with what was left.
TEST_F(InventoryReturnFileTest, SaleIsFoldedBeforeItsReturns_TheFileOpensAndForgetsBoth) {
  Open();
  ASSERT_TRUE(shop_->AddSku("filler", {.stock = 1'000'000}).ok());
  ASSERT_TRUE(shop_->AddSku("shoe", {.stock = 20, .per_buyer_limit = 9}).ok());
  ASSERT_TRUE(shop_->AddSku("lace", {.stock = 20}).ok());
  const OrderId taken = shop_->Take({"shoe", 5, "taken", "ann"})->id();
  const OrderId basket =
      shop_
          ->ReserveBasket(
              {.lines = {{"shoe", 4}, {"lace", 3}}, .request_id = "basket", .buyer = "ann", .ttl = absl::Hours(9)})
          ->id();
  const OrderId whole = shop_->Take({"lace", 2, "whole", "ann"})->id();
  Fill(1'100);
  ASSERT_TRUE(shop_->Commit(basket).ok());
  clock_.Advance(kRetention / 2);
  const auto back = [&](OrderId order, const std::string& id, std::vector<OrderLine> lines,
                        Disposition disposition = Disposition::kToStock) {
    EXPECT_TRUE(
        shop_->Return({.order = order, .lines = std::move(lines), .request_id = id, .disposition = disposition}).ok());
  };
  back(taken, "r1", {{"shoe", 1}});
  back(basket, "r2", {{"shoe", 1}, {"lace", 1}});
  back(whole, "r3", {});
  Fill(1'100);
  back(basket, "r4", {{"shoe", 1}}, Disposition::kWriteOff);
  clock_.Advance(kRetention / 2 + absl::Seconds(61));
  Fill(10);  // Prunes the first rows: the sales, not their returns.
  CloseAndAudit();
  {
    PlainSql sql(path());
    EXPECT_EQ(sql.QueryInt("SELECT journal_start FROM ledger"), 1'024);
    EXPECT_EQ(
        sql.Query("SELECT request_id, state, end_folded FROM orders WHERE request_id NOT LIKE 'f%' ORDER BY position"),
        (std::vector<PlainSql::Row>{{"taken", "sold", "1"}, {"basket", "sold", "0"}, {"whole", "sold", "1"}}));
    EXPECT_EQ(sql.QueryInt("SELECT sum(sold_forgotten) FROM skus WHERE sku <> 'filler'"), 0);
  }
  Open();
  const auto figures = [&] { return UnitsOf(*shop_, "shoe") + ", " + UnitsOf(*shop_, "lace"); };
  EXPECT_EQ(figures(), "19 = 13 + 0 + 6, 20 = 18 + 0 + 2");
  EXPECT_EQ(shop_->Find(basket)->lines, (std::vector<OrderInfoLine>{{"lace", 3, 1}, {"shoe", 4, 2}}));
  clock_.Advance(kRetention / 2);
  Fill(1'100);  // Folds the first returns, and not the last one.
  clock_.Advance(kRetention / 4);
  CloseAndAudit();
  Open();
  EXPECT_EQ(figures(), "19 = 13 + 0 + 6, 20 = 18 + 0 + 2");
  clock_.Advance(kRetention);
  Fill(3'000);
  CloseAndAudit();
  {
    PlainSql sql(path());
    EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM changes"), 0);
    EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM change_lines"), 0);
    EXPECT_EQ(sql.QueryInt("SELECT count(*) FROM order_lines"), 0);
    EXPECT_EQ(sql.Query("SELECT sku, sold_forgotten FROM skus WHERE sku <> 'filler'"),
              (std::vector<PlainSql::Row>{{"lace", "2"}, {"shoe", "6"}}));
    EXPECT_EQ(sql.QueryInt("SELECT units FROM bought WHERE sku = 'shoe' AND buyer = 'ann'"), 6);
  }
  Open();
  EXPECT_EQ(figures(), "19 = 13 + 0 + 6, 20 = 18 + 0 + 2");
  EXPECT_TRUE(shop_->Take({"shoe", 3, "more", "ann"}).ok()) << "six of nine are the buyer's";
  EXPECT_EQ(RefusalOf(shop_->Take({"shoe", 1, "yet more", "ann"}).status()), Refusal::kBuyerLimit);
  for (const char* const id : {"r1", "r2", "r3", "r4", "basket"}) {
    EXPECT_EQ(RefusalOf(shop_->Take({"lace", 1, id, ""}).status()), Refusal::kRequestForgotten) << id;
  }
}

// The times of its rows are the wall clock's, which may be set; what the inventory remembers goes by another clock.
TEST_F(InventoryReturnFileTest, WallClockIsSet_WhatTheInventoryRemembersIsInTheFile) {
  Open();
  ASSERT_TRUE(shop_->AddSku("filler", {.stock = 1'000'000}).ok());
  ASSERT_TRUE(shop_->AddSku("shoe", {.stock = 20}).ok());
  for (const absl::Duration step : {absl::Hours(2), absl::Hours(-1), absl::Hours(-3), absl::Hours(9)}) {
    const std::string name = absl::FormatDuration(step);
    const OrderId before = shop_->Take({.sku = "shoe", .request_id = absl::StrCat("before ", name)})->id();
    Fill(1'100);
    clock_.StepWallTime(step);
    const OrderId after = shop_->Take({.sku = "shoe", .request_id = absl::StrCat("after ", name)})->id();
    Fill(1'100);
    clock_.Advance(kRetention - absl::Seconds(1));
    Fill(5'000);
    for (const OrderId order : {before, after}) {
      const auto back = shop_->Return({.order = order, .request_id = absl::StrCat("return of ", order)});
      EXPECT_TRUE(back.ok()) << name << ": " << back.status();
    }
    clock_.Advance(3 * kRetention);
  }
  clock_.Advance(absl::Hours(12));  // The wall clock has been three hours behind and nine ahead of that.
  Fill(5'000);
  CloseAndAudit();
  EXPECT_GT(PlainSql(path()).QueryInt("SELECT journal_start FROM ledger"), 10'000) << "it was pruned all the same";
}

// The writer's thread waits where it reads the wall clock.
class InventoryReturnStallTest : public InventoryReturnFileTest {
 protected:
  class StalledClock final : public Clock {
   public:
    explicit StalledClock(ManualClock& clock) : clock_(clock) {}
    Instant Now() const override { return clock_.Now(); }
    Instant CoarseNow() const override { return clock_.CoarseNow(); }
    absl::Time WallNow() const override {
      if (stalls.exchange(false)) {
        stalled.release();
        go_on.acquire();
      }
      return clock_.WallNow();
    }
    bool WaitUntil(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Instant deadline) override {
      return clock_.WaitUntil(changed, lock, deadline);
    }

    mutable std::atomic<bool> stalls{false};
    mutable std::binary_semaphore stalled{0};
    mutable std::binary_semaphore go_on{0};

   private:
    ManualClock& clock_;
  };

  // Returns an order at the last moment, and stalls the writer for `stall` before it sees that.
  absl::Status ReturnDuringStall(absl::Duration stall) {
    auto ledger = SqliteLedger::Open(path(), {.clock = &stalled_clock_, .metrics = nullptr}).value();
    shop_ =
        Inventory::Create({.ledger = std::move(ledger), .clock = &clock_, .metrics = nullptr, .retention = kRetention})
            .value();
    EXPECT_TRUE(shop_->AddSku("filler", {.stock = 1'000'000}).ok());
    EXPECT_TRUE(shop_->AddSku("shoe", {.stock = 20, .per_buyer_limit = 2}).ok());
    sold_ = shop_->Take({"shoe", 2, "sold", "ann"})->id();
    Fill(1'100);
    clock_.Advance(kRetention - absl::Milliseconds(1));
    stalled_clock_.stalls = true;
    InlineExecutor executor;
    std::promise<absl::Status> first, back;
    shop_->TakeAsync({.sku = "filler", .request_id = "first"}, executor,
                     [&](const auto& answer) { first.set_value(answer.status()); });
    stalled_clock_.stalled.acquire();
    shop_->ReturnAsync({.order = sold_, .request_id = "back"}, executor,
                       [&](const auto& answer) { back.set_value(answer.status()); });
    clock_.Advance(stall);
    stalled_clock_.go_on.release();
    EXPECT_EQ(first.get_future().get(), absl::OkStatus());
    return back.get_future().get();
  }

  StalledClock stalled_clock_{clock_};
  OrderId sold_ = 0;
};

TEST_F(InventoryReturnStallTest, Return_AtTheLastMoment_IsWrittenLater) {
  EXPECT_EQ(ReturnDuringStall(absl::Seconds(59)), absl::OkStatus());
  EXPECT_EQ(UnitsOf(*shop_, "shoe"), "20 = 20 + 0 + 0");
  CloseAndAudit();
}

TEST_F(InventoryReturnStallTest, Return_OfAnOrderThatWasPrunedMeanwhile_ChangesNothing) {
  const absl::Status back = ReturnDuringStall(2 * kRetention);
  EXPECT_EQ(RefusalOf(back), Refusal::kUnavailable) << back;
  EXPECT_THAT(std::string(back.message()), HasSubstr("nothing has changed"));
  EXPECT_EQ(UnitsOf(*shop_, "shoe"), "20 = 18 + 0 + 2");
  EXPECT_EQ(shop_->Return({.order = sold_, .request_id = "back"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RefusalOf(shop_->Take({"shoe", 1, "more", "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_TRUE(shop_->Take({"shoe", 1, "of another", "bob"}).ok());
  EXPECT_EQ(shop_->Health(), absl::OkStatus());
  CloseAndAudit();
}

}  // namespace
}  // namespace stockade

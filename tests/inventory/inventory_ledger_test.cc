// What an inventory writes down, and what it does when that fails.

#include <atomic>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::RecordingDisk;
using testing::RecordingLedger;

std::unique_ptr<Inventory> Open(const std::shared_ptr<RecordingDisk>& disk, int32_t stripes = 64) {
  return Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk), .metrics = nullptr, .stripes = stripes})
      .value();
}

TEST(InventoryLedgerTest, Restart_SkusOrdersAndIdsGoOn) {
  const auto disk = std::make_shared<RecordingDisk>();
  OrderId last;
  {
    const auto shop = Open(disk);
    ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 10, .shards = 3}).ok());
    ASSERT_TRUE(shop->Restock("sneaker", 5).ok());
    ASSERT_TRUE(shop->Take({.sku = "sneaker", .quantity = 4, .request_id = "a"}).ok());
    ASSERT_TRUE(shop->Cancel(shop->Reserve({.sku = "sneaker", .request_id = "b"})->id()).ok());
    last = shop->Reserve({.sku = "sneaker", .quantity = 3, .request_id = "c"})->id();
  }
  const auto shop = Open(disk);
  EXPECT_EQ(shop->AddSku("sneaker", {.stock = 10}).code(), absl::StatusCode::kAlreadyExists);
  const StockFigures at = shop->Figures("sneaker").value();
  EXPECT_EQ(at.granted, 15);
  EXPECT_EQ(at.available, 8);
  EXPECT_EQ(at.held, 3);
  EXPECT_EQ(at.sold, 4);
  EXPECT_TRUE(shop->Commit(last).ok());
  EXPECT_GT(shop->Take({.sku = "sneaker", .quantity = 8, .request_id = "d"})->id(), last);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "sneaker", .request_id = "e"}).status()), Refusal::kSoldOut);
}

TEST(InventoryLedgerTest, Recovery_ThatDoesNotAddUp_IsDataLoss) {
  const auto disk = std::make_shared<RecordingDisk>();
  using Kind = LedgerRecord::Kind;
  disk->journal = {{.kind = Kind::kAddSku, .lines = {{"s", 1}}, .shards = 1},
                   {.kind = Kind::kTake, .order_id = 1, .request_id = "a", .lines = {{"s", 2}}}};
  EXPECT_EQ(Inventory::Create({.ledger = std::make_unique<RecordingLedger>(disk), .metrics = nullptr}).status().code(),
            absl::StatusCode::kDataLoss);
}

// A ledger that another implementation has filled. It calls `look`, if there is one, before it appends a record.
class GivenLedger final : public Ledger {
 public:
  using Look = std::function<void(const LedgerRecord&)>;
  explicit GivenLedger(LedgerState state, Look look = nullptr) : state_(std::move(state)), look_(std::move(look)) {}
  LedgerState TakeRecovered() override { return std::move(state_); }
  uint64_t Append(LedgerRecord record) override {
    if (look_) look_(record);
    return ++appended_;
  }
  absl::Status AwaitDurable(uint64_t) override { return absl::OkStatus(); }
  void NotifyDurable(uint64_t, absl::AnyInvocable<void(absl::Status)> done) override { done(absl::OkStatus()); }
  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  LedgerState state_;
  const Look look_;
  std::atomic<uint64_t> appended_{0};
};

// Order 5 has sold one of 100 units of "s".
LedgerState SoundState() {
  LedgerState state{.skus = {{.sku = "s", .granted = 100, .per_buyer_limit = 9, .sold_forgotten = 3}},
                    .orders = {{.order_id = 5,
                                .request_id = "r",
                                .lines = {{"s", 1}},
                                .buyer = "ann",
                                .state = OrderState::kSold,
                                .ended_at = absl::Now()}}};
  state.bought = {{.sku = "s", .buyer = "bob", .units = 3}};
  state.restocks = {{.order_id = 6, .request_id = "q", .sku = "s", .quantity = 1, .at = absl::Now()}};
  state.forgotten = {1, 2};
  state.last_forgotten_id = 9;
  state.fingerprint_key = FingerprintKey{3, 4};
  return state;
}

TEST(InventoryLedgerTest, Recovery_OfWhatNoInventoryHasWritten_IsDataLoss) {
  const auto create = [](const std::function<void(LedgerState & state)>& change) {
    LedgerState state = SoundState();
    change(state);
    return Inventory::Create({.ledger = std::make_unique<GivenLedger>(std::move(state)), .metrics = nullptr});
  };
  const auto expect_data_loss = [&](const std::string& why, const std::function<void(LedgerState & state)>& change) {
    const absl::Status status = create(change).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << why << ": " << status;
    EXPECT_NE(status.message().find(why), std::string::npos) << status;
  };
  const auto make_basket = [](LedgerState& state, OrderLines lines) {
    state.orders[0].kind = LedgerRecord::Kind::kReserveBasket;
    state.orders[0].lines = std::move(lines);
  };
  const auto sound = create([](LedgerState&) {});
  ASSERT_TRUE(sound.ok()) << sound.status();
  EXPECT_GT((*sound)->Take({.sku = "s", .request_id = "n", .buyer = "ann"})->id(), 9u);

  // The highest id that may come back: half of what a ledger keeps is left for new orders.
  constexpr uint64_t kHighest = uint64_t{1} << 62;
  const auto highest = create([](LedgerState& state) { state.last_forgotten_id = kHighest; });
  ASSERT_TRUE(highest.ok()) << highest.status();
  EXPECT_GT((*highest)->Take({.sku = "s", .request_id = "n", .buyer = "ann"})->id(), kHighest);
  expect_data_loss("last forgotten order", [](LedgerState& state) { state.last_forgotten_id = kHighest + 1; });
  expect_data_loss("last forgotten order", [](LedgerState& state) { state.last_forgotten_id = UINT64_MAX; });
  expect_data_loss("out of range", [](LedgerState& state) { state.orders[0].order_id = kHighest + 1; });
  expect_data_loss("out of range", [](LedgerState& state) { state.orders[0].order_id = 0; });
  expect_data_loss("out of range", [](LedgerState& state) { state.restocks[0].order_id = 0; });
  expect_data_loss("no fingerprint key", [](LedgerState& state) { state.fingerprint_key.reset(); });
  expect_data_loss("no fingerprint key", [](LedgerState& state) {
    state.fingerprint_key.reset();
    state.forgotten.clear();
  });
  expect_data_loss("SKU 's' twice", [&](LedgerState& state) { make_basket(state, {{"s", 1}, {"s", 1}}); });
  expect_data_loss("has 0 units", [&](LedgerState& state) { make_basket(state, {{"s", 0}}); });
  // Of an order that holds nothing, too.
  expect_data_loss("has -1 units", [&](LedgerState& state) {
    state.orders[0].kind = LedgerRecord::Kind::kReserve;
    state.orders[0].state = OrderState::kCancelled;
    state.orders[0].lines[0].quantity = -1;
  });
  expect_data_loss("has 0 lines", [&](LedgerState& state) { make_basket(state, {}); });
  expect_data_loss("has 2 lines", [](LedgerState& state) { state.orders[0].lines = {{"s", 1}, {"t", 1}}; });
  expect_data_loss("to which no grant leads",
                   [](LedgerState& state) { state.orders[0].kind = LedgerRecord::Kind::kCommit; });
  expect_data_loss("to which no grant leads", [](LedgerState& state) { state.orders[0].state = OrderState::kHeld; });
  expect_data_loss("has bought 4 units", [](LedgerState& state) { state.bought[0].units = 4; });
  expect_data_loss("units of SKU 's'", [](LedgerState& state) {
    state.bought = {{.sku = "s", .buyer = "bob", .units = INT64_MAX}, {.sku = "s", .buyer = "bob", .units = INT64_MAX}};
  });
}

// Versions that allowed any bytes have written such ledgers.
TEST(InventoryLedgerTest, Restart_SkuWhoseNameIsRefusedNow_IsSoldOn) {
  const auto disk = std::make_shared<RecordingDisk>();
  disk->journal = {{.kind = LedgerRecord::Kind::kAddSku, .lines = {{"caf\xe9", 2}}, .shards = 1}};
  disk->durable = 1;
  const auto shop = Open(disk);
  EXPECT_TRUE(shop->Take({.sku = "caf\xe9", .request_id = "a"}).ok());
  EXPECT_EQ(shop->Figures("caf\xe9")->available, 1);
  EXPECT_EQ(shop->Figures("th\xe9").status().message(), "Inventory 'default': Figures: there is no SKU 'th\\xe9'");
}

// What another ledger let in is as good as before; only new strings are bounded.
TEST(InventoryLedgerTest, Recovery_OfLongerStringsThanARequestMayHave_GoesOn) {
  const auto disk = std::make_shared<RecordingDisk>();
  using Kind = LedgerRecord::Kind;
  const std::string sku(300, 's');
  const std::string longer(400, 'x');
  disk->journal = {{.kind = Kind::kAddSku, .lines = {{sku, 5}}, .shards = 1},
                   {.kind = Kind::kReserve, .order_id = 1, .request_id = longer, .lines = {{sku, 2}}, .buyer = longer}};
  const auto shop = Open(disk);
  EXPECT_TRUE(shop->Take({.sku = sku, .request_id = "b"}).ok());
  EXPECT_TRUE(shop->Restock(sku, 1).ok());
  EXPECT_EQ(RefusalOf(shop->Take({.sku = sku + "s", .request_id = "c"}).status()), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(shop->AddSku(sku.substr(1), {.stock = 1})), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = sku, .request_id = longer}).status()), Refusal::kInvalid);
  EXPECT_TRUE(shop->Commit(1).ok());
  EXPECT_EQ(shop->Figures(sku)->available, 3);
  EXPECT_EQ(shop->Figures(sku)->sold, 3);
}

// The ledger breaks at each position in turn. Before it: acknowledged. From it on: Unavailable, and whatever the disk
// kept is what a restart finds.
TEST(InventoryLedgerTest, Failure_AtEachPosition_NothingIsHalfDone) {
  for (uint64_t fail_at = 1; fail_at <= 7; ++fail_at) {
    SCOPED_TRACE(fail_at);
    const auto disk = std::make_shared<RecordingDisk>();
    disk->fail_at = fail_at;
    auto shop = Open(disk, 1);  // One stripe numbers its orders without a gap.
    std::vector<absl::Status> answers;
    answers.push_back(shop->AddSku("s", {.stock = 10}));
    answers.push_back(shop->Take({.sku = "s", .quantity = 2, .request_id = "a"}).status());
    answers.push_back(shop->Reserve({.sku = "s", .quantity = 3, .request_id = "b"}).status());
    answers.push_back(shop->Commit(2));
    answers.push_back(shop->Reserve({.sku = "s", .quantity = 1, .request_id = "c"}).status());
    answers.push_back(shop->Cancel(3));
    answers.push_back(shop->Restock("s", 5));
    for (uint64_t i = 0; i < answers.size(); ++i) {
      EXPECT_EQ(answers[i].ok(), i + 1 < fail_at) << i << ": " << answers[i];
      if (i + 1 >= fail_at) {
        EXPECT_EQ(RefusalOf(answers[i]), Refusal::kUnavailable) << i << ": " << answers[i];
        EXPECT_THAT(
            std::string(answers[i].message()),
            HasSubstr(i + 1 == fail_at ? "': not known to be durable: " : "': nothing has changed by this call: "));
      }
    }
    EXPECT_EQ(RefusalOf(shop->Health()), Refusal::kUnavailable);
    EXPECT_EQ(RefusalOf(shop->Available("s").status()), Refusal::kUnavailable);
    EXPECT_EQ(RefusalOf(shop->Take({.sku = "s", .quantity = 2, .request_id = "a"}).status()), Refusal::kUnavailable);
    shop.reset();

    disk->Crash();
    shop = Open(disk);
    EXPECT_TRUE(shop->Health().ok());
    if (fail_at == 1) {
      EXPECT_EQ(RefusalOf(shop->Available("s").status()), Refusal::kUnknownSku);
      continue;
    }
    static constexpr int64_t kAvailable[] = {10, 8, 5, 5, 4, 5};
    const StockFigures at = shop->Figures("s").value();
    EXPECT_EQ(at.available, kAvailable[fail_at - 2]);
    EXPECT_EQ(at.granted, at.available + at.held + at.sold);
  }
}

// The answer comes later, on another thread.
TEST(InventoryLedgerTest, ExecutorHasNoMemoryForTheAnswer_DoneIsInvokedAllTheSame) {
  class NoMemory : public Executor {
   public:
    void Schedule(Task) override { throw std::bad_alloc(); }
  } executor;
  const auto disk = std::make_shared<RecordingDisk>();
  const auto shop = Open(disk);
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 5}).ok());
  disk->HoldUp(true);
  std::promise<absl::Status> answer;
  shop->TakeAsync({.sku = "shoe", .request_id = "a"}, executor,
                  [&](absl::StatusOr<Order> order) { answer.set_value(order.status()); });
  disk->HoldUp(false);
  EXPECT_EQ(answer.get_future().get(), absl::OkStatus());
}

// An answer that rests on a record that is not durable yet waits for it: here the record never is.
TEST(InventoryLedgerTest, AnswerThatRestsOnAnotherCall_WaitsForItsRecord) {
  using Call = std::function<absl::Status(Inventory&)>;
  const auto take = [](const std::string& sku, const std::string& id, int64_t quantity) -> Call {
    return [=](Inventory& shop) { return shop.Take({.sku = sku, .quantity = quantity, .request_id = id}).status(); };
  };
  const Call add = [](Inventory& shop) { return shop.AddSku("hat", {.stock = 1}); };
  const Call remove = [](Inventory& shop) { return shop.RemoveSku("shoe"); };
  const Call restock = [](Inventory& shop) { return shop.Restock("shoe", 1); };
  const Call reshard = [](Inventory& shop) { return shop.Reshard("shoe", 1); };
  const std::pair<Call, Call> pairs[] = {
      {add, add}, {remove, remove}, {remove, restock}, {remove, reshard}, {take("shoe", "a", 1), take("shoe", "a", 2)}};
  for (size_t i = 0; i < std::size(pairs); ++i) {
    SCOPED_TRACE(i);
    const auto disk = std::make_shared<RecordingDisk>();
    const auto shop = Open(disk);
    ASSERT_TRUE(shop->AddSku("shoe", {.stock = 5}).ok());
    disk->HoldUp(true);
    std::thread first([&] { EXPECT_EQ(RefusalOf(pairs[i].first(*shop)), Refusal::kUnavailable); });
    disk->AwaitWaiting(1);
    std::atomic<bool> answered{false};
    std::thread second([&] {
      EXPECT_EQ(RefusalOf(pairs[i].second(*shop)), Refusal::kUnavailable);
      answered = true;
    });
    const auto waiting = [&] {
      const std::lock_guard lock(disk->mutex);
      return disk->waiting == 2;
    };
    while (!answered && !waiting()) std::this_thread::yield();
    EXPECT_FALSE(answered);
    {
      std::unique_lock lock(disk->mutex);
      disk->fail_at = disk->journal.size();
      disk->Settle(lock);
    }
    first.join();
    second.join();
  }
}

TEST(InventoryLedgerTest, Journal_UnderLoad_EveryPrefixCoversWhatWasTaken) {
  const auto disk = std::make_shared<RecordingDisk>();
  const auto shop = Open(disk);
  ASSERT_TRUE(shop->AddSku("s", {.stock = 3, .shards = 3}).ok());
  const int64_t rounds = testing::Scaled(1'500, 50'000);
  testing::RunThreads(4, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const auto held = shop->Reserve({.sku = "s", .quantity = 1 + i % 2, .request_id = id});
      if (held.ok()) {
        EXPECT_TRUE((i % 16 == 0 ? shop->Commit(held->id()) : shop->Cancel(held->id())).ok());
      }
      if (i % 16 == 0) {
        EXPECT_TRUE(shop->Restock("s", 1).ok());
      }
    }
  });
  const testing::Replayed replayed = testing::Replay(disk->Journal());
  EXPECT_TRUE(replayed.never_oversold);
  const StockFigures at = shop->Figures("s").value();
  EXPECT_EQ(at.granted, at.available + at.held + at.sold);
  EXPECT_EQ(replayed.state.skus.at(0).granted, at.granted);
}

std::string FiguresOf(Inventory& shop) {
  const absl::StatusOr<SkuSnapshot> seen = shop.Snapshot("s");
  if (!seen.ok()) return "not for sale";
  return absl::StrCat(seen->available, " there, ", seen->held, " held, ", seen->sold, " sold of ", seen->granted);
}

// What leaves the shards has left them when a record is appended, and nothing else has changed yet.
TEST(InventoryLedgerTest, EachKindOfChange_TakesBeforeItsRecordAndGivesAfterIt) {
  using Kind = LedgerRecord::Kind;
  ManualClock clock;
  std::vector<std::pair<Kind, std::string>> seen;
  Inventory* shop = nullptr;
  const auto look = [&](const LedgerRecord& record) {
    std::string figures = absl::StrCat("units ", record.lines.empty() ? 0 : record.lines[0].quantity);
    // While a SKU comes or goes, nobody can look.
    if (record.kind != Kind::kAddSku && record.kind != Kind::kRemoveSku) {
      std::thread([&] { figures = FiguresOf(*shop); }).join();
    }
    seen.emplace_back(record.kind, figures);
  };
  Inventory inventory(
      {.ledger = std::make_unique<GivenLedger>(LedgerState(), look), .clock = &clock, .metrics = nullptr});
  shop = &inventory;
  const auto change = [&](Kind kind, const absl::Status& status, const std::string& during, const std::string& after) {
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_EQ(seen, (std::vector{std::pair(kind, during)}));
    EXPECT_EQ(FiguresOf(*shop), after);
    seen.clear();
  };
  change(Kind::kAddSku, shop->AddSku("s", {.stock = 10}), "units 10", "10 there, 0 held, 0 sold of 10");
  const auto held = shop->Reserve({.sku = "s", .quantity = 2, .request_id = "a"});
  change(Kind::kReserve, held.status(), "8 there, 0 held, 0 sold of 10", "8 there, 2 held, 0 sold of 10");
  const auto basket = shop->ReserveBasket({.lines = {{"s", 1}}, .request_id = "b"});
  change(Kind::kReserveBasket, basket.status(), "7 there, 2 held, 0 sold of 10", "7 there, 3 held, 0 sold of 10");
  const auto taken = shop->Take({.sku = "s", .quantity = 3, .request_id = "c"});
  change(Kind::kTake, taken.status(), "4 there, 3 held, 0 sold of 10", "4 there, 3 held, 3 sold of 10");
  change(Kind::kCommit, shop->Commit(held->id()), "4 there, 3 held, 3 sold of 10", "4 there, 1 held, 5 sold of 10");
  change(Kind::kCancel, shop->Cancel(basket->id()), "4 there, 1 held, 5 sold of 10", "5 there, 0 held, 5 sold of 10");
  const auto late = shop->Reserve({.sku = "s", .request_id = "d", .ttl = absl::Seconds(1)});
  change(Kind::kReserve, late.status(), "4 there, 0 held, 5 sold of 10", "4 there, 1 held, 5 sold of 10");
  clock.Advance(absl::Seconds(1));
  testing::Await("the reaper", [&] { return shop->Available("s").value() == 5; });
  change(Kind::kExpire, absl::OkStatus(), "4 there, 1 held, 5 sold of 10", "5 there, 0 held, 5 sold of 10");
  change(Kind::kRestock, shop->Restock("s", 2), "5 there, 0 held, 5 sold of 10", "7 there, 0 held, 5 sold of 12");
  const absl::Status again = shop->Restock({.sku = "s", .quantity = 1, .request_id = "e"});
  change(Kind::kRestock, again, "7 there, 0 held, 5 sold of 12", "8 there, 0 held, 5 sold of 13");
  change(Kind::kRemoveSku, shop->RemoveSku("s"), "units 8", "not for sale");
}

}  // namespace
}  // namespace stockade

// What an inventory does when its ledger has no room: what was refused never was.

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/scarce_ledger.h"
#include "stockade/base/executor.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {
namespace {

using ::stockade::testing::Replay;
using ::stockade::testing::Replayed;
using ::stockade::testing::RunThreads;
using ::stockade::testing::ScarceDisk;
using ::stockade::testing::ScarceLedger;
using ::testing::HasSubstr;

std::unique_ptr<Inventory> Open(const std::shared_ptr<ScarceDisk>& disk, Clock* clock = Clock::System(),
                                uint32_t seed = 1) {
  return Inventory::Create({.ledger = std::make_unique<ScarceLedger>(disk, seed), .clock = clock, .metrics = nullptr})
      .value();
}

std::string FiguresOf(const Inventory& shop, const std::string& sku) {
  const StockFigures at = shop.Figures(sku).value();
  return absl::StrCat(at.granted, " = ", at.available, " + ", at.held, " + ", at.sold);
}

void ExpectNothingChanged(const absl::Status& status) {
  EXPECT_EQ(RefusalOf(status), Refusal::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing has changed: the disk is full"));
}

TEST(InventoryScarceTest, EveryCall_WithoutRoom_ChangesNothing_AndWorksOnceThereIs) {
  const auto disk = std::make_shared<ScarceDisk>();
  const auto shop = Open(disk);
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 10, .per_buyer_limit = 5}).ok());
  ASSERT_TRUE(shop->AddSku("lace", {.stock = 10}).ok());
  const OrderId sold = shop->Reserve({.sku = "shoe", .quantity = 2, .request_id = "a", .buyer = "ann"})->id();
  const OrderId cancelled =
      shop->ReserveBasket({.lines = {{"shoe", 1}, {"lace", 1}}, .request_id = "b", .buyer = "ann"})->id();
  const OrderId bought = shop->Take({.sku = "lace", .quantity = 2, .request_id = "bought"})->id();
  const std::string shoes = FiguresOf(*shop, "shoe");
  const std::string laces = FiguresOf(*shop, "lace");
  const std::pair<std::string, std::function<absl::Status()>> calls[] = {
      {"take", [&] { return shop->Take({.sku = "shoe", .request_id = "c", .buyer = "ann"}).status(); }},
      {"reserve", [&] { return shop->Reserve({.sku = "shoe", .request_id = "d", .buyer = "ann"}).status(); }},
      {"basket",
       [&] {
         return shop->ReserveBasket({.lines = {{"lace", 2}}, .request_id = "e"}).status();
       }},
      {"return", [&] { return shop->Return({.order = bought, .request_id = "r"}).status(); }},
      {"extend", [&] { return shop->Extend({.order = sold, .ttl = absl::Minutes(20)}).status(); }},
      {"commit", [&] { return shop->Commit(sold); }},
      {"cancel", [&] { return shop->Cancel(cancelled); }},
      {"restock", [&] { return shop->Restock("lace", 5); }},
      {"restock once", [&] { return shop->Restock({.sku = "shoe", .quantity = 3, .request_id = "f"}); }},
      {"add", [&] { return shop->AddSku("hat", {.stock = 1}); }},
      {"remove", [&] { return shop->RemoveSku("lace"); }},
  };
  disk->full = true;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, call] : calls) {
      SCOPED_TRACE(name);
      ExpectNothingChanged(call());
      EXPECT_TRUE(shop->Health().ok()) << shop->Health();
      EXPECT_EQ(FiguresOf(*shop, "shoe"), shoes);
      EXPECT_EQ(FiguresOf(*shop, "lace"), laces);
      EXPECT_EQ(shop->StateOf(sold).value(), OrderState::kHeld);
      EXPECT_EQ(shop->StateOf(cancelled).value(), OrderState::kHeld);
      EXPECT_EQ(shop->Find(bought)->lines[0].returned, 0);
      EXPECT_EQ(shop->Available("hat").status().code(), absl::StatusCode::kNotFound);
    }
  }
  disk->full = false;
  for (const auto& [name, call] : calls) EXPECT_TRUE(call().ok()) << name;
  EXPECT_TRUE(shop->Restock({.sku = "shoe", .quantity = 3, .request_id = "f"}).ok());
  EXPECT_EQ(FiguresOf(*shop, "shoe"), "13 = 9 + 1 + 3");
  EXPECT_EQ(FiguresOf(*shop, "lace"), "2 = 0 + 2 + 0");
  EXPECT_EQ(FiguresOf(*shop, "hat"), "1 = 1 + 0 + 0");
  // 2 sold, 1 taken, 1 reserved: one more is within the limit.
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "shoe", .quantity = 2, .request_id = "g", .buyer = "ann"}).status()),
            Refusal::kBuyerLimit);
  EXPECT_TRUE(shop->Take({.sku = "shoe", .request_id = "g", .buyer = "ann"}).ok());
}

// The grant is undone first, and leaves the buyer without units. The undone cancel gives them back.
TEST(InventoryScarceTest, CancelAndAGrantThatNeedsIt_WithoutRoom_LeaveTheBuyersUnits) {
  const auto disk = std::make_shared<ScarceDisk>();
  const auto shop = Open(disk);
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 10, .per_buyer_limit = 2}).ok());
  const auto held = shop->Reserve({.sku = "shoe", .quantity = 2, .request_id = "a", .buyer = "ann"});
  ASSERT_TRUE(held.ok()) << held.status();
  InlineExecutor executor;
  std::promise<absl::Status> first, cancelled, granted;
  {
    // Both records are in one batch, behind one that is being written.
    const std::lock_guard lock(disk->mutex);
    const int64_t begun = disk->batches;
    shop->TakeAsync({.sku = "shoe", .request_id = "b", .buyer = "bob"}, executor,
                    [&](const absl::StatusOr<Order>& order) { first.set_value(order.status()); });
    while (disk->batches == begun) std::this_thread::yield();
    shop->CancelAsync(held->id(), executor, [&](absl::Status status) { cancelled.set_value(std::move(status)); });
    shop->TakeAsync({.sku = "shoe", .quantity = 2, .request_id = "c", .buyer = "ann"}, executor,
                    [&](const absl::StatusOr<Order>& order) { granted.set_value(order.status()); });
    disk->full = true;
  }
  EXPECT_EQ(first.get_future().get(), absl::OkStatus());
  ExpectNothingChanged(cancelled.get_future().get());
  ExpectNothingChanged(granted.get_future().get());
  disk->full = false;
  EXPECT_EQ(FiguresOf(*shop, "shoe"), "10 = 7 + 2 + 1");
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "shoe", .request_id = "d", .buyer = "ann"}).status()), Refusal::kBuyerLimit);
  EXPECT_TRUE(shop->Cancel(held->id()).ok());
  EXPECT_TRUE(shop->Take({.sku = "shoe", .quantity = 2, .request_id = "e", .buyer = "ann"}).ok());
}

TEST(InventoryScarceTest, Expiry_WithoutRoom_IsTriedAgain) {
  const auto disk = std::make_shared<ScarceDisk>();
  ManualClock clock;
  const auto shop = Open(disk, &clock);
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 1}).ok());
  const OrderId held = shop->Reserve({.sku = "shoe", .request_id = "a", .ttl = absl::Seconds(10)})->id();
  disk->full = true;
  clock.Advance(absl::Seconds(10));
  while (disk->refused == 0) std::this_thread::yield();
  EXPECT_EQ(FiguresOf(*shop, "shoe"), "1 = 0 + 1 + 0");
  EXPECT_EQ(shop->StateOf(held).value(), OrderState::kExpired);
  ExpectNothingChanged(shop->Commit(held));
  disk->full = false;
  clock.Advance(absl::Seconds(1));
  while (shop->Figures("shoe")->available == 0) std::this_thread::yield();
  EXPECT_TRUE(shop->Take({.sku = "shoe", .request_id = "b"}).ok());
}

// An answer that says that an order is over used to be given without a record of that: after a restart with the clock
// set back the order was held, and could be sold.
TEST(InventoryScarceTest, OrderWhoseTtlHasPassed_WithoutRoom_IsNeverSaidToBeOver) {
  const auto disk = std::make_shared<ScarceDisk>();
  ManualClock clock;
  auto shop = Open(disk, &clock);
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 2, .per_buyer_limit = 1}).ok());
  const ReserveRequest request{.sku = "shoe", .request_id = "a", .buyer = "ann", .ttl = absl::Seconds(10)};
  const OrderId held = shop->Reserve(request)->id();
  disk->full = true;
  clock.Advance(absl::Seconds(10));
  while (disk->refused == 0) std::this_thread::yield();
  InlineExecutor executor;
  const auto async = [&](auto call) {
    std::promise<absl::Status> answer;
    (shop.get()->*call)(held, executor, [&](absl::Status status) { answer.set_value(std::move(status)); }, {});
    return answer.get_future().get();
  };
  for (int round = 0; round < 3; ++round) {
    ExpectNothingChanged(shop->Cancel(held));
    ExpectNothingChanged(async(&Inventory::CancelAsync));
    ExpectNothingChanged(shop->CancelMany({&held, 1}).at(0));
    ExpectNothingChanged(shop->Commit(held));
    ExpectNothingChanged(async(&Inventory::CommitAsync));
    ExpectNothingChanged(shop->CommitMany({&held, 1}).at(0));
    ExpectNothingChanged(shop->Reserve(request).status());
    EXPECT_EQ(FiguresOf(*shop, "shoe"), "2 = 1 + 1 + 0");
  }
  disk->full = false;
  EXPECT_TRUE(shop->Cancel(held).ok());
  EXPECT_EQ(shop->Commit(held).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FiguresOf(*shop, "shoe"), "2 = 2 + 0 + 0");
  shop.reset();
  clock.StepWallTime(-absl::Hours(1));
  shop = Open(disk, &clock);
  EXPECT_EQ(shop->StateOf(held).value(), OrderState::kExpired);
  EXPECT_EQ(shop->Commit(held).code(), absl::StatusCode::kFailedPrecondition);
  // The buyer's limit is free again.
  EXPECT_TRUE(shop->Take({.sku = "shoe", .request_id = "b", .buyer = "ann"}).ok());
}

// The answers that callers got.
struct Told {
  std::mutex mutex;
  std::map<std::string, OrderId> granted = {};
  std::set<std::string> refused = {};  // Unavailable, and never granted since.
  std::map<OrderId, OrderState> ended = {};
};

class Buyer {
 public:
  Buyer(Inventory& shop, Told& told, uint32_t seed, int number)
      : shop_(shop), told_(told), random_(seed * 100 + static_cast<uint32_t>(number)), number_(number) {}

  void Act() {
    const std::string sku = Pick("a", "b", "limited");
    switch (random_() % 10) {
      case 0:
        Told(Request(), shop_.Take({.sku = sku, .quantity = Few(), .request_id = Request(), .buyer = Name()}));
        break;
      case 1:
      case 2:
      case 3: {
        const absl::Duration ttl = random_() % 3 == 0 ? absl::Milliseconds(1 + random_() % 5) : absl::Hours(1);
        Told(Request(),
             shop_.Reserve({.sku = sku, .quantity = Few(), .request_id = Request(), .buyer = Name(), .ttl = ttl}));
        break;
      }
      case 4:
        Told(Request(),
             shop_.ReserveBasket({.lines = {{"a", Few()}, {"b", Few()}}, .request_id = Request(), .buyer = Name()}));
        break;
      case 5: {
        const RestockRequest request{.sku = sku, .request_id = absl::StrCat("restock-", number_, "-", sku, "-", next_)};
        const absl::Status first = shop_.Restock(request);
        EXPECT_TRUE(first.ok() || RefusalOf(first) == Refusal::kUnavailable) << first;
        (void)(random_() % 2 == 0 ? shop_.Restock(request) : shop_.Restock(sku, 1));
        break;
      }
      case 6: {
        const std::string own = absl::StrCat("own-", number_, "-", next_++);
        if (!shop_.AddSku(own, {.stock = 2}).ok()) break;
        Told(Request(), shop_.Reserve({.sku = own, .request_id = Request()}));
        (void)shop_.RemoveSku(own);
        break;
      }
      default: EndOne(random_() % 2 == 0); break;
    }
    // The same request again, now and then.
    if (random_() % 4 != 0) ++next_;
  }

  void EndOne(bool commit) {
    if (open_.empty()) return;
    const OrderId id = open_.back();
    const absl::Status ended = commit ? shop_.Commit(id) : shop_.Cancel(id);
    if (RefusalOf(ended) == Refusal::kUnavailable) return;
    open_.pop_back();
    if (!ended.ok()) return;  // It has expired.
    const std::lock_guard lock(told_.mutex);
    told_.ended[id] = commit ? OrderState::kSold : OrderState::kCancelled;
  }
  bool has_open() const { return !open_.empty(); }

 private:
  template <typename Answer>
  void Told(const std::string& request, const absl::StatusOr<Answer>& answer) {
    if (answer.ok() && std::find(open_.begin(), open_.end(), answer->id()) == open_.end())
      open_.push_back(answer->id());
    const std::lock_guard lock(told_.mutex);
    if (answer.ok()) {
      const auto [first, is_new] = told_.granted.emplace(request, answer->id());
      EXPECT_EQ(first->second, answer->id()) << request;
      told_.refused.erase(request);
    } else if (RefusalOf(answer.status()) == Refusal::kUnavailable && !told_.granted.contains(request)) {
      told_.refused.insert(request);
    }
  }
  std::string Request() const { return absl::StrCat(number_, "-", next_); }
  std::string Name() const { return absl::StrCat("buyer-", number_ % 2); }
  int64_t Few() { return 1 + static_cast<int64_t>(random_() % 2); }
  const char* Pick(const char* a, const char* b, const char* c) {
    const char* const all[] = {a, b, c};
    return all[random_() % 3];
  }

  Inventory& shop_;
  struct Told& told_;
  std::minstd_rand random_;
  const int number_;
  int next_ = 0;
  std::vector<OrderId> open_;
};

void ExpectLedgerIs(const Replayed& ledger, const Told& told, const std::map<std::string, std::string>& figures) {
  EXPECT_TRUE(ledger.never_oversold);
  std::map<std::string, LedgerState::Order> by_request;
  std::map<std::string, int64_t> held;
  std::map<std::string, int64_t> sold;
  std::map<std::string, int64_t> limited;
  for (const LedgerState::Order& order : ledger.state.orders) {
    EXPECT_TRUE(by_request.emplace(order.request_id, order).second) << order.request_id;
    for (const OrderLine& line : order.lines) {
      if (order.state == OrderState::kHeld) held[line.sku] += line.quantity;
      if (order.state == OrderState::kSold) sold[line.sku] += line.quantity;
      if (order.state == OrderState::kSold && line.sku == "limited") limited[order.buyer] += line.quantity;
    }
  }
  for (const LedgerState::Sku& sku : ledger.state.skus) {
    const int64_t available = sku.granted - held[sku.sku] - sold[sku.sku];
    EXPECT_EQ(figures.at(sku.sku),
              absl::StrCat(sku.granted, " = ", available, " + ", held[sku.sku], " + ", sold[sku.sku]));
  }
  for (const auto& [buyer, units] : limited) EXPECT_LE(units, 6) << buyer;
  for (const auto& [request, id] : told.granted) {
    ASSERT_TRUE(by_request.contains(request)) << request;
    EXPECT_EQ(by_request.at(request).order_id, id);
    if (!told.ended.contains(id)) continue;
    // To cancel what has expired is OK, too.
    const OrderState state = by_request.at(request).state;
    EXPECT_EQ(state == OrderState::kExpired ? OrderState::kCancelled : state, told.ended.at(id)) << request;
  }
  for (const std::string& request : told.refused) EXPECT_FALSE(by_request.contains(request)) << request;
}

TEST(InventoryScarceTest, RandomRefusals_FromManyThreads_LeaveMemoryAsTheLedgerIs) {
  constexpr int kThreads = 4;
  int64_t refused = 0;
  const int64_t rounds = testing::Scaled(10, 200);
  for (uint32_t seed = 1; seed <= rounds; ++seed) {
    SCOPED_TRACE(seed);
    const auto disk = std::make_shared<ScarceDisk>();
    ManualClock clock;
    auto shop = Open(disk, &clock, seed);
    ASSERT_TRUE(shop->AddSku("a", {.stock = 8, .shards = 3}).ok());
    ASSERT_TRUE(shop->AddSku("b", {.stock = 5, .shards = 2}).ok());
    ASSERT_TRUE(shop->AddSku("limited", {.stock = 20, .per_buyer_limit = 6}).ok());
    disk->refusals_in_ten = static_cast<int>(seed % 4) * 2 + 1;
    Told told;
    std::vector<Buyer> buyers;
    buyers.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) buyers.emplace_back(*shop, told, seed, i);
    RunThreads(kThreads, [&](int i) {
      for (int step = 0; step < 150; ++step) {
        buyers[static_cast<size_t>(i)].Act();
        if (i == 0) clock.Advance(absl::Milliseconds(1));
      }
    });
    disk->refusals_in_ten = 0;
    for (Buyer& buyer : buyers) {
      while (buyer.has_open()) buyer.EndOne(false);
    }
    std::map<std::string, std::string> figures;
    for (const LedgerState::Sku& sku : Replay(disk->Journal()).state.skus) {
      // What has expired, and was refused perhaps only now.
      while (shop->Figures(sku.sku)->held != 0) clock.Advance(absl::Milliseconds(10));
      figures[sku.sku] = FiguresOf(*shop, sku.sku);
    }
    shop = nullptr;
    ExpectLedgerIs(Replay(disk->Journal()), told, figures);
    // And as the next one finds it.
    shop = Open(disk, &clock);
    for (const auto& [sku, at] : figures) EXPECT_EQ(FiguresOf(*shop, sku), at) << sku;
    refused += disk->refused;
    if (HasFailure()) break;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace stockade

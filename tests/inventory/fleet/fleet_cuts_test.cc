// A proxy cuts the connection before, within and after each packet of each call. Each cut is a fault that
// STOCKADE_TEST_FAULTS can repeat.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "inventory/fleet/fleet_faults_test.h"
#include "support/fault_driver.h"
#include "support/scale.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::Await;
using testing::Fault;
using testing::FaultsToRun;
using testing::kNothingHasChanged;
using testing::kNotKnown;
using testing::Says;

// What a call works on: SKUs of its own, and an order on them.
struct Goods {
  std::string sku;
  std::string other_sku;
  OrderId held = 0;
};

struct Call {
  const char* name;
  std::function<absl::Status(Inventory&, const Goods&)> run;
  // What it changes in the row of its SKU: granted, units, held, sold; and in the number of orders.
  std::vector<int64_t> change;
  // Sent again, it has no other effect.
  bool may_repeat = true;
  // What it answers if it was carried out before.
  absl::StatusCode repeated = absl::StatusCode::kOk;
  Refusal answer = Refusal::kNone;
};

void PrintTo(const Call& call, std::ostream* out) { *out << call.name; }

std::vector<Call> Calls() {
  return {
      {"Take",
       [](Inventory& shop, const Goods& goods) {
         return shop.Take({.sku = goods.sku, .quantity = 2, .request_id = goods.sku, .buyer = "ann"}).status();
       },
       {0, -2, 0, 2, 1}},
      {"Reserve",
       [](Inventory& shop, const Goods& goods) {
         return shop.Reserve({.sku = goods.sku, .quantity = 2, .request_id = goods.sku, .buyer = "ann"}).status();
       },
       {0, -2, 2, 0, 1}},
      {"ReserveBasket",
       [](Inventory& shop, const Goods& goods) {
         return shop
             .ReserveBasket({.lines = {{goods.sku, 2}, {goods.other_sku, 1}}, .request_id = goods.sku, .buyer = "ann"})
             .status();
       },
       {0, -2, 2, 0, 1}},
      {"Commit", [](Inventory& shop, const Goods& goods) { return shop.Commit(goods.held); }, {0, 0, -3, 3, 0}},
      {"Cancel", [](Inventory& shop, const Goods& goods) { return shop.Cancel(goods.held); }, {0, 3, -3, 0, 0}},
      {"RestockWithId",
       [](Inventory& shop, const Goods& goods) {
         return shop.Restock({.sku = goods.sku, .quantity = 5, .request_id = goods.sku});
       },
       {5, 5, 0, 0, 1}},
      {.name = "Restock",
       .run = [](Inventory& shop, const Goods& goods) { return shop.Restock(goods.sku, 5); },
       .change = {5, 5, 0, 0, 0},
       .may_repeat = false},
      {"Reshard", [](Inventory& shop, const Goods& goods) { return shop.Reshard(goods.sku, 3); }, {0, 0, 0, 0, 0}},
      {.name = "RemoveSku",
       .run = [](Inventory& shop, const Goods& goods) { return shop.RemoveSku(goods.sku); },
       .change = {-7, -7, 0, 0, 0},
       .repeated = absl::StatusCode::kNotFound},
      {.name = "AddSku",
       .run =
           [](Inventory& shop, const Goods& goods) {
             return shop.AddSku(goods.sku + "-new", {.stock = 4, .shards = 2, .per_buyer_limit = 3});
           },
       .change = {0, 0, 0, 0, 0},
       .repeated = absl::StatusCode::kAlreadyExists},
      {.name = "Refusal",
       .run =
           [](Inventory& shop, const Goods& goods) {
             return shop.Take({.sku = goods.sku, .quantity = 8, .request_id = goods.sku, .buyer = "ann"}).status();
           },
       .change = {0, 0, 0, 0, 0},
       .answer = Refusal::kAllHeld},
  };
}

class FleetCutsTest : public testing::FleetFaultsTest, public ::testing::WithParamInterface<Call> {
 protected:
  void SetUp() override {
    FleetFaultsTest::SetUp();
    if (IsSkipped()) return;
    // It connects first and so does the upkeep, so that the others send little more than their calls.
    direct_ = Connect();
  }
  void TearDown() override {
    direct_.reset();
    FleetFaultsTest::TearDown();
  }

  Goods NewGoods() {
    const std::string name = Concat(GetParam().name, ++goods_);
    Goods goods{.sku = name, .other_sku = name + "-other"};
    EXPECT_TRUE(direct_->AddSku(goods.sku, {.stock = 10, .shards = 2, .per_buyer_limit = 10}).ok());
    EXPECT_TRUE(direct_->AddSku(goods.other_sku, {.stock = 10}).ok());
    const auto held = direct_->Reserve({.sku = goods.sku, .quantity = 3, .request_id = name + "-held", .buyer = "bob"});
    EXPECT_TRUE(held.ok()) << held.status();
    goods.held = held.ok() ? held->id() : 0;
    return goods;
  }
  // As Call::change has them, at this moment.
  std::vector<int64_t> Now(const Goods& goods) const {
    const auto row = server()
                         .Query(Concat("SELECT s.granted,SUM(t.units),SUM(t.held),SUM(t.sold),(SELECT COUNT(*) FROM ",
                                       Table("orders"), ") FROM ", Table("skus"), " s JOIN ", Table("stock"),
                                       " t USING (sku_id) WHERE s.sku='", goods.sku, "'"))
                         .at(0);
    std::vector<int64_t> numbers;
    for (const std::string& number : row) numbers.push_back(std::stoll(number));
    return numbers;
  }
  static std::vector<int64_t> After(std::vector<int64_t> numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += GetParam().change[i];
    return numbers;
  }
  static bool IsAnswer(const absl::Status& status, bool again) {
    if (again && status.code() == GetParam().repeated) return true;
    return GetParam().answer == Refusal::kNone ? status.ok() : RefusalOf(status) == GetParam().answer;
  }
  FleetInventoryOptions OneLane(absl::Duration patience) const {
    FleetInventoryOptions options = ByProxy(patience);
    options.lanes = 1;
    return options;
  }

  // Before, within and after all that the call sends and gets: "request" and "reply", each after so many bytes.
  std::vector<Fault> CutsOf(Inventory& shop, int64_t parts) {
    const Goods goods = NewGoods();
    EXPECT_TRUE(shop.Available(goods.sku).ok()) << "so that it is connected";
    const auto before = proxy().counts();
    EXPECT_TRUE(IsAnswer(GetParam().run(shop, goods), false));
    const auto after = proxy().counts();
    const auto sent = static_cast<int64_t>(after.to_server - before.to_server);
    const auto got = static_cast<int64_t>(after.to_client - before.to_client);
    std::vector<Fault> cuts;
    for (int64_t i = 0; i < parts; ++i) {
      cuts.push_back({.kind = "request", .numbers = {sent * i / parts}});
      cuts.push_back({.kind = "reply", .numbers = {got * i / parts}});
    }
    cuts.push_back({.kind = "request", .numbers = {sent - 1}});
    cuts.push_back({.kind = "reply", .numbers = {got - 1}});
    return FaultsToRun(std::move(cuts));
  }

  const testing::FaultDriver driver_{
      {{"request", {INT32_MAX}, [this](auto bytes) { proxy().CutRequestAfter(static_cast<uint64_t>(bytes[0])); }},
       {"reply", {INT32_MAX}, [this](auto bytes) { proxy().CutReplyAfter(static_cast<uint64_t>(bytes[0])); }}},
      [](int64_t) {}};

 private:
  std::unique_ptr<Inventory> direct_;
  int goods_ = 0;
};

TEST_P(FleetCutsTest, Connection_IsCutAnywhere_AndTheCallIsCarriedOutOnce) {
  const auto shop = Connect(OneLane(absl::Seconds(60)));
  const std::vector<Fault> cuts = CutsOf(*shop, std::max<int64_t>(testing::Scaled(8, 60), 3));
  for (const Fault& cut : cuts) {
    SCOPED_TRACE(testing::ToText({&cut, 1}));
    const Goods goods = NewGoods();
    const std::vector<int64_t> before = Now(goods);
    driver_.Make(cut);
    const absl::Status status = GetParam().run(*shop, goods);
    proxy().CancelCut();
    EXPECT_TRUE(IsAnswer(status, false)) << status;
    EXPECT_EQ(Now(goods), After(before));
  }
  EXPECT_GE(proxy().counts().cut, cuts.size() / 2) << "of " << cuts.size();
}

TEST_P(FleetCutsTest, Connection_IsCutAnywhereAndStaysAway_AndTheAnswerIsTrue) {
  std::unique_ptr<Inventory> shop;
  Await("a connection in a short time", [&] {
    auto connected = FleetInventory::Connect(OneLane(absl::Milliseconds(100)));
    if (connected.ok()) shop = *std::move(connected);
    return connected.ok();
  });
  int unknown = 0;
  for (const Fault& cut : CutsOf(*Connect(OneLane(absl::Seconds(60))), std::max<int64_t>(testing::Scaled(4, 60), 4))) {
    SCOPED_TRACE(testing::ToText({&cut, 1}));
    const Goods goods = NewGoods();
    Await("the ledger", [&] { return shop->Available(goods.sku).ok(); });
    const std::vector<int64_t> before = Now(goods);
    proxy().Refuse();
    driver_.Make(cut);
    const absl::Status status = GetParam().run(*shop, goods);
    proxy().CancelCut();
    if (Says(status, kNothingHasChanged)) {
      EXPECT_EQ(Now(goods), before) << status;
    } else if (IsAnswer(status, false)) {
      EXPECT_EQ(Now(goods), After(before)) << "answered before the cut";
    } else {
      ++unknown;
      EXPECT_TRUE(Says(status, kNotKnown)) << status;
    }
    proxy().Accept();
    if (!GetParam().may_repeat) {
      Await("the ledger", [&] { return shop->Available(goods.sku).ok(); });
      EXPECT_TRUE(Now(goods) == before || Now(goods) == After(before));
      continue;
    }
    absl::Status again;
    Await("an answer", [&] {
      again = GetParam().run(*shop, goods);
      return RefusalOf(again) != Refusal::kUnavailable;
    });
    EXPECT_TRUE(IsAnswer(again, true)) << again;
    EXPECT_EQ(Now(goods), After(before));
  }
  if (GetParam().answer == Refusal::kNone && !testing::FaultsAreGiven()) {
    EXPECT_GT(unknown, 0) << "no cut came when the outcome was open";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FleetCutsTest, ::testing::ValuesIn(Calls()),
                         [](const auto& call) { return std::string(call.param.name); });

}  // namespace
}  // namespace stockade

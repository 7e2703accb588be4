// What the planner makes of rows and calls, without a ledger.

#include "fleet/fleet_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fleet_rules.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kSneaker = 1;
constexpr uint64_t kBoot = 2;
constexpr absl::Duration kMaxHold = absl::Hours(1);
constexpr FleetHash kAnn = {1};
constexpr FleetHash kBob = {2};

// Of the SKU `name`, with these units for sale in its segments.
FleetSkuRow Sku(const std::string& name, std::vector<int64_t> units, FleetLatch latch = {}) {
  FleetSkuRow row;
  row.name = name;
  row.segments = static_cast<int64_t>(units.size());
  row.granted = 100;
  row.latch = latch;
  for (const int64_t in_segment : units) row.units += in_segment;
  row.segment_units = std::move(units);
  return row;
}
FleetOrderRow Held(OrderId id, std::map<uint64_t, int64_t> lines, int64_t at = kNever) {
  FleetOrderRow order;
  order.id = id;
  order.kind = lines.size() > 1 ? OrderKind::kBasket : OrderKind::kReserve;
  order.lines = std::move(lines);
  order.ttl_us = order.at = at;
  return order;
}
template <typename Statement>
std::vector<Statement> Of(const FleetPacket& packet) {
  std::vector<Statement> found;
  for (const auto& [statement, tag] : packet) {
    if (const auto* const it = std::get_if<Statement>(&statement)) found.push_back(*it);
  }
  return found;
}

// What happens to the orders: id, version as read, state.
std::vector<std::string> ChangesIn(const FleetPacket& packet) {
  constexpr const char* kStates[] = {"held", "sold", "cancelled", "expired"};
  std::vector<std::string> changes;
  const statements::EndOrders ends = Of<statements::EndOrders>(packet).at(0);
  for (const auto& [id, version, state, at] : ends.rows) {
    changes.push_back(base_internal::Concat(id, ".", version, " ", kStates[static_cast<int>(state)],
                                            state == OrderState::kHeld ? base_internal::Concat(" until ", at) : ""));
  }
  return changes;
}

class FleetPlanTest : public ::testing::Test {
 protected:
  std::unique_ptr<FleetEndCall> End(OrderId id, OrderState to) {
    auto call = std::make_unique<FleetEndCall>();
    call->id = id;
    call->to = to;
    call->done = [this, id](const absl::Status& status) { answers_[id] = status; };
    return call;
  }
  // A plan of ends of the order 1, by which one unit of the sneaker comes back, with the SKU in this state.
  FleetPacket Cancel(FleetSkuRow row) {
    FleetEnds calls;
    calls.push_back(End(1, OrderState::kCancelled));
    FleetEndPlanner ending(std::move(calls), checks_, kMaxHold);
    ending.Decide({{1, Held(1, {{kSneaker, 1}})}}, 0);
    EXPECT_THAT(ending.DecideSkus({{kSneaker, std::move(row)}}), IsEmpty());
    EXPECT_EQ(ending.calls.size(), 1);
    return ending.Packet(/*lane_index=*/0);
  }
  // A request with lines of the sneaker and perhaps the boot.
  std::unique_ptr<FleetGrantCall> Request(OrderId number, std::vector<int64_t> quantities, FleetHash buyer = {}) {
    auto call = std::make_unique<FleetGrantCall>();
    call->kind = quantities.size() > 1 ? OrderKind::kBasket : OrderKind::kReserve;
    for (size_t i = 0; i < quantities.size(); ++i) {
      call->skus.push_back(kSneaker + i);
      call->lines.push_back({.sku = i == 0 ? "sneaker" : "boot", .quantity = quantities[i]});
    }
    call->request_id = "request";
    call->request = {static_cast<uint8_t>(number)};
    call->buyer = buyer == FleetHash{} ? "" : "a buyer";
    call->buyer_hash = buyer;
    call->ttl = absl::InfiniteDuration();
    call->imported_fingerprint = 100 + number;
    call->asker = &asker_;
    call->done = [this, number](const absl::Status& status) { answers_[number] = status; };
    return call;
  }
  FleetGrantPlanner Decide(FleetGrantRows look, std::vector<std::unique_ptr<FleetGrantCall>> calls) {
    FleetGrantPlanner planner(std::move(look), checks_, [&](const FleetGrantCall&, OrderId) {
      EXPECT_THAT(answers_, IsEmpty());  // Counted before it is answered.
      ++repeats_;
    });
    for (auto& call : calls) planner.Decide(std::move(call));
    return planner;
  }
  template <typename... Calls>
  static FleetGrants These(Calls... calls) {
    FleetGrants these;
    (these.push_back(std::move(calls)), ...);
    return these;
  }
  Refusal RefusalOfOne(FleetGrantRows look, std::unique_ptr<FleetGrantCall> call) {
    answers_.clear();
    Decide(std::move(look), These(std::move(call)));
    return answers_.empty() ? Refusal::kNone : RefusalOf(answers_.begin()->second);
  }

  const RequestChecks checks_{"shop"};
  OrderCall asker_{OrderCall::Kind::kCommit, 0};
  std::map<OrderId, absl::Status> answers_;
  int repeats_ = 0;
};

TEST_F(FleetPlanTest, Ends_AreJudgedByTheirRowsAndTheTime) {
  FleetEnds calls;
  for (OrderId id = 1; id <= 8; ++id) calls.push_back(End(id, id == 3 ? OrderState::kExpired : OrderState::kSold));
  FleetEndPlanner ending(std::move(calls), checks_, kMaxHold);
  FleetOrderRows orders = {{1, Held(1, {{kSneaker, 1}}, 11)}, {2, Held(2, {{kSneaker, 1}}, 10)},
                           {3, Held(3, {{kSneaker, 1}}, 11)}, {4, Held(4, {{kSneaker, 1}})},
                           {5, Held(5, {{kSneaker, 1}})},     {6, Held(6, {{kSneaker, 1}})},
                           {7, Held(7, {{kSneaker, 1}})}};
  orders[4].state = OrderState::kSold;
  orders[5].state = OrderState::kCancelled;
  orders[6].kind = OrderKind::kRestock;
  orders[7].damage = "the state 9";
  ending.Decide(std::move(orders), /*now=*/10);
  ASSERT_EQ(ending.calls.size(), 2);
  EXPECT_EQ(ending.StateOf(*ending.calls[0]), OrderState::kSold);
  EXPECT_EQ(ending.StateOf(*ending.calls[1]), OrderState::kExpired);  // Due, so that it is not committed.
  EXPECT_EQ(answers_[3], absl::OkStatus());                           // Not due yet: nothing to do.
  EXPECT_EQ(answers_[4], absl::OkStatus());
  EXPECT_EQ(RefusalOf(answers_[5]), Refusal::kCancelled);
  EXPECT_EQ(answers_[6].code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(answers_[7].message(), HasSubstr("order 7 has the state 9"));
  EXPECT_EQ(answers_[8].code(), absl::StatusCode::kNotFound);
}

TEST_F(FleetPlanTest, EndsOfADamagedSku_AreRefusedAlone) {
  FleetEnds calls;
  for (const OrderId id : {1, 2, 3}) calls.push_back(End(id, OrderState::kSold));
  FleetEndPlanner ending(std::move(calls), checks_, kMaxHold);
  ending.Decide({{1, Held(1, {{kSneaker, 1}})}, {2, Held(2, {{kSneaker, 1}, {kBoot, 1}})}, {3, Held(3, {{9, 1}})}}, 0);
  FleetSkuRow boot = Sku("boot", {1});
  boot.segments = 2;
  EXPECT_EQ(ending.DecideSkus({{kSneaker, Sku("sneaker", {1})}, {kBoot, boot}}).size(), 2);
  ASSERT_EQ(ending.calls.size(), 1);
  EXPECT_EQ(ending.calls[0]->id, 1);
  EXPECT_THAT(answers_[2].message(), HasSubstr("'boot' has 1 rows of stock instead of 2"));
  EXPECT_EQ(RefusalOf(answers_[3]), Refusal::kUnavailable);  // It has no row at all.
}

TEST_F(FleetPlanTest, PacketOfEnds_SumsUpSkusAndBuyersInTheOrderOfTheLocks) {
  FleetEnds calls;
  calls.push_back(End(1, OrderState::kSold));
  calls.push_back(End(2, OrderState::kCancelled));
  calls.push_back(End(3, OrderState::kCancelled));
  FleetEndPlanner ending(std::move(calls), checks_, kMaxHold);
  FleetOrderRows orders = {
      {1, Held(1, {{kSneaker, 2}})}, {2, Held(2, {{kSneaker, 3}, {kBoot, 1}})}, {3, Held(3, {{kSneaker, 4}})}};
  orders[2].buyer = orders[3].buyer = kAnn;
  orders[2].version = 7;
  ending.Decide(std::move(orders), 0);
  FleetSkuRow sneaker = Sku("sneaker", {0, 0, 0});
  sneaker.per_buyer_limit = 9;
  ending.DecideSkus({{kSneaker, sneaker}, {kBoot, Sku("boot", {5})}});
  const FleetPacket packet = ending.Packet(/*lane_index=*/7);
  ASSERT_EQ(packet.size(), 4);
  const auto& back = std::get<statements::ReturnUnits>(packet[0].statement).rows;
  ASSERT_EQ(back.size(), 2);
  EXPECT_EQ(std::tuple(back[0].sku, back[0].units, back[0].removed, back[0].to_limbo),
            std::tuple(kSneaker, 7, false, false));
  EXPECT_EQ(std::tuple(back[1].sku, back[1].units), std::tuple(kBoot, 1));
  EXPECT_THAT(ChangesIn(packet), ElementsAre("1.0 sold", "2.7 cancelled", "3.0 cancelled"));
  const auto& buyers = std::get<statements::CreditBuyers>(packet[2].statement).rows;
  ASSERT_EQ(buyers.size(), 1);
  EXPECT_EQ(std::tuple(buyers[0].sku, buyers[0].buyer, buyers[0].units), std::tuple(kSneaker, kAnn, 7));
  const auto& stock = std::get<statements::SettleStock>(packet[3].statement).rows;
  ASSERT_EQ(stock.size(), 2);
  EXPECT_EQ(std::tuple(stock[0].segment, stock[0].units, stock[0].held, stock[0].sold), std::tuple(1, 7, 9, 2));
  EXPECT_THAT(ending.Limbo(), IsEmpty());
}

TEST_F(FleetPlanTest, Extensions_AreBoundedAndMoveNoUnits) {
  constexpr int64_t kMinute = 60'000'000;
  std::vector<OrderCall> askers(6, OrderCall(ExtendRequest{}));
  FleetEnds calls;
  for (OrderId id = 1; id <= 6; ++id) {
    calls.push_back(End(id, OrderState::kHeld));
    calls.back()->ttl_us = (id == 2 ? 100 : id == 3 ? 5 : 20) * kMinute;
    calls.back()->asker = &askers[id - 1];
  }
  FleetEndPlanner ending(std::move(calls), checks_, kMaxHold);
  FleetOrderRows orders;
  for (OrderId id = 1; id <= 5; ++id) {  // Granted at 0 for ten minutes, and now it is five past.
    orders[id] = Held(id, {{kSneaker, 1}}, id == 4 ? 5 * kMinute : 10 * kMinute);
    orders[id].version = static_cast<int64_t>(id);
  }
  orders[5].state = OrderState::kSold;
  ending.Decide(std::move(orders), 5 * kMinute);
  EXPECT_THAT(ending.Skus(), ElementsAre(kSneaker)) << "of the one that is due";
  EXPECT_THAT(ending.DecideSkus({{kSneaker, Sku("sneaker", {0})}}), IsEmpty());
  const FleetPacket packet = ending.Packet(0);
  EXPECT_THAT(ChangesIn(packet), ElementsAre("1.1 held until 1500000000", "2.2 held until 3600000000", "4.4 expired"));
  EXPECT_EQ(Of<statements::SettleStock>(packet)[0].rows[0].held, 1);
  EXPECT_EQ(answers_[3], absl::OkStatus());  // Not shorter.
  EXPECT_EQ(askers[2].expires_at, absl::FromUnixMicros(10 * kMinute));
  EXPECT_EQ(RefusalOf(answers_[5]), Refusal::kCommitted);
  EXPECT_EQ(answers_[6].code(), absl::StatusCode::kNotFound);
  for (const auto& call : ending.calls) ending.AnswerDone(*call);
  EXPECT_EQ(askers[0].expires_at, absl::FromUnixMicros(25 * kMinute));
  EXPECT_EQ(askers[1].expires_at, absl::FromUnixMicros(60 * kMinute));
  EXPECT_EQ(RefusalOf(answers_[4]), Refusal::kExpired);
}

TEST_F(FleetPlanTest, ExtensionOfAnyNumbers_DoesNotOverflow) {
  for (const int64_t number : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX}) {
    FleetOrderRow order = Held(1, {{kSneaker, 1}}, number);
    for (const int64_t other : {INT64_MIN, int64_t{0}, INT64_MAX}) {
      order.created_at = other;
      order.ttl_us = number;
      EXPECT_GE(order.ExtensionUs(other, number, other), 0);
      order.ttl_us = other;
      EXPECT_GE(order.ExtensionUs(number, other, number), 0);
    }
  }
}

TEST_F(FleetPlanTest, UnitsThatComeBack_GoWhereTheSkusLatchSays) {
  const auto to_stock = [&](const FleetPacket& packet) { return Of<statements::SettleStock>(packet)[0].rows[0].units; };
  EXPECT_EQ(to_stock(Cancel(Sku("sneaker", {0}))), 1);
  for (const FleetMode mode : {FleetMode::kLatched, FleetMode::kDraining}) {
    const FleetPacket packet = Cancel(Sku("sneaker", {0}, {.mode = mode, .epoch = 5}));
    EXPECT_EQ(to_stock(packet), 0);
    const auto row = Of<statements::ReturnUnits>(packet)[0].rows[0];
    EXPECT_EQ(std::tuple(row.to_limbo, row.epoch, row.units), std::tuple(true, 5, 1));
  }
  FleetSkuRow removed = Sku("sneaker", {0}, {.mode = FleetMode::kLatched});
  removed.removed = true;
  const FleetPacket packet = Cancel(removed);
  EXPECT_EQ(to_stock(packet), 0);
  EXPECT_TRUE(Of<statements::ReturnUnits>(packet)[0].rows[0].removed);
  EXPECT_FALSE(Of<statements::ReturnUnits>(packet)[0].draining_is_open);
}

TEST_F(FleetPlanTest, SplitOff_KeepsAtLeastOne) {
  const auto kept = [&](std::vector<size_t> lines, size_t most) {
    FleetEnds calls;
    for (const size_t each : lines) {
      calls.push_back(End(calls.size(), OrderState::kSold));
      calls.back()->lines = each;
    }
    const size_t all = calls.size();
    const FleetEnds later = SplitOff(calls, most);
    EXPECT_EQ(calls.size() + later.size(), all);
    return calls.size();
  };
  EXPECT_EQ(kept({}, 1), 0);
  EXPECT_EQ(kept({5}, 1), 1);
  EXPECT_EQ(kept({2, 2}, 3), 1);
  EXPECT_EQ(kept({2, 2}, 4), 2);
  EXPECT_EQ(kept({2, 2, 1}, 4), 2);
}

TEST_F(FleetPlanTest, Requests_AreRefusedInTheOrderThatInventoryStates) {
  FleetGrantRows look;
  look.skus = {{kSneaker, Sku("sneaker", {2, 1})}};
  look.skus[kSneaker].per_buyer_limit = 3;
  look.buyer_units[{kSneaker, kAnn}] = 1;
  EXPECT_EQ(RefusalOfOne(look, Request(1, {2}, kAnn)), Refusal::kNone);
  EXPECT_EQ(RefusalOfOne(look, Request(1, {3}, kAnn)), Refusal::kBuyerLimit);
  EXPECT_EQ(RefusalOfOne(look, Request(1, {3}, kBob)), Refusal::kNone);
  EXPECT_EQ(RefusalOfOne(look, Request(1, {1})), Refusal::kInvalid);              // Without a buyer.
  EXPECT_EQ(RefusalOfOne(look, Request(1, {9, 1}, kBob)), Refusal::kBuyerLimit);  // Before the unknown SKU.
  EXPECT_EQ(RefusalOfOne(look, Request(1, {1, 1}, kBob)), Refusal::kUnknownSku);
  look.skus[kSneaker].per_buyer_limit = 0;
  EXPECT_EQ(RefusalOfOne(look, Request(1, {3})), Refusal::kNone);
  EXPECT_EQ(RefusalOfOne(look, Request(1, {4})), Refusal::kAllHeld);
  EXPECT_EQ(RefusalOfOne(look, Request(1, {101})), Refusal::kSoldOut);
  look.skus[kSneaker].name = "another with this hash";
  EXPECT_EQ(RefusalOfOne(look, Request(1, {1})), Refusal::kUnknownSku);
  look.skus[kSneaker] = Sku("sneaker", {3});
  look.skus[kSneaker].damage = "the mode 7";
  EXPECT_EQ(RefusalOfOne(look, Request(1, {1})), Refusal::kUnavailable);
  look.skus[kSneaker].removed = true;
  EXPECT_EQ(RefusalOfOne(look, Request(1, {1})), Refusal::kUnknownSku);
}

TEST_F(FleetPlanTest, RequestsOfOneLook_LeaveUnitsAndLimitsToEachOther) {
  FleetGrantRows look;
  look.skus = {{kSneaker, Sku("sneaker", {3})}, {kBoot, Sku("boot", {5})}};
  look.skus[kBoot].per_buyer_limit = 2;
  const FleetGrantPlanner planner =
      Decide(look, These(Request(1, {2}), Request(2, {2}), Request(3, {1, 2}, kAnn), Request(4, {4}), Request(5, {1})));
  ASSERT_EQ(planner.trying.size(), 2);
  EXPECT_EQ(planner.trying[1]->request, FleetHash{3});
  ASSERT_EQ(planner.later.size(), 2);  // What is before them may be rolled back.
  EXPECT_TRUE(planner.later[0]->look);
  EXPECT_EQ(planner.Wanted(kSneaker), 3);
  EXPECT_THAT(planner.short_skus(), ElementsAre(kSneaker));
  EXPECT_EQ(RefusalOf(answers_.at(4)), Refusal::kAllHeld);
}

TEST_F(FleetPlanTest, Repeats_GetTheFirstAnswer_OrSayWhatDiffers) {
  FleetGrantRows look;
  look.now = 10;
  look.skus = {{kSneaker, Sku("sneaker", {0})}, {kBoot, Sku("boot", {0})}};
  look.orders[{1}] = Held(41, {{kSneaker, 2}});
  look.orders[{2}] = std::nullopt;
  look.orders[{3}] = Held(43, {{kSneaker, 2}}, 10);  // Due, so that it has to expire first.
  look.forgotten = {104};
  FleetGrantPlanner planner = Decide(look, These(Request(1, {2}), Request(2, {2}), Request(4, {2})));
  EXPECT_TRUE(planner.found_repeat());
  EXPECT_EQ(repeats_, 1);
  EXPECT_EQ(answers_[1], absl::OkStatus());
  EXPECT_EQ(RefusalOf(answers_[2]), Refusal::kRequestForgotten);
  EXPECT_EQ(RefusalOf(answers_[4]), Refusal::kRequestForgotten);
  const auto differs = [&](std::unique_ptr<FleetGrantCall> call) {
    EXPECT_EQ(RefusalOfOne(look, std::move(call)), Refusal::kRequestMismatch);
    return std::string(answers_.begin()->second.message());
  };
  EXPECT_THAT(differs(Request(1, {1})), HasSubstr("quantity"));
  EXPECT_THAT(differs(Request(1, {2}, kAnn)), HasSubstr("buyer"));
  EXPECT_THAT(differs(Request(1, {2, 1})), HasSubstr("call (one of"));
  auto shorter = Request(1, {2});
  shorter->ttl = absl::Seconds(1);
  EXPECT_THAT(differs(std::move(shorter)), HasSubstr("ttl"));
  auto other = Request(1, {2});
  other->skus[0] = kBoot;
  EXPECT_THAT(differs(std::move(other)), HasSubstr("sku"));
  auto due = Request(3, {2});
  due->ttl = absl::Microseconds(10);
  FleetGrantPlanner again = Decide(look, These(std::move(due)));
  ASSERT_EQ(again.due.size(), 1);
  EXPECT_EQ(again.due[0].second, 43);
  look.orders[{1}]->damage = "0 units";
  EXPECT_EQ(RefusalOfOne(look, Request(1, {2})), Refusal::kUnavailable);
}

TEST_F(FleetPlanTest, PacketOfGrants_HasATagForEachPayment) {
  FleetGrants calls = These(Request(1, {1, 4}, kAnn), Request(2, {2}, kAnn));
  calls[1]->kind = OrderKind::kTake;
  FleetGrantBatch trial;
  trial.Add(calls);
  trial.payments.at(kSneaker).limit = 5;
  trial.payments.at(kBoot).merges = true;
  const FleetPacket packet = trial.Packet(calls, 70, /*is_imported=*/true);
  ASSERT_EQ(packet.size(), 5);
  EXPECT_THAT(Of<statements::InsertRequests>(packet)[0].fingerprints, ElementsAre(101, 102));
  EXPECT_THAT(Of<statements::InsertRequests>(packet)[0].rows,
              ElementsAre(std::pair(FleetHash{1}, 70), std::pair(FleetHash{2}, 71)));
  const auto buyers = Of<statements::ChargeBuyers>(packet)[0].rows;
  ASSERT_EQ(buyers.size(), 1);  // Of the SKU with a limit.
  EXPECT_EQ(std::tuple(buyers[0].units, buyers[0].limit), std::tuple(3, 5));
  EXPECT_EQ(Of<statements::InsertOrders>(packet)[0].rows[0].lines.size(), 2);
  const auto pays = Of<statements::Pay>(packet);
  EXPECT_EQ(std::tuple(pays[0].sku, pays[0].held, pays[0].sold, pays[0].merges), std::tuple(kSneaker, 1, 2, false));
  EXPECT_EQ(std::tuple(pays[1].sku, pays[1].held, pays[1].sold, pays[1].merges), std::tuple(kBoot, 4, 0, true));
  EXPECT_EQ(trial.SkuOf(packet[3].tag), kSneaker);
  EXPECT_EQ(trial.SkuOf(packet[4].tag), kBoot);
  EXPECT_EQ(trial.SkuOf(FleetGrantBatch::kOrders), std::nullopt);
  EXPECT_THAT(Of<statements::InsertRequests>(trial.Packet(calls, 70, false))[0].fingerprints, IsEmpty());
}

TEST_F(FleetPlanTest, Restock_GoesToStockOrToLimbo_AndHasAnOrderIfItHasAnId) {
  const FleetPacket open = RestockPacket(kSneaker, Sku("sneaker", {1, 1}), 5, std::pair(FleetHash{1}, OrderId{9}));
  EXPECT_FALSE(Of<statements::Restock>(open)[0].to_limbo);
  EXPECT_EQ(Of<statements::InsertOrders>(open)[0].rows[0].kind, OrderKind::kRestock);
  EXPECT_EQ(Of<statements::SpreadUnits>(open)[0].segments, 2);
  for (const FleetMode mode : {FleetMode::kLatched, FleetMode::kDraining}) {
    const FleetPacket limbo = RestockPacket(kSneaker, Sku("sneaker", {0}, {.mode = mode, .epoch = 3}), 5, {});
    ASSERT_EQ(limbo.size(), 1);
    EXPECT_TRUE(Of<statements::Restock>(limbo)[0].to_limbo);
    EXPECT_EQ(Of<statements::Restock>(limbo)[0].epoch, 3);
  }
}

TEST_F(FleetPlanTest, Latch_OfOpenSkusWithoutUnits) {
  const auto latches = [](FleetSkuRow row) { return LatchPacket(kSneaker, row, absl::Seconds(1)).has_value(); };
  EXPECT_TRUE(latches(Sku("sneaker", {0, 0})));
  EXPECT_FALSE(latches(Sku("sneaker", {0, 1})));
  EXPECT_FALSE(latches(Sku("sneaker", {0}, {.mode = FleetMode::kLatched})));
  EXPECT_FALSE(latches(Sku("sneaker", {0}, {.mode = FleetMode::kDraining})));
  EXPECT_EQ(Of<statements::Latch>(*LatchPacket(kSneaker, Sku("sneaker", {0}), absl::Seconds(1)))[0].lease_us,
            1'000'000);
  EXPECT_EQ(Of<statements::MoveLimbo>(MovePacket({.sku = kSneaker, .epoch = 4}))[0].epoch, 4);
}

TEST_F(FleetPlanTest, Forget_CountsWhatWasSold_AndLeavesDamagedOrders) {
  FleetOrderRows orders = {{1, Held(1, {{kSneaker, 2}, {kBoot, 1}})},
                           {2, Held(2, {{kSneaker, 3}})},
                           {3, Held(3, {{kSneaker, 4}})},
                           {4, Held(4, {{kSneaker, 5}})}};
  orders[1].state = orders[3].state = orders[4].state = OrderState::kSold;
  orders[2].state = OrderState::kCancelled;
  orders[3].kind = OrderKind::kRestock;
  orders[4].damage = "0 units";
  const auto forget = Of<statements::Forget>(ForgetPacket(orders));
  EXPECT_THAT(forget[0].orders,
              ElementsAre(std::pair(OrderId{1}, 0), std::pair(OrderId{2}, 0), std::pair(OrderId{3}, 0)));
  EXPECT_THAT(forget[0].sold, ElementsAre(std::pair(kSneaker, 2), std::pair(kBoot, 1)));
  EXPECT_THAT(ForgetPacket({{4, orders[4]}}), IsEmpty());
  // Less what came back, in the version that was read.
  orders[1].returned = {{kSneaker, 2}};
  orders[1].version = 7;
  const auto changed = Of<statements::Forget>(ForgetPacket({{1, orders[1]}}));
  EXPECT_THAT(changed[0].orders, ElementsAre(std::pair(OrderId{1}, 7)));
  EXPECT_THAT(changed[0].sold, ElementsAre(std::pair(kSneaker, 0), std::pair(kBoot, 1)));
}

class FleetReturnPlanTest : public FleetPlanTest {
 protected:
  // Three sneakers and two boots, of which one boot came back before.
  static FleetOrderRow Sold() {
    FleetOrderRow order = Held(1, {{kSneaker, 3}, {kBoot, 2}});
    order.state = OrderState::kSold;
    order.version = 4;
    order.buyer = kAnn;
    order.returned = {{kBoot, 1}};
    return order;
  }
  static FleetReturnCall Return(std::vector<int64_t> quantities, ChangeKind kind = ChangeKind::kReturn) {
    FleetReturnCall call{.id = 1, .kind = kind, .request_id = "return", .request = {7}};
    for (size_t i = 0; i < quantities.size(); ++i) {
      call.skus.push_back(kSneaker + i);
      call.lines.push_back({.sku = i == 0 ? "sneaker" : "boot", .quantity = quantities[i]});
    }
    return call;
  }
  Refusal RefusalOfOrder(const FleetReturnCall& call, FleetOrderRow order) {
    return RefusalOf(FleetReturnPlanner(call, checks_).Decide(std::move(order)));
  }
};

TEST_F(FleetReturnPlanTest, Order_IsSoldAndHasTheUnitsLeft) {
  EXPECT_EQ(RefusalOfOrder(Return({3, 1}), Sold()), Refusal::kNone);
  EXPECT_EQ(RefusalOfOrder(Return({}), Sold()), Refusal::kNone);
  EXPECT_EQ(RefusalOfOrder(Return({4}), Sold()), Refusal::kTooMany);
  EXPECT_EQ(RefusalOfOrder(Return({1, 2}), Sold()), Refusal::kTooMany);
  FleetOrderRow order = Sold();
  order.returned = order.lines;
  EXPECT_EQ(RefusalOfOrder(Return({}), order), Refusal::kTooMany);
  EXPECT_TRUE(order.AllReturned());
  order.lines.erase(kBoot);
  EXPECT_EQ(RefusalOfOrder(Return({1, 1}), order), Refusal::kTooMany);
  order.returned.clear();
  EXPECT_EQ(RefusalOfOrder(Return({1, 1}), order), Refusal::kInvalid) << "it has no boots";
  order.damage = "0 units";
  EXPECT_EQ(RefusalOfOrder(Return({1}), order), Refusal::kUnavailable);
  for (const auto& [state, refusal] : {std::pair(OrderState::kHeld, Refusal::kWrongState),
                                       {OrderState::kCancelled, Refusal::kCancelled},
                                       {OrderState::kExpired, Refusal::kExpired}}) {
    order = Sold();
    order.state = state;
    EXPECT_EQ(RefusalOfOrder(Return({1}), order), refusal);
  }
}

TEST_F(FleetReturnPlanTest, Packet_NamesTheVersionAndPutsUnitsWhereTheLatchSays) {
  const FleetReturnCall call = Return({});
  FleetReturnPlanner planner(call, checks_);
  ASSERT_TRUE(planner.Decide(Sold()).ok());
  EXPECT_THAT(planner.Skus(), ElementsAre(kSneaker, kBoot));
  FleetSkuRow sneaker = Sku("sneaker", {5, 5});
  sneaker.per_buyer_limit = 4;
  const FleetLatch latch = {.mode = FleetMode::kLatched, .epoch = 9, .lease = absl::Seconds(1)};
  ASSERT_TRUE(planner.DecideSkus({{kSneaker, sneaker}, {kBoot, Sku("boot", {0}, latch)}}).ok());
  const FleetPacket packet = planner.Packet(/*lane_index=*/3);
  const statements::ChangeSold order = Of<statements::ChangeSold>(packet).at(0);
  EXPECT_EQ(std::pair(order.id, order.version), std::pair(OrderId{1}, int64_t{4}));
  const statements::InsertChange change = Of<statements::InsertChange>(packet).at(0);
  EXPECT_EQ(change.version, 5);
  EXPECT_TRUE(change.of_all);
  ASSERT_EQ(change.lines.size(), 2u);
  EXPECT_EQ(std::pair(change.lines[1].quantity, change.lines[1].to_stock), std::pair(int64_t{1}, true));
  EXPECT_THAT(Of<statements::InsertRequests>(packet).at(0).rows, ElementsAre(std::pair(FleetHash{7}, OrderId{1})));
  const statements::ReturnUnits back = Of<statements::ReturnUnits>(packet).at(0);
  EXPECT_FALSE(back.rows[0].to_limbo);
  EXPECT_TRUE(back.rows[1].to_limbo);
  EXPECT_EQ(back.rows[1].epoch, 9);
  const statements::CreditBuyers buyers = Of<statements::CreditBuyers>(packet).at(0);
  ASSERT_EQ(buyers.rows.size(), 1u) << "boots have no limit";
  EXPECT_EQ(std::pair(buyers.rows[0].buyer, buyers.rows[0].units), std::pair(kAnn, int64_t{3}));
  const statements::SettleStock stock = Of<statements::SettleStock>(packet).at(0);
  EXPECT_EQ(std::tuple(stock.rows[0].segment, stock.rows[0].units, stock.rows[0].sold), std::tuple(1, 3, -3));
  EXPECT_EQ(std::tuple(stock.rows[1].segment, stock.rows[1].units, stock.rows[1].sold), std::tuple(0, 0, -1));
  EXPECT_EQ(planner.Returned(), (std::vector<ReturnedLine>{{"boot", 1, true}, {"sneaker", 3, true}}));
  ASSERT_EQ(planner.Limbo().size(), 1u);
  EXPECT_EQ(planner.Limbo()[kBoot].limbo, 1);
  EXPECT_EQ(planner.Limbo()[kBoot].mode, FleetMode::kDraining);
}

TEST_F(FleetReturnPlanTest, WrittenOffAndRemovedUnits_AreWithdrawn) {
  for (const bool removed : {false, true}) {
    const FleetReturnCall call = Return({2}, removed ? ChangeKind::kReturn : ChangeKind::kWriteOff);
    FleetReturnPlanner planner(call, checks_);
    ASSERT_TRUE(planner.Decide(Sold()).ok());
    FleetSkuRow sneaker = Sku("sneaker", {0}, {.mode = removed ? FleetMode::kOpen : FleetMode::kLatched});
    sneaker.removed = removed;
    sneaker.per_buyer_limit = 4;
    ASSERT_TRUE(planner.DecideSkus({{kSneaker, sneaker}}).ok());
    const FleetPacket packet = planner.Packet(/*lane_index=*/0);
    const statements::ReturnUnits back = Of<statements::ReturnUnits>(packet).at(0);
    EXPECT_EQ(back.rows[0].removed, removed);
    EXPECT_EQ(back.rows[0].written_off, !removed);
    EXPECT_FALSE(back.rows[0].to_limbo);
    EXPECT_EQ(Of<statements::CreditBuyers>(packet).at(0).rows.size(), removed ? 0u : 1u);
    const statements::SettleStock stock = Of<statements::SettleStock>(packet).at(0);
    EXPECT_EQ(std::pair(stock.rows[0].units, stock.rows[0].sold), std::pair(int64_t{0}, int64_t{-2}));
    EXPECT_EQ(planner.Returned(), (std::vector<ReturnedLine>{{"sneaker", 2, false}}));
    EXPECT_THAT(planner.Limbo(), IsEmpty());
  }
  const FleetReturnCall call = Return({2});
  FleetReturnPlanner planner(call, checks_);
  ASSERT_TRUE(planner.Decide(Sold()).ok());
  EXPECT_EQ(RefusalOf(planner.DecideSkus({{kSneaker, FleetSkuRow()}})), Refusal::kUnavailable) << "its row is missing";
}

TEST_F(FleetPlanTest, Fill_LeavesHalfOfTheUnits_AndBeginsNoOldGeneration) {
  const int32_t node = kFirstNodeSegment + 3;
  const auto fill = [&](const FleetSkuRow& row, int32_t lane, size_t nodes, int64_t most, int64_t least) {
    return PlanFill(kSneaker, row, lane, nodes, node, most, least);
  };
  EXPECT_EQ(fill(Sku("sneaker", {31}), 0, 1, 1000, 0), std::nullopt);
  EXPECT_EQ(fill(Sku("sneaker", {32}), 0, 1, 1000, 0)->units, 16);
  EXPECT_EQ(fill(Sku("sneaker", {64}), 0, 2, 1000, 0)->units, 16);
  EXPECT_EQ(fill(Sku("sneaker", {1000}), 0, 1, 20, 0)->units, 20);
  EXPECT_EQ(fill(Sku("sneaker", {1000, 31}), 1, 1, 1000, 0)->from, 0);
  EXPECT_EQ(fill(Sku("sneaker", {1000, 40}), 1, 1, 1000, 0)->from, 1);
  FleetSkuRow row = Sku("sneaker", {100});
  EXPECT_EQ(fill(row, 0, 1, 1000, 0)->after.fence, 1);
  EXPECT_EQ(fill(row, 0, 1, 1000, 0)->before, std::nullopt);
  row.nodes[node] = {.fence = 4, .fills = 7};
  EXPECT_EQ(fill(row, 0, 1, 1000, 2)->after.fence, 4);
  EXPECT_EQ(fill(row, 0, 1, 1000, 5)->after.fence, 5);
  EXPECT_EQ(fill(row, 0, 1, 1000, 5)->after.fills, 8);
  EXPECT_EQ(fill(row, 0, 1, 1000, 5)->before->fence, 4);
}

#ifdef STOCKADE_CRASH_POINTS
// The rules of the planner: the tests above notice each that is left out.
class FleetPlanRulesTest : public FleetPlanTest {
 protected:
  void TearDown() override { fleet_defect = FleetDefect::kNone; }
};

TEST_F(FleetPlanRulesTest, LeftOut_ThePlanIsAnother) {
  const FleetSkuRow draining = Sku("sneaker", {0}, {.mode = FleetMode::kDraining, .epoch = 5});
  fleet_defect = FleetDefect::kSecondToPool;
  EXPECT_EQ(Of<statements::SettleStock>(Cancel(draining))[0].rows[0].units, 1);
  EXPECT_TRUE(Of<statements::ReturnUnits>(Cancel(draining))[0].draining_is_open);
  EXPECT_FALSE(Of<statements::Restock>(RestockPacket(kSneaker, draining, 1, {}))[0].to_limbo);
  fleet_defect = FleetDefect::kLateMover;
  EXPECT_EQ(Of<statements::MoveLimbo>(MovePacket({.sku = kSneaker, .epoch = 4}))[0].epoch, std::nullopt);
  fleet_defect = FleetDefect::kNoLimboCheck;
  EXPECT_TRUE(LatchPacket(kSneaker, draining, absl::Seconds(1)).has_value());

  FleetGrantRows look;
  look.skus = {{kSneaker, Sku("sneaker", {0, 4})}};
  look.skus[kSneaker].units += 2;  // At a node.
  fleet_defect = FleetDefect::kEmptyIsSoldOut;
  EXPECT_EQ(RefusalOfOne(look, Request(1, {1})), Refusal::kAllHeld);
  fleet_defect = FleetDefect::kRefuseByPool;
  EXPECT_EQ(RefusalOfOne(look, Request(1, {5})), Refusal::kAllHeld);
  fleet_defect = FleetDefect::kNone;
  EXPECT_EQ(RefusalOfOne(look, Request(1, {6})), Refusal::kNone);

  const FleetGrants calls = These(Request(1, {1}));
  FleetGrantBatch trial;
  trial.Add(calls);
  trial.payments.at(kSneaker).fence = 3;
  const auto pay = [&] { return Of<statements::Pay>(trial.Packet(calls, 1, false))[0]; };
  EXPECT_EQ(std::tuple(pay().fence, pay().may_lack), std::tuple(std::optional<int64_t>(3), false));
  fleet_defect = FleetDefect::kNoCheck;
  EXPECT_EQ(std::tuple(pay().fence, pay().may_lack), std::tuple(std::nullopt, true));
}
#endif

}  // namespace
}  // namespace stockade::inventory_internal

#ifndef STOCKADE_TESTS_DOCS_ORDER_OUTCOMES_H_
#define STOCKADE_TESTS_DOCS_ORDER_OUTCOMES_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "stockade/inventory/inventory.h"

namespace stockade::testing {

// A shop of which "what each call does with an order" of docs/INVENTORY.md is found out. It has forgotten nothing yet.
class OutcomeShop {
 public:
  static constexpr absl::Duration kRetention = absl::Hours(1);

  virtual ~OutcomeShop() = default;
  virtual Inventory& shop() = 0;
  // So much time passes for the orders.
  virtual void Pass(absl::Duration time) = 0;
};

// Makes a shop with no SKUs.
using MakeOutcomeShop = std::function<std::unique_ptr<OutcomeShop>()>;

// The outcome of a call in the words of the documents.
inline std::string OutcomeWord(const absl::Status& status) {
  switch (RefusalOf(status)) {
    case Refusal::kNone: break;
    case Refusal::kSoldOut: return "kSoldOut";
    case Refusal::kAllHeld: return "kAllHeld";
    case Refusal::kUnknownSku: return "kUnknownSku";
    case Refusal::kUnavailable: return "kUnavailable";
    case Refusal::kBuyerLimit: return "kBuyerLimit";
    case Refusal::kRequestMismatch: return "kRequestMismatch";
    case Refusal::kRequestForgotten: return "kRequestForgotten";
    case Refusal::kInvalid: return "kInvalid";
    case Refusal::kExpired: return "`Refusal::kExpired`";
    case Refusal::kCancelled: return "`Refusal::kCancelled`";
    case Refusal::kCommitted: return "`Refusal::kCommitted`";
    case Refusal::kReturned: return "`Refusal::kReturned`";
    case Refusal::kWrongState: return "`Refusal::kWrongState`";
    case Refusal::kTooMany: return "`Refusal::kTooMany`";
  }
  switch (status.code()) {
    case absl::StatusCode::kOk: return "OK";
    case absl::StatusCode::kAlreadyExists: return "AlreadyExists";
    case absl::StatusCode::kFailedPrecondition: return "FailedPrecondition";
    case absl::StatusCode::kInvalidArgument: return "InvalidArgument";
    case absl::StatusCode::kNotFound: return "NotFound";
    case absl::StatusCode::kOutOfRange: return "OutOfRange";
    default: return status.ToString();
  }
}

inline std::string OutcomeWord(OrderState state) {
  switch (state) {
    case OrderState::kHeld: return "kHeld";
    case OrderState::kSold: return "kSold";
    case OrderState::kCancelled: return "kCancelled";
    case OrderState::kExpired: return "kExpired";
  }
  return "?";
}

// The order of the table, in a shop of its own.
class OrderScene {
 public:
  explicit OrderScene(const MakeOutcomeShop& make) : made_(make()) {
    EXPECT_TRUE(shop().AddSku("sku", {.stock = 10}).ok());
    const auto reserved = Reserve(2);
    order_ = reserved->id();
    expires_at_ = reserved->expires_at();
  }

  // In the order of the table's rows.
  struct State {
    const char* row;
    std::function<void(OrderScene&)> make;
  };
  static std::vector<State> States() {
    return {
        {"held", [](OrderScene&) {}},
        {"held, its TTL has passed", [](OrderScene& s) { s.made_->Pass(absl::Minutes(10)); }},
        {"sold", [](OrderScene& s) { EXPECT_TRUE(s.shop().Commit(s.order_).ok()); }},
        {"sold, half of it came back", [](OrderScene& s) { s.SellAndReturn(1); }},
        {"sold, all of it came back", [](OrderScene& s) { s.SellAndReturn(2); }},
        {"cancelled", [](OrderScene& s) { EXPECT_TRUE(s.shop().Cancel(s.order_).ok()); }},
        {"ended longer ago than `retention`",
         [](OrderScene& s) {
           EXPECT_TRUE(s.shop().Commit(s.order_).ok());
           s.made_->Pass(OutcomeShop::kRetention);
         }},
        {"held, its SKU was removed", [](OrderScene& s) { EXPECT_TRUE(s.shop().RemoveSku("sku").ok()); }},
        {"unknown", [](OrderScene& s) { s.order_ = kUnknown; }},
    };
  }

  std::string Commit() {
    const int64_t sold = Figures().sold;
    const std::string word = OutcomeWord(shop().Commit(order_));
    return Figures().sold > sold ? word + ", sells" : word;
  }

  std::string Cancel() {
    // Units that a reaper may be about to bring back are not this call's.
    const bool runs = shop().StateOf(order_).value_or(OrderState::kSold) == OrderState::kHeld;
    const StockFigures before = Figures();
    const std::string word = OutcomeWord(shop().Cancel(order_));
    if (!runs) return word;
    if (Figures().granted < before.granted) return word + ", withdraws";
    return Figures().available > before.available ? word + ", gives back" : word;
  }

  std::string Extend() {
    const auto extended = shop().Extend({.order = order_, .ttl = absl::Minutes(20)});
    if (!extended.ok()) return OutcomeWord(extended.status());
    return *extended > expires_at_ ? "OK, expires later" : "OK";
  }

  std::string Return(int64_t units) {
    const StockFigures before = Figures();
    const auto returned = shop().Return({.order = order_, .lines = {{"sku", units}}, .request_id = "return"});
    if (!returned.ok()) return OutcomeWord(returned.status());
    EXPECT_EQ(before.sold - Figures().sold, units);
    return Figures().available > before.available ? "OK, for sale again" : "OK";
  }

  // Find() says the same of the state.
  std::string StateOf() {
    const auto state = shop().StateOf(order_);
    const std::string word = state.ok() ? OutcomeWord(*state) : OutcomeWord(state.status());
    EXPECT_EQ(Found(shop().Find(order_)), word);
    return word;
  }
  std::string FindByRequest() { return order_ == kUnknown ? "" : Found(shop().FindByRequest("a")); }

  std::string Again(int64_t quantity) {
    if (order_ == kUnknown) return "";
    const StockFigures before = Figures();
    const auto answer = Reserve(quantity);
    EXPECT_EQ(Figures().sold, before.sold);
    if (!answer.ok()) return OutcomeWord(answer.status());
    return (answer->id() == order_ ? "first answer, " : "another order, ") + OutcomeWord(answer->state());
  }

 private:
  static constexpr OrderId kUnknown = 77;

  static std::string Found(const absl::StatusOr<OrderInfo>& order) {
    if (order.ok()) {
      EXPECT_EQ(order->lines.size(), 1u);
      EXPECT_EQ(order->lines[0].sku, "sku");
      EXPECT_EQ(order->lines[0].quantity, 2);
      return OutcomeWord(order->state);
    }
    const std::string word = OutcomeWord(order.status());
    return absl::IsNotFound(order.status()) && word != "NotFound" ? "NotFound, " + word : word;
  }

  void SellAndReturn(int64_t units) {
    EXPECT_TRUE(shop().Commit(order_).ok());
    EXPECT_TRUE(shop().Return({.order = order_, .lines = {{"sku", units}}, .request_id = "before"}).ok());
  }

  Inventory& shop() { return made_->shop(); }
  StockFigures Figures() { return shop().Figures("sku").value(); }
  absl::StatusOr<Reservation> Reserve(int64_t quantity) {
    return shop().Reserve({.sku = "sku", .quantity = quantity, .request_id = "a"});
  }

  const std::unique_ptr<OutcomeShop> made_;
  OrderId order_;
  absl::Time expires_at_;
};

// The lines of the table.
inline std::vector<std::string> OrderOutcomes(const MakeOutcomeShop& make) {
  const std::vector<std::function<std::string(OrderScene&)>> calls = {
      [](OrderScene& s) { return s.Commit(); },  [](OrderScene& s) { return s.Cancel(); },
      [](OrderScene& s) { return s.Extend(); },  [](OrderScene& s) { return s.Return(1); },
      [](OrderScene& s) { return s.StateOf(); }, [](OrderScene& s) { return s.FindByRequest(); },
      [](OrderScene& s) { return s.Again(2); },  [](OrderScene& s) { return s.Again(3); }};
  std::vector<std::string> lines = {
      "| the order is | `Commit` | `Cancel` | `Extend` | `Return` of one | `StateOf`, `Find` | `FindByRequest` | its "
      "request again | with another quantity |",
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"};
  for (const OrderScene::State& state : OrderScene::States()) {
    std::string line = std::string("| ") + state.row + " |";
    for (const auto& call : calls) {
      OrderScene scene(make);
      state.make(scene);
      const std::string word = call(scene);
      line += word.empty() ? " |" : " " + word + " |";
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DOCS_ORDER_OUTCOMES_H_

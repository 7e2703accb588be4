// The table of docs/INVENTORY.md, "what each call does with an order", found out from an inventory: each state is made,
// each call made in it, and what came of it put into the table's words.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "docs/document_table.h"
#include "stockade/base/manual_clock.h"
#include "stockade/inventory/inventory.h"

namespace stockade::testing {
namespace {

const absl::Duration kRetention = absl::Hours(1);

struct Bench {
  Bench() {
    EXPECT_TRUE(shop.AddSku("sku", {.stock = 10}).ok());
    order = Reserve(2)->id();
  }

  absl::StatusOr<Reservation> Reserve(int64_t quantity) {
    return shop.Reserve({.sku = "sku", .quantity = quantity, .request_id = "a"});
  }
  StockFigures Figures() { return shop.Figures("sku").value(); }

  ManualClock clock;
  Inventory shop{{.clock = &clock, .metrics = nullptr, .retention = kRetention}};
  OrderId order;
};

struct State {
  const char* row;
  std::function<void(Bench&)> make;
};

std::vector<State> States() {
  return {
      {"held", [](Bench&) {}},
      {"held, its TTL has passed", [](Bench& b) { b.clock.Advance(absl::Minutes(10)); }},
      {"sold", [](Bench& b) { EXPECT_TRUE(b.shop.Commit(b.order).ok()); }},
      {"cancelled", [](Bench& b) { EXPECT_TRUE(b.shop.Cancel(b.order).ok()); }},
      {"ended longer ago than `retention`",
       [](Bench& b) {
         EXPECT_TRUE(b.shop.Commit(b.order).ok());
         b.clock.Advance(kRetention);
       }},
      {"held, its SKU was removed", [](Bench& b) { EXPECT_TRUE(b.shop.RemoveSku("sku").ok()); }},
      {"unknown", [](Bench& b) { b.order = 77; }},
  };
}

std::string Word(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return "OK";
    case absl::StatusCode::kNotFound: return "NotFound";
    case absl::StatusCode::kFailedPrecondition: return "FailedPrecondition";
    default: return "?";
  }
}

std::string Commit(Bench& bench) {
  const int64_t sold = bench.Figures().sold;
  const std::string word = Word(bench.shop.Commit(bench.order));
  return bench.Figures().sold > sold ? word + ", sells" : word;
}

std::string Cancel(Bench& bench) {
  // Units that a reaper may be about to bring back are not this call's.
  const bool runs = bench.shop.StateOf(bench.order).value_or(OrderState::kSold) == OrderState::kHeld;
  const StockFigures before = bench.Figures();
  const std::string word = Word(bench.shop.Cancel(bench.order));
  if (!runs) return word;
  if (bench.Figures().granted < before.granted) return word + ", withdraws";
  return bench.Figures().available > before.available ? word + ", gives back" : word;
}

std::string NameOf(OrderState state) {
  switch (state) {
    case OrderState::kHeld: return "kHeld";
    case OrderState::kSold: return "kSold";
    case OrderState::kCancelled: return "kCancelled";
    case OrderState::kExpired: return "kExpired";
  }
  return "?";
}

std::string StateOf(Bench& bench) {
  const auto state = bench.shop.StateOf(bench.order);
  return state.ok() ? NameOf(*state) : Word(state.status());
}

std::string Again(Bench& bench, int64_t quantity) {
  if (bench.order == 77) return "";
  const StockFigures before = bench.Figures();
  const auto answer = bench.Reserve(quantity);
  EXPECT_EQ(bench.Figures().sold, before.sold);
  if (answer.ok())
    return (answer->id() == bench.order ? "first answer, " : "another order, ") + NameOf(answer->state());
  switch (RefusalOf(answer.status())) {
    case Refusal::kRequestMismatch: return "kRequestMismatch";
    case Refusal::kRequestForgotten: return "kRequestForgotten";
    default: return "?";
  }
}

std::string Row(const State& state) {
  const std::vector<std::function<std::string(Bench&)>> calls = {
      Commit, Cancel, StateOf, [](Bench& b) { return Again(b, 2); }, [](Bench& b) { return Again(b, 3); }};
  std::string row = std::string("| ") + state.row + " |";
  for (const auto& call : calls) {
    Bench bench;
    state.make(bench);
    const std::string word = call(bench);
    row += word.empty() ? " |" : " " + word + " |";
  }
  return row;
}

TEST(InventoryDocumentTest, OutcomeTable_EachCallInEachState_IsWhatTheInventoryDoes) {
  std::vector<std::string> found = {
      "| the order is | `Commit` | `Cancel` | `StateOf` | its request again | with another quantity |",
      "| --- | --- | --- | --- | --- | --- |"};
  for (const State& state : States()) found.push_back(Row(state));
  EXPECT_EQ(found, DocumentedTable("docs/INVENTORY.md", "| the order is"));
}

// The refusals' statuses in the other table.
TEST(InventoryDocumentTest, RefusalTable_NamesEachRefusal) {
  const std::vector<std::string> table = DocumentedTable("docs/INVENTORY.md", "| refusal |");
  EXPECT_EQ(table.size(), 2u + static_cast<size_t>(Refusal::kInvalid));
}

}  // namespace
}  // namespace stockade::testing

// The tables of docs/INVENTORY.md and docs/FLEET_INVENTORY.md that say what calls return, found out from a fleet: what
// each call does with an order, as in one process; and each call in one process beside a fleet.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "docs/document_table.h"
#include "docs/order_outcomes.h"
#include "inventory/fleet/fleet_test.h"
#include "inventory/recording_ledger.h"
#include "stockade/base/manual_clock.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;

class FleetOutcomesTest : public FleetTest {
 protected:
  FleetInventoryOptions Patient() const {
    FleetInventoryOptions options = Options();
    options.retention = OutcomeShop::kRetention;
    return options;
  }
};

// The orders of a fleet become older.
void Age(const MariaDbServer& server, const std::string& orders, absl::Duration time) {
  server.Query(Concat("UPDATE ", orders, " SET created_at=created_at-", absl::ToInt64Microseconds(time), ",at=at-",
                      absl::ToInt64Microseconds(time)));
}

// A fleet whose tables were emptied.
class FleetOutcomeShop final : public OutcomeShop {
 public:
  FleetOutcomeShop(const MariaDbServer& server, const std::string& tables, Inventory& shop)
      : server_(server), orders_(tables + "orders"), shop_(shop) {
    for (const char* const table : {"skus", "stock", "requests", "orders", "order_lines", "changes"}) {
      server.Query(Concat("DELETE FROM ", tables, table));
    }
  }
  Inventory& shop() override { return shop_; }
  void Pass(absl::Duration time) override {
    Age(server_, orders_, time);
    if (time < kRetention) return;
    Await("the orders to be forgotten", [&] { return server_.Value(Concat("SELECT COUNT(*) FROM ", orders_)) == "0"; });
  }

 private:
  const MariaDbServer& server_;
  const std::string orders_;
  Inventory& shop_;
};

TEST_F(FleetOutcomesTest, OrderTable_EachCallInEachState_IsThatOfOneProcess) {
  const auto shop = Connect(Patient());
  const auto make = [&] { return std::make_unique<FleetOutcomeShop>(server(), Table(""), *shop); };
  EXPECT_EQ(OrderOutcomes(make), DocumentedTable("docs/INVENTORY.md", "| the order is"));
}

// One of the two kinds of inventory, for one row of the table.
struct Scene {
  Inventory& shop;
  std::string sku;  // Of this row only.
  std::function<void(absl::Duration)> pass;
  std::function<Inventory&()> stop_ledger;   // The inventory that has found it out.
  std::function<Inventory&()> start_ledger;  // The inventory to go on with, after the ledger is back.

  std::string Id(std::string_view id) const { return Concat(sku, "-", id); }
  absl::Status Add(SkuOptions options = {.stock = 10}) { return shop.AddSku(sku, options); }
  absl::StatusOr<Order> Take(int64_t quantity, std::string_view id = "a", std::string buyer = "") {
    return shop.Take({.sku = sku, .quantity = quantity, .request_id = Id(id), .buyer = std::move(buyer)});
  }
  absl::StatusOr<Reservation> Reserve(int64_t quantity, std::string_view id = "a") {
    return shop.Reserve({.sku = sku, .quantity = quantity, .request_id = Id(id)});
  }
  absl::Status Restock(int64_t quantity, std::string_view id) {
    return shop.Restock({.sku = sku, .quantity = quantity, .request_id = Id(id)});
  }
  int64_t Available() { return shop.Available(sku).value(); }
};

template <typename T>
std::string Answered(const absl::StatusOr<T>& answer) {
  return answer.ok() ? Concat("OK, ", OutcomeWord(answer->state())) : OutcomeWord(answer.status());
}

// Of a request that was answered before.
template <typename T>
std::string Repeated(const absl::StatusOr<T>& again, OrderId first) {
  if (!again.ok()) return OutcomeWord(again.status());
  return Concat(again->id() == first ? "first answer, " : "another order, ", OutcomeWord(again->state()));
}

struct Row {
  const char* call;
  std::function<std::string(Scene&)> outcome;
};

// Each row adds its own SKU. The last ones stop the ledger.
std::vector<Row> Rows() {
  return {
      {"`AddSku`, a new name", [](Scene& s) { return OutcomeWord(s.Add()); }},
      {"`AddSku`, a name that is for sale", [](Scene& s) { return s.Add().IgnoreError(), OutcomeWord(s.Add()); }},
      {"`AddSku`, a name that was removed",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.shop.RemoveSku(s.sku).IgnoreError();
         return OutcomeWord(s.Add());
       }},
      {"`EnsureSku`, a new name", [](Scene& s) { return OutcomeWord(s.shop.EnsureSku(s.sku, {.stock = 5})); }},
      {"`EnsureSku`, a name that is for sale",
       [](Scene& s) {
         s.Add().IgnoreError();
         const std::string word = OutcomeWord(s.shop.EnsureSku(s.sku, {.stock = 5}));
         return s.Available() == 10 ? word + ", leaves its stock" : word;
       }},
      {"`EnsureSku`, the same with another limit",
       [](Scene& s) {
         s.Add().IgnoreError();
         return OutcomeWord(s.shop.EnsureSku(s.sku, {.stock = 5, .per_buyer_limit = 1}));
       }},
      {"`EnsureSku`, a name that was removed",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.shop.RemoveSku(s.sku).IgnoreError();
         return OutcomeWord(s.shop.EnsureSku(s.sku, {.stock = 5}));
       }},
      {"`RemoveSku`",
       [](Scene& s) {
         s.Add().IgnoreError();
         const std::string word = OutcomeWord(s.shop.RemoveSku(s.sku));
         return s.shop.Figures(s.sku)->granted == 0 ? word + ", withdraws its units" : word;
       }},
      {"`RemoveSku`, an unknown name", [](Scene& s) { return OutcomeWord(s.shop.RemoveSku(s.sku)); }},
      {"`Restock` with a request id",
       [](Scene& s) {
         s.Add().IgnoreError();
         const std::string word = OutcomeWord(s.Restock(3, "r"));
         return Concat(word, ", adds ", s.Available() - 10);
       }},
      {"`Restock`, the same again",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Restock(3, "r").IgnoreError();
         const std::string word = OutcomeWord(s.Restock(3, "r"));
         return Concat(word, ", adds ", s.Available() - 13);
       }},
      {"`Restock`, its id with another quantity",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Restock(3, "r").IgnoreError();
         return OutcomeWord(s.Restock(4, "r"));
       }},
      {"`Restock`, the id of an order",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Take(3).IgnoreError();
         return OutcomeWord(s.Restock(3, "a"));
       }},
      {"`Restock` without a request id, twice",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.shop.Restock(s.sku, 3).IgnoreError();
         const std::string word = OutcomeWord(s.shop.Restock(s.sku, 3));
         return Concat(word, ", adds ", s.Available() - 10);
       }},
      {"`Restock`, more than `kMaxUnits`",
       [](Scene& s) {
         s.Add().IgnoreError();
         return OutcomeWord(s.Restock(kMaxUnits, "r"));
       }},
      {"`Restock`, an unknown name", [](Scene& s) { return OutcomeWord(s.Restock(1, "r")); }},
      {"`Reshard` to more than the SKU began with",
       [](Scene& s) {
         s.Add({.stock = 10, .shards = 2}).IgnoreError();
         return OutcomeWord(s.shop.Reshard(s.sku, 3));
       }},
      {"`Take`",
       [](Scene& s) {
         s.Add().IgnoreError();
         return Answered(s.Take(2));
       }},
      {"`Reserve`",
       [](Scene& s) {
         s.Add().IgnoreError();
         return Answered(s.Reserve(2));
       }},
      {"`ReserveBasket`",
       [](Scene& s) {
         s.Add().IgnoreError();
         return Answered(s.shop.ReserveBasket({.lines = {{s.sku, 1}, {s.sku, 1}}, .request_id = s.Id("a")}));
       }},
      {"`ReserveBasket`, one of two SKUs is sold out",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.shop.AddSku(s.Id("other"), {}).IgnoreError();
         const auto basket = s.shop.ReserveBasket({.lines = {{s.sku, 1}, {s.Id("other"), 1}}, .request_id = s.Id("a")});
         return Concat(OutcomeWord(basket.status()), ", takes ", 10 - s.Available());
       }},
      {"`Take`, fewer units are unsold",
       [](Scene& s) {
         s.Add().IgnoreError();
         return Answered(s.Take(11));
       }},
      {"`Take`, fewer units are not held",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Reserve(5).IgnoreError();
         return Answered(s.Take(6, "b"));
       }},
      {"`Take`, an unknown SKU", [](Scene& s) { return Answered(s.Take(1)); }},
      {"`Take`, a removed SKU",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.shop.RemoveSku(s.sku).IgnoreError();
         return Answered(s.Take(1));
       }},
      {"`Take`, above the buyer's limit",
       [](Scene& s) {
         s.Add({.stock = 10, .per_buyer_limit = 3}).IgnoreError();
         s.Take(2, "a", "ann").IgnoreError();
         return Answered(s.Take(2, "b", "ann"));
       }},
      {"`Take`, up to the limit after a cancelled order",
       [](Scene& s) {
         s.Add({.stock = 10, .per_buyer_limit = 3}).IgnoreError();
         const auto held = s.shop.Reserve({.sku = s.sku, .quantity = 2, .request_id = s.Id("a"), .buyer = "ann"});
         s.shop.Cancel(held->id()).IgnoreError();
         return Answered(s.Take(3, "b", "ann"));
       }},
      {"`Take`, a SKU with a limit, no buyer",
       [](Scene& s) {
         s.Add({.stock = 10, .per_buyer_limit = 3}).IgnoreError();
         return Answered(s.Take(1));
       }},
      {"`Take`, a quantity below 1",
       [](Scene& s) {
         s.Add().IgnoreError();
         return Answered(s.Take(0));
       }},
      {"`Take`, the same again",
       [](Scene& s) {
         s.Add().IgnoreError();
         const auto first = s.Take(2);
         return Repeated(s.Take(2), first->id());
       }},
      {"`Take`, its id for another buyer",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Take(2, "a", "ann").IgnoreError();
         return Answered(s.Take(2, "a", "bob"));
       }},
      {"`Reserve`, the id of a take",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Take(2).IgnoreError();
         return Answered(s.Reserve(2));
       }},
      {"`Reserve`, refused, then again with units",
       [](Scene& s) {
         s.Add({}).IgnoreError();
         s.Reserve(2).IgnoreError();
         s.Restock(5, "r").IgnoreError();
         return Answered(s.Reserve(2));
       }},
      {"`ReserveMany`, the same twice in one call",
       [](Scene& s) {
         s.Add().IgnoreError();
         const ReserveRequest request = {.sku = s.sku, .quantity = 2, .request_id = s.Id("a")};
         const auto answers = s.shop.ReserveMany(std::vector<ReserveRequest>{request, request});
         return Repeated(answers[1], answers[0]->id());
       }},
      {"expiry",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Reserve(2).IgnoreError();
         s.pass(absl::Minutes(10));
         Await("the expiry", [&] { return s.Available() == 10; });
         return std::string("the units are back without a call");
       }},
      {"`Available`, 1 held and 2 sold of 10",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Reserve(1, "a").IgnoreError();
         s.Take(2, "b").IgnoreError();
         return Concat("OK, ", s.Available());
       }},
      {"`Figures`, the same",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Reserve(1, "a").IgnoreError();
         s.Take(2, "b").IgnoreError();
         const auto figures = s.shop.Figures(s.sku);
         return Concat("OK, ", figures->granted, " = ", figures->available, " + ", figures->held, " + ", figures->sold);
       }},
      {"`Snapshot`, the same",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Reserve(1, "a").IgnoreError();
         s.Take(2, "b").IgnoreError();
         const auto view = s.shop.Snapshot(s.sku);
         return Concat("OK, ", view->granted, " = ", view->available, " + ", view->held, " + ", view->sold);
       }},
      {"`Figures` of a removed SKU",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Take(2).IgnoreError();
         s.shop.RemoveSku(s.sku).IgnoreError();
         const auto figures = s.shop.Figures(s.sku);
         return Concat("OK, ", figures->granted, " = ", figures->available, " + ", figures->held, " + ", figures->sold);
       }},
      {"`Available`, `Snapshot` of a removed SKU",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.shop.RemoveSku(s.sku).IgnoreError();
         EXPECT_EQ(OutcomeWord(s.shop.Available(s.sku).status()), OutcomeWord(s.shop.Snapshot(s.sku).status()));
         return OutcomeWord(s.shop.Available(s.sku).status());
       }},
      {"`Find`, 2 sold",
       [](Scene& s) {
         s.Add().IgnoreError();
         const OrderId id = s.Take(2)->id();
         EXPECT_EQ(s.shop.FindByRequest(s.Id("a"))->id, id);
         const auto found = s.shop.Find(id);
         return Concat("OK, ", OutcomeWord(found->state), ", ", found->lines.at(0).quantity);
       }},
      {"`Find`, the same for another buyer",
       [](Scene& s) {
         s.Add().IgnoreError();
         const OrderId id = s.Take(2, "a", "ann")->id();
         EXPECT_TRUE(s.shop.Find({.order = id, .buyer = "ann"}).ok());
         return OutcomeWord(s.shop.Find({.order = id, .buyer = "bob"}).status());
       }},
      {"`Find`, an order and a request id",
       [](Scene& s) { return OutcomeWord(s.shop.Find({.order = 1, .request_id = "a"}).status()); }},
      {"`FindByRequest`, an unknown id",
       [](Scene& s) { return OutcomeWord(s.shop.FindByRequest(s.Id("a")).status()); }},
      {"`FindByRequest`, the id of a restock",
       [](Scene& s) {
         s.Add().IgnoreError();
         s.Restock(1, "a").IgnoreError();
         return OutcomeWord(s.shop.FindByRequest(s.Id("a")).status());
       }},
      {"`Health`", [](Scene& s) { return OutcomeWord(s.shop.Health()); }},
      {"`Take` while the ledger cannot be used",
       [](Scene& s) {
         s.Add().IgnoreError();
         return OutcomeWord(s.stop_ledger().Take({.sku = s.sku, .quantity = 2, .request_id = s.Id("a")}).status());
       }},
      {"`Health`, then", [](Scene& s) { return OutcomeWord(s.stop_ledger().Health()); }},
      {"`StateOf`, `Find` of an unknown order, then",
       [](Scene& s) {
         Inventory& shop = s.stop_ledger();
         EXPECT_EQ(OutcomeWord(shop.Find(OrderId{1} << 60).status()),
                   OutcomeWord(shop.StateOf(OrderId{1} << 60).status()));
         return OutcomeWord(shop.StateOf(OrderId{1} << 60).status());
       }},
      {"`Available`, then", [](Scene& s) { return OutcomeWord(s.stop_ledger().Available("first").status()); }},
      {"`Figures`, then", [](Scene& s) { return OutcomeWord(s.stop_ledger().Figures("first").status()); }},
      {"`Snapshot()` of all SKUs, then",
       [](Scene& s) { return std::string(s.stop_ledger().Snapshot().empty() ? "none" : "all"); }},
      {"`Take` after the ledger is back",
       [](Scene& s) {
         return OutcomeWord(s.start_ledger().Take({.sku = "first", .quantity = 2, .request_id = s.Id("a")}).status());
       }},
  };
}

// The outcomes in one process. The ledger is in memory, so that it can fail.
std::vector<std::string> LocalOutcomes() {
  ManualClock clock;
  const auto disk = std::make_shared<RecordingDisk>();
  const auto open = [&] {
    return std::make_unique<Inventory>(InventoryOptions{.ledger = std::make_unique<RecordingLedger>(disk),
                                                        .clock = &clock,
                                                        .metrics = nullptr,
                                                        .retention = OutcomeShop::kRetention});
  };
  std::unique_ptr<Inventory> shop = open();
  EXPECT_TRUE(shop->AddSku("first", {.stock = 10}).ok());
  std::vector<std::string> outcomes;
  for (const Row& row : Rows()) {
    Scene scene{.shop = *shop,
                .sku = Concat("sku", outcomes.size()),
                .pass = [&](absl::Duration time) { clock.Advance(time); },
                .stop_ledger = [&]() -> Inventory& {
                  const std::lock_guard lock(disk->mutex);
                  disk->fail_at = std::min(disk->fail_at, disk->durable + 1);
                  return *shop;
                },
                .start_ledger = [&]() -> Inventory& {
                  shop = nullptr;
                  disk->Crash();
                  shop = open();
                  return *shop;
                }};
    outcomes.push_back(row.outcome(scene));
  }
  return outcomes;
}

TEST_F(FleetOutcomesTest, CallTable_EachCall_IsWhatBothKindsDo) {
  const FleetInventoryOptions options = Patient();
  const auto shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("first", {.stock = 10}).ok());
  // What it cannot do in this time it has no ledger for.
  FleetInventoryOptions hasty = options;
  hasty.patience = absl::Seconds(1);
  std::unique_ptr<Inventory> hasty_shop;
  std::vector<std::string> lines = {"| call | in one process | in a fleet |", "| --- | --- | --- |"};
  const std::vector<std::string> local = LocalOutcomes();
  const std::vector<Row> rows = Rows();
  for (size_t i = 0; i < rows.size(); ++i) {
    Scene scene{.shop = *shop,
                .sku = Concat("sku", i),
                .pass = [&](absl::Duration time) { Age(server(), Table("orders"), time); },
                .stop_ledger = [&]() -> Inventory& {
                  if (hasty_shop == nullptr) {
                    Await("a connection", [&] {
                      auto connected = FleetInventory::Connect(hasty);
                      if (connected.ok()) hasty_shop = *std::move(connected);
                      return hasty_shop != nullptr;
                    });
                    server().Stop();
                  }
                  return *hasty_shop;
                },
                .start_ledger = [&]() -> Inventory& {
                  server().Restart();
                  return *shop;
                }};
    lines.push_back(Concat("| ", rows[i].call, " | ", local[i], " | ", rows[i].outcome(scene), " |"));
  }
  EXPECT_EQ(absl::StrJoin(lines, "\n"), absl::StrJoin(DocumentedTable("docs/FLEET_INVENTORY.md", "| call |"), "\n"));
}

}  // namespace
}  // namespace stockade::testing

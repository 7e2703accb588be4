// The tables of docs/INVENTORY.md, found out from an inventory in one process. tests/inventory/fleet finds the first
// one out from a fleet, too.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "docs/document_table.h"
#include "docs/order_outcomes.h"
#include "stockade/base/manual_clock.h"

namespace stockade::testing {
namespace {

class LocalOutcomeShop final : public OutcomeShop {
 public:
  Inventory& shop() override { return shop_; }
  void Pass(absl::Duration time) override { clock_.Advance(time); }

 private:
  ManualClock clock_;
  Inventory shop_{{.clock = &clock_, .metrics = nullptr, .retention = kRetention}};
};

TEST(InventoryDocumentTest, OutcomeTable_EachCallInEachState_IsWhatTheInventoryDoes) {
  EXPECT_EQ(OrderOutcomes([] { return std::make_unique<LocalOutcomeShop>(); }),
            DocumentedTable("docs/INVENTORY.md", "| the order is"));
}

// The refusals' statuses in the other table.
TEST(InventoryDocumentTest, RefusalTable_NamesEachRefusal) {
  const std::vector<std::string> table = DocumentedTable("docs/INVENTORY.md", "| refusal |");
  EXPECT_EQ(table.size(), 2u + static_cast<size_t>(Refusal::kInvalid));
}

}  // namespace
}  // namespace stockade::testing

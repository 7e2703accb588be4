// What the tables say, as the fleet understands it: also values that no fleet writes.

#include "fleet_rows.h"

#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include "fleet_rules.h"

namespace stockade::inventory_internal {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// A row of the SKU 1 for one of its rows of stock.
struct SkuValues {
  int64_t limit = 0, granted = 10, segments = 1, mode = 0, epoch = 0, limbo = 0;
  int64_t units = 10, held = 0, sold = 0, segment = 0, fence = 0, fills = 0;
  bool has_stock = true;
};

FleetSkuRow Read(const std::vector<SkuValues>& rows) {
  FleetSkuTable table;
  for (const SkuValues& row : rows) {
    std::optional<FleetStockColumns> stock;
    if (row.has_stock) stock.emplace(row.units, row.held, row.sold, row.segment, row.fence, row.fills);
    table.emplace_back(1, "sneaker", row.limit, false, row.granted, row.segments, row.mode, row.epoch, 0, row.limbo,
                       false, stock);
  }
  FleetSkuRows skus;
  AddFleetSkus(table, skus);
  return skus[1];
}

FleetOrderRow ReadOrder(int64_t kind, int64_t state, int64_t quantity, int64_t returned = 0) {
  FleetOrderRow order;
  order.Add({7, kind, state, {}, 0, 0, 0, 0, 1, quantity, returned});
  return order;
}

TEST(FleetRowsTest, SegmentsAreAddedUp_AndThoseOfNodesHaveTheirFences) {
  const FleetSkuRow sku = Read({{.segments = 2, .units = 3, .held = 1, .sold = 2},
                                {.segments = 2, .units = 4, .segment = 1},
                                {.segments = 2, .units = 5, .segment = kFirstNodeSegment, .fence = 6, .fills = 7}});
  EXPECT_EQ(sku.damage, "");
  EXPECT_EQ(sku.segment_units, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(std::tuple(sku.units, sku.held, sku.sold), std::tuple(12, 1, 2));
  ASSERT_EQ(sku.nodes.size(), 1);
  EXPECT_EQ(sku.nodes.at(kFirstNodeSegment).fence, 6);
  EXPECT_EQ(sku.nodes.at(kFirstNodeSegment).fills, 7);
  EXPECT_EQ(Read({{.granted = 10, .limbo = 2, .units = 3, .held = 1, .sold = 4}}).Snapshot().held, 3);
}

TEST(FleetRowsTest, NoStock_HasNoSegment) { EXPECT_TRUE(Read({{.has_stock = false}}).segment_units.empty()); }

TEST(FleetRowsTest, ValuesThatNoFleetWrites_AreDamage) {
  EXPECT_EQ(Read({{.mode = 2}}).damage, "");
  EXPECT_EQ(Read({{.mode = 3}}).damage, "the mode 3");
  EXPECT_EQ(Read({{.mode = -1}}).damage, "the mode -1");
  EXPECT_EQ(Read({{.segments = 0}}).damage, "0 segments");
  EXPECT_EQ(Read({{.segments = kMaxShards}}).damage, "");
  EXPECT_EQ(Read({{.segments = kMaxShards + 1}}).damage, base_internal::Concat(kMaxShards + 1, " segments"));
  EXPECT_EQ(Read({{.limit = -1}}).damage, "the per_buyer_limit -1");
  EXPECT_EQ(ReadOrder(0, 0, 1).damage, "");
  EXPECT_EQ(ReadOrder(3, 3, kMaxUnits).damage, "");
  EXPECT_EQ(ReadOrder(4, 0, 1).damage, "the kind 4");
  EXPECT_EQ(ReadOrder(-1, 0, 1).damage, "the kind -1");
  EXPECT_EQ(ReadOrder(0, 4, 1).damage, "the state 4");
  EXPECT_EQ(ReadOrder(0, -1, 1).damage, "the state -1");
  EXPECT_EQ(ReadOrder(0, 0, 0).damage, "0 units");
  EXPECT_EQ(ReadOrder(0, 0, kMaxUnits + 1).damage, base_internal::Concat(kMaxUnits + 1, " units"));
  EXPECT_EQ(ReadOrder(0, 1, 2, 2).damage, "");
  EXPECT_EQ(ReadOrder(0, 1, 2, 3).damage, "2 units, of which 3 came back");
  EXPECT_EQ(ReadOrder(0, 1, 2, -1).damage, "2 units, of which -1 came back");
}

TEST(FleetRowsTest, SegmentsThatTogetherCannotBe_AreDamage) {
  EXPECT_EQ(Read({{}}).Damage(), "");
  EXPECT_EQ(Read({{.segments = 2}}).Damage(), "1 rows of stock instead of 2");
  EXPECT_EQ(Read({{.limit = -1}}).Damage(), "the per_buyer_limit -1");
  // Orders were taken from one segment, and ended in the other.
  EXPECT_EQ(
      Read({{.segments = 2, .held = 3, .sold = -1}, {.segments = 2, .held = -3, .sold = 1, .segment = 1}}).Damage(),
      "");
  EXPECT_EQ(Read({{.units = -1}}).Damage(), "-1 units, 0 held, 0 sold and 0 in limbo");
  EXPECT_NE(Read({{.held = -1}}).Damage(), "");
  EXPECT_NE(Read({{.sold = -1}}).Damage(), "");
  EXPECT_NE(Read({{.limbo = -1}}).Damage(), "");
}

TEST(FleetRowsTest, SumsOfAnyNumbers_DoNotOverflow) {
  for (const int64_t number : {kLeast, kMost}) {
    const SkuValues all{.granted = number,
                        .limbo = number,
                        .units = number,
                        .held = number,
                        .sold = number,
                        .fence = number,
                        .fills = number};
    SkuValues node = all;
    node.segment = kFirstNodeSegment;
    const FleetSkuRow sku = Read({all, all, node});
    const int64_t bound = number < 0 ? -kMaxUnits : kMaxUnits;
    EXPECT_EQ(std::tuple(sku.granted, sku.units, sku.held, sku.sold), std::tuple(bound, bound, bound, bound));
    EXPECT_EQ(sku.unsold(), 0);
    EXPECT_EQ(sku.nodes.at(kFirstNodeSegment).fence, bound);
    EXPECT_EQ(sku.Snapshot().held, 2 * bound);
  }
}

TEST(FleetRowsTest, UnitsGoToLimboUnlessTheSkuIsOpen) {
  EXPECT_FALSE(DepositsToLimbo({.mode = FleetMode::kOpen}));
  EXPECT_TRUE(DepositsToLimbo({.mode = FleetMode::kLatched}));
  EXPECT_TRUE(DepositsToLimbo({.mode = FleetMode::kDraining}));
}

TEST(FleetRowsTest, RefusalCountsTheUnitsOfAllSegmentsAndNodes) {
  const FleetSkuRow sku = Read({{.segments = 2, .units = 0},
                                {.segments = 2, .units = 4, .segment = 1},
                                {.segments = 2, .units = 5, .segment = kFirstNodeSegment}});
  EXPECT_EQ(sku.UnitsForSale(), 9);
}

#ifdef STOCKADE_CRASH_POINTS
// Each rule is noticed by the tests above: left out, the answer is another one.
class FleetRowRulesTest : public ::testing::Test {
 protected:
  void TearDown() override { fleet_defect = FleetDefect::kNone; }
};

TEST_F(FleetRowRulesTest, LeftOut_TheAnswerIsAnother) {
  const FleetSkuRow sku = Read({{.segments = 2, .units = 0},
                                {.segments = 2, .units = 4, .segment = 1},
                                {.segments = 2, .units = 5, .segment = kFirstNodeSegment}});
  fleet_defect = FleetDefect::kEmptyIsSoldOut;
  EXPECT_EQ(sku.UnitsForSale(), 0);
  fleet_defect = FleetDefect::kRefuseByPool;
  EXPECT_EQ(sku.UnitsForSale(), 4);
  fleet_defect = FleetDefect::kSecondToPool;
  EXPECT_FALSE(DepositsToLimbo({.mode = FleetMode::kDraining}));
  EXPECT_TRUE(DepositsToLimbo({.mode = FleetMode::kLatched}));
}
#endif

}  // namespace
}  // namespace stockade::inventory_internal

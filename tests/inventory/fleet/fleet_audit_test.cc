// docs/fleet_audit.sql finds each error that it says it looks for.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "inventory/fleet/fleet_test.h"

namespace stockade {
namespace {

using base_internal::Concat;

class FleetAuditTest : public testing::FleetTest {
 protected:
  void SetUp() override {
    FleetTest::SetUp();
    if (IsSkipped()) return;
    shop_ = Connect();
    ASSERT_TRUE(shop_->AddSku("sneaker", {.stock = 100, .shards = 2, .per_buyer_limit = 5}).ok());
    ASSERT_TRUE(shop_->AddSku("lace", {.stock = 100}).ok());
    ASSERT_TRUE(shop_->AddSku("boot", {.stock = 100}).ok());
    ASSERT_TRUE(shop_->Take({.sku = "sneaker", .quantity = 2, .request_id = "1", .buyer = "ann"}).ok());
    ASSERT_TRUE(shop_->Reserve({.sku = "lace", .request_id = "2"}).ok());
    ASSERT_TRUE(shop_->ReserveBasket({.lines = {{"sneaker", 1}, {"lace", 3}}, .request_id = "3", .buyer = "bob"}).ok());
    ASSERT_TRUE(shop_->Cancel(shop_->Reserve({.sku = "lace", .request_id = "4"})->id()).ok());
    ASSERT_TRUE(shop_->Restock({.sku = "lace", .quantity = 7, .request_id = "5"}).ok());
    const auto sold = shop_->ReserveBasket({.lines = {{"sneaker", 4}, {"lace", 9}}, .request_id = "6", .buyer = "eve"});
    ASSERT_TRUE(shop_->Commit(sold->id()).ok());
    ASSERT_TRUE(shop_->Return({.order = sold->id(), .lines = {{"sneaker", 2}}, .request_id = "7"}).ok());
    ASSERT_TRUE(shop_
                    ->Return({.order = sold->id(),
                              .lines = {{"lace", 4}},
                              .request_id = "8",
                              .disposition = ReturnRequest::Disposition::kWriteOff})
                    .ok());
    ASSERT_TRUE(shop_->RemoveSku("boot").ok());
  }
  // The damage stays.
  void TearDown() override {}

  // Changes the tables, whose names begin with "@", and returns the statements that find it.
  std::set<std::string> FoundAfter(std::string sql) {
    for (size_t at = sql.find('@'); at != std::string::npos; at = sql.find('@', at)) sql.replace(at, 1, Table(""));
    // Constraints refuse some of it.
    server().Query(Concat("SET STATEMENT check_constraint_checks=0 FOR ", sql));
    std::set<std::string> names;
    for (const testing::FleetFinding& found : testing::AuditFleet(server(), "test." + fleet()))
      names.insert(found.statement);
    return names;
  }

  std::unique_ptr<Inventory> shop_;
};

using Names = std::set<std::string>;

TEST_F(FleetAuditTest, SoundTables_NothingIsFound) { EXPECT_EQ(FoundAfter("DELETE FROM @lanes WHERE FALSE"), Names()); }

TEST_F(FleetAuditTest, UnitsThatNobodyGranted_AreFound) {
  EXPECT_EQ(FoundAfter("UPDATE @stock SET units=units+1 WHERE segment=1"), Names({"stock"}));
}

TEST_F(FleetAuditTest, OversoldUnits_AreFound) {
  EXPECT_EQ(FoundAfter("UPDATE @stock SET sold=sold+units+1,units=-1 WHERE segment=1"), Names({"totals", "units"}));
}

TEST_F(FleetAuditTest, UnitsOfARemovedSku_AreFound) {
  EXPECT_EQ(FoundAfter("UPDATE @skus s JOIN @stock t ON t.sku_id=s.sku_id SET granted=1,units=1 WHERE sku='boot'"),
            Names({"units"}));
}

TEST_F(FleetAuditTest, MissingSegment_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @stock SET segment=7 WHERE segment=1"), Names({"segments"}));
}

TEST_F(FleetAuditTest, SegmentOfANodeThatThereIsNot_IsFound) {
  EXPECT_EQ(FoundAfter("INSERT INTO @stock (sku_id,segment,units,held,sold,fence,fills) "
                       "SELECT sku_id,1000003,0,0,0,1,1 FROM @skus WHERE sku='lace'"),
            Names({"nodes"}));
}

TEST_F(FleetAuditTest, SegmentOfTheLedgerWithAGeneration_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @stock SET fence=1 WHERE segment=1"), Names({"nodes"}));
}

TEST_F(FleetAuditTest, LostOrder_IsFound) {
  EXPECT_EQ(FoundAfter("DELETE FROM @orders WHERE kind=0"), Names({"buyers", "totals"}));
}

TEST_F(FleetAuditTest, OrderOfAnUnknownSku_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @order_lines SET sku_id=5 WHERE quantity=3"), Names({"totals", "unknown"}));
}

TEST_F(FleetAuditTest, RequestThatTookTwice_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @orders o JOIN @orders p ON p.kind=3 SET o.request=p.request WHERE o.kind=1"),
            Names({"requests"}));
}

TEST_F(FleetAuditTest, RequestThatWasForgottenTooEarly_IsFound) {
  EXPECT_EQ(FoundAfter("DELETE FROM @requests ORDER BY id LIMIT 1"), Names({"requests"}));
}

TEST_F(FleetAuditTest, ReservationWithAnotherEnd_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @orders SET at=at+1 WHERE kind=2"), Names({"orders"}));
}

TEST_F(FleetAuditTest, BasketWithoutLines_IsFound) {
  EXPECT_EQ(FoundAfter("DELETE FROM @order_lines"), Names({"buyers", "changes", "lines", "totals"}));
}

TEST_F(FleetAuditTest, OrderUnderAFenceThatItsLaneNeverHad_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @orders SET fence=2 WHERE kind=0"), Names({"lanes"}));
}

TEST_F(FleetAuditTest, BuyerOverTheLimit_IsFound) {
  EXPECT_EQ(FoundAfter("UPDATE @buyers SET units=6 ORDER BY buyer LIMIT 1"), Names({"buyers"}));
}

TEST_F(FleetAuditTest, ReturnThatIsLost_IsFound) {
  EXPECT_EQ(FoundAfter("DELETE FROM @changes WHERE kind=0"), Names({"buyers", "totals"}));
}

TEST_F(FleetAuditTest, ReturnsThatCannotBe_AreFound) {
  const std::pair<const char*, Names> damages[] = {
      {"UPDATE @changes SET quantity=5 WHERE kind=0", {"buyers", "changes", "totals"}},
      {"UPDATE @changes SET sku_id=5 WHERE kind=0", {"buyers", "changes", "totals"}},
      {"UPDATE @changes SET to_stock=1", {"changes"}},
      {"UPDATE @changes SET version=version+9", {"changes"}},
      {"UPDATE @changes SET kind=2,to_stock=0 WHERE kind=0", {"changes"}},
      {"UPDATE @changes SET at=at+1000000000", {"changes"}},
      {"UPDATE @changes SET request=REPEAT('x',16) WHERE kind=0", {"requests"}},
      {"UPDATE @changes c JOIN @orders o ON o.kind=0 SET c.order_id=o.order_id WHERE c.kind=1",
       {"changes", "requests"}},
  };
  const std::string copy = Table("copy");
  server().Query(Concat("CREATE TABLE ", copy, " AS SELECT * FROM ", Table("changes")));
  for (const auto& [damage, names] : damages) {
    EXPECT_EQ(FoundAfter(damage), names) << damage;
    server().Query("DELETE FROM " + Table("changes"));
    server().Query(Concat("INSERT INTO ", Table("changes"), " SELECT * FROM ", copy));
  }
}

TEST_F(FleetAuditTest, RowOfTheFleetThatIsMissing_IsFound) {
  EXPECT_EQ(FoundAfter("DELETE FROM @fleet"), Names({"fleet"}));
}

TEST_F(FleetAuditTest, BuyerThatIsMissing_IsFound) {
  EXPECT_EQ(FoundAfter("DELETE FROM @buyers ORDER BY buyer LIMIT 1"), Names({"buyers"}));
}

}  // namespace
}  // namespace stockade

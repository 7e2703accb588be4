#include "inventory/fleet/fleet_test.h"
#include "request_fingerprint.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "support/await.h"
#include "support/temp_dir.h"

namespace stockade {
namespace {

constexpr FingerprintKey kKey = {1, 2};

uint64_t FingerprintOf(std::string_view text) { return inventory_internal::RequestFingerprint(kKey)(text); }

// What a ledger holds.
class Recovered final : public Ledger {
 public:
  explicit Recovered(LedgerState state) : state_(std::move(state)) {}
  LedgerState TakeRecovered() override { return std::move(state_); }
  uint64_t Append(LedgerRecord) override { return 0; }
  absl::Status AwaitDurable(uint64_t) override { return absl::OkStatus(); }
  void NotifyDurable(uint64_t, absl::AnyInvocable<void(absl::Status)>) override {}
  absl::Status Health() const override { return absl::OkStatus(); }

 private:
  LedgerState state_;
};

class FleetImportTest : public testing::FleetTest {
 protected:
  std::string path() const { return dir_.File("orders.db"); }
  std::unique_ptr<SqliteLedger> Open() const {
    absl::StatusOr<std::unique_ptr<SqliteLedger>> ledger = SqliteLedger::Open(path());
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    return *std::move(ledger);
  }
  absl::Status Import() const { return FleetInventory::Import(Options(), *Open()); }

 private:
  testing::TempDir dir_;
};

TEST_F(FleetImportTest, AShopGoesOnWhereItWas) {
  OrderId held_id = 0;
  OrderId basket_id = 0;
  {
    const auto shop = Inventory::Create({.ledger = Open(), .metrics = nullptr}).value();
    ASSERT_EQ(shop->AddSku("sneaker", {.stock = 10, .per_buyer_limit = 3}), absl::OkStatus());
    ASSERT_EQ(shop->AddSku("laces", {.stock = 5}), absl::OkStatus());
    ASSERT_EQ(shop->AddSku("boot", {.stock = 5}), absl::OkStatus());
    ASSERT_TRUE(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "sold", .buyer = "ann"}).ok());
    held_id = shop->Reserve({.sku = "sneaker", .request_id = "held", .buyer = "ann", .ttl = absl::Hours(1)})->id();
    basket_id = shop->ReserveBasket({.lines = {{"laces", 2}, {"boot", 1}}, .request_id = "basket"})->id();
    const auto cancelled = shop->Reserve({.sku = "laces", .request_id = "cancelled"});
    ASSERT_EQ(shop->Cancel(cancelled->id()), absl::OkStatus());
    ASSERT_EQ(shop->Restock({.sku = "laces", .quantity = 7, .request_id = "more"}), absl::OkStatus());
    ASSERT_EQ(shop->RemoveSku("boot"), absl::OkStatus());
  }
  ASSERT_TRUE(Import().ok());

  const auto shop = Connect();
  const StockFigures sneakers = shop->Figures("sneaker").value();
  EXPECT_EQ(sneakers.granted, 10);
  EXPECT_EQ(sneakers.available, 7);
  EXPECT_EQ(sneakers.held, 1);
  EXPECT_EQ(sneakers.sold, 2);
  EXPECT_EQ(shop->Available("laces").value(), 10);
  EXPECT_EQ(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "sold", .buyer = "ann"})->state(),
            OrderState::kSold);
  EXPECT_EQ(shop->Reserve({.sku = "sneaker", .request_id = "held", .buyer = "ann", .ttl = absl::Hours(1)})->id(),
            held_id);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "sneaker", .request_id = "4th", .buyer = "ann"}).status()),
            Refusal::kBuyerLimit);
  EXPECT_EQ(shop->Reserve({.sku = "laces", .request_id = "cancelled"})->state(), OrderState::kCancelled);
  EXPECT_EQ(shop->Restock({.sku = "laces", .quantity = 7, .request_id = "more"}), absl::OkStatus());
  EXPECT_EQ(shop->Available("laces").value(), 10) << "the restock was a repeat";
  EXPECT_EQ(shop->Commit(basket_id), absl::OkStatus());
  EXPECT_EQ(shop->Cancel(held_id), absl::OkStatus());
  EXPECT_EQ(shop->Available("sneaker").value(), 8);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "boot", .request_id = "b"}).status()), Refusal::kUnknownSku);
}

TEST_F(FleetImportTest, ForgottenRequestsStayForgotten) {
  Recovered ledger({.skus = {{.sku = "sneaker", .granted = 9, .sold_forgotten = 1}},
                    .orders = {},
                    .forgotten = {FingerprintOf("old"), FingerprintOf("restock")},
                    .last_forgotten_id = 2,
                    .fingerprint_key = kKey});
  ASSERT_EQ(FleetInventory::Import(Options(), ledger), absl::OkStatus());

  const auto shop = Connect();
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "sneaker", .request_id = "old"}).status()), Refusal::kRequestForgotten);
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .request_id = "new"}).ok());
  EXPECT_TRUE(absl::IsNotFound(shop->FindByRequest("old").status())) << shop->FindByRequest("old").status();
  EXPECT_EQ(RefusalOf(shop->FindByRequest("old").status()), Refusal::kRequestForgotten);
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "sneaker", .request_id = "old"}).status()), Refusal::kRequestForgotten)
      << "tried without a look";
  EXPECT_EQ(RefusalOf(shop->Restock({.sku = "sneaker", .quantity = 1, .request_id = "restock"})),
            Refusal::kRequestForgotten);
}

TEST_F(FleetImportTest, AFleetInUseTakesOverNothing) {
  {
    const auto shop = Inventory::Create({.ledger = Open(), .metrics = nullptr}).value();
    ASSERT_EQ(shop->AddSku("sneaker", {.stock = 9}), absl::OkStatus());
  }
  {
    const auto shop = Connect();
    ASSERT_EQ(shop->AddSku("boot", {.stock = 1}), absl::OkStatus());
  }
  const absl::Status imported = Import();
  EXPECT_TRUE(absl::IsFailedPrecondition(imported)) << imported;
  EXPECT_TRUE(absl::IsNotFound(Connect()->Figures("sneaker").status()));
}

TEST_F(FleetImportTest, ADamagedLedgerLeavesTheFleetNew) {
  Recovered damaged(
      {.skus = {{.sku = "sneaker", .granted = 1}},
       .orders = {{.order_id = 1, .request_id = "a", .lines = {{"sneaker", 2}}, .state = OrderState::kSold}}});
  EXPECT_TRUE(absl::IsDataLoss(FleetInventory::Import(Options(), damaged)));
  Recovered two_lines(
      {.skus = {{.sku = "sneaker", .granted = 2}},
       .orders = {
           {.order_id = 1, .request_id = "a", .lines = {{"sneaker", 1}, {"sneaker", 1}}, .state = OrderState::kSold}}});
  EXPECT_TRUE(absl::IsDataLoss(FleetInventory::Import(Options(), two_lines)));
  EXPECT_EQ(server().Value("SELECT COUNT(*) FROM " + Table("skus")), "0");
}

TEST_F(FleetImportTest, AForgottenBuyerIsNobody) {
  const auto shop = Connect();
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 9, .per_buyer_limit = 2}), absl::OkStatus());
  ASSERT_EQ(shop->AddSku("laces", {.stock = 9}), absl::OkStatus());
  const auto held = shop->Reserve({.sku = "sneaker", .request_id = "a", .buyer = "ann"});
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "b", .buyer = "ann"}).ok());
  ASSERT_TRUE(shop->Take({.sku = "laces", .request_id = "c", .buyer = "ann"}).ok());
  ASSERT_TRUE(shop->Take({.sku = "laces", .request_id = "d", .buyer = "bob"}).ok());
  ASSERT_EQ(FleetInventory::ForgetBuyer(Options(), "ann"), absl::OkStatus());
  ASSERT_EQ(FleetInventory::ForgetBuyer(Options(), "ann"), absl::OkStatus()) << "there is no such buyer any more";
  EXPECT_EQ(Audit(), std::vector<std::string>());
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "e", .buyer = "ann"}).ok());
  EXPECT_EQ(RefusalOf(shop->Take({.sku = "laces", .request_id = "c", .buyer = "ann"}).status()),
            Refusal::kRequestMismatch);
  EXPECT_TRUE(shop->Take({.sku = "laces", .request_id = "d", .buyer = "bob"}).ok());
  EXPECT_EQ(shop->Cancel(held->id()), absl::OkStatus());
  EXPECT_TRUE(absl::IsInvalidArgument(FleetInventory::ForgetBuyer(Options(), "")));
}

TEST_F(FleetImportTest, ABuyerIsForgottenAfterTheOrders_TheAuditHolds) {
  FleetInventoryOptions options = Options();
  options.retention = absl::Seconds(1);
  const auto shop = Connect(options);
  ASSERT_EQ(shop->AddSku("sneaker", {.stock = 9, .per_buyer_limit = 2}), absl::OkStatus());
  ASSERT_TRUE(shop->Take({.sku = "sneaker", .request_id = "a", .buyer = "ann"}).ok());
  testing::Await("an order that is forgotten",
                 [&] { return server().Value("SELECT COUNT(*) FROM " + Table("orders")) == "0"; });
  EXPECT_EQ(Audit(), std::vector<std::string>());
  ASSERT_EQ(FleetInventory::ForgetBuyer(Options(), "ann"), absl::OkStatus());
  EXPECT_EQ(Audit(), std::vector<std::string>());
  EXPECT_TRUE(shop->Take({.sku = "sneaker", .quantity = 2, .request_id = "b", .buyer = "ann"}).ok());
}

}  // namespace
}  // namespace stockade

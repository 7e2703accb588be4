#include "stockade/inventory/inventory.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/run_threads.h"
#include "support/scale.h"

namespace stockade {

bool operator==(const StockFigures& a, const StockFigures& b) {
  return a.granted == b.granted && a.available == b.available && a.held == b.held && a.sold == b.sold;
}

namespace {

class InventoryTest : public ::testing::Test {
 protected:
  InventoryTest() { EXPECT_TRUE(shop_.AddSku("sneaker", {.stock = 10, .shards = 3}).ok()); }

  StockFigures Figures() { return shop_.Figures("sneaker").value(); }

  Inventory shop_{{.name = "shop", .metrics = nullptr}};
};

TEST_F(InventoryTest, TakeAndReserve_MoveUnitsBetweenTheFigures) {
  EXPECT_EQ(Figures(), (StockFigures{.granted = 10, .available = 10}));
  const Order order = shop_.Take({.sku = "sneaker", .quantity = 2, .request_id = "a"}).value();
  EXPECT_EQ(order.quantity(), 2);
  EXPECT_EQ(order.sku(), "sneaker");
  const Reservation held = shop_.Reserve({.sku = "sneaker", .quantity = 3, .request_id = "b"}).value();
  EXPECT_NE(held.id(), order.id());
  EXPECT_EQ(Figures(), (StockFigures{.granted = 10, .available = 5, .held = 3, .sold = 2}));
  EXPECT_TRUE(shop_.Commit(held.id()).ok());
  EXPECT_EQ(Figures(), (StockFigures{.granted = 10, .available = 5, .held = 0, .sold = 5}));
  const Reservation regretted = shop_.Reserve({.sku = "sneaker", .quantity = 5, .request_id = "c"}).value();
  EXPECT_EQ(shop_.Available("sneaker").value(), 0);
  EXPECT_TRUE(shop_.Cancel(regretted.id()).ok());
  EXPECT_TRUE(shop_.Restock("sneaker", 7).ok());
  EXPECT_EQ(Figures(), (StockFigures{.granted = 17, .available = 12, .held = 0, .sold = 5}));
}

TEST_F(InventoryTest, Refusals_AreTypedAndChangeNothing) {
  const auto take = [&](std::string sku, int64_t quantity, std::string id) {
    return shop_.Take({.sku = sku, .quantity = quantity, .request_id = id}).status();
  };
  EXPECT_EQ(take("sneaker", 0, "a").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RefusalOf(take("sneaker", -1, "a")), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(take("sneaker", INT64_MIN, "a")), Refusal::kInvalid);
  EXPECT_EQ(RefusalOf(take("sneaker", 1, "")), Refusal::kInvalid);
  EXPECT_EQ(take("sneaker", INT64_MAX, "a").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RefusalOf(take("sneaker", 11, "a")), Refusal::kSoldOut);
  EXPECT_EQ(take("boot", 1, "a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RefusalOf(take("boot", 1, "a")), Refusal::kUnknownSku);
  EXPECT_EQ(shop_.Available("boot").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RefusalOf(shop_.Reserve({.sku = "sneaker", .request_id = "a", .ttl = absl::ZeroDuration()}).status()),
            Refusal::kInvalid);
  EXPECT_EQ(shop_.Restock("sneaker", 0).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shop_.Restock("sneaker", INT64_MAX).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(shop_.Restock("sneaker", kMaxUnits - 9).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(shop_.Restock("boot", 1).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(shop_.AddSku("sneaker", {.stock = 1}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(shop_.AddSku("", {.stock = 1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shop_.AddSku("boot", {.stock = -1}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(shop_.AddSku("boot", {.stock = -1}).message()),
            absl::StrCat("Inventory 'shop': AddSku 'boot': stock is -1, which is not within 0 to ", kMaxUnits));
  EXPECT_EQ(SkuOptions{.shards = 257}.Validate().message(), "shards is 257, which is not within 0 to 256");
  EXPECT_EQ(shop_.Reserve({.sku = "sneaker", .quantity = 0, .request_id = std::string("a\n\0", 3)}).status().message(),
            "Inventory 'shop': request 'a\\n\\x00' wants 0 units of 'sneaker'; the quantity must be at least 1");
  EXPECT_EQ(shop_.Commit(77).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(shop_.Cancel(0).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Figures(), (StockFigures{.granted = 10, .available = 10}));
  // A refused request took nothing, so its id is as good as new.
  EXPECT_TRUE(take("sneaker", 1, "a").ok());
}

// A string from outside that no ledger could keep used to fail the ledger for good.
TEST_F(InventoryTest, TooLongStrings_AreInvalidInEachCall_AndTheTextSaysTheLimitAndTheSize) {
  const std::string longest(255, 'x');
  const std::string too_long(256, 'x');
  ASSERT_TRUE(shop_.AddSku(longest, {.stock = 10, .per_buyer_limit = 9}).ok());
  const auto expect_invalid = [&](const absl::Status& status, const std::string& what) {
    EXPECT_EQ(RefusalOf(status), Refusal::kInvalid) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(what + " has 256 bytes; at most 255 are allowed"));
    EXPECT_LT(status.message().size(), 200u);
  };
  expect_invalid(shop_.AddSku(too_long, {.stock = 1}), "sku");
  expect_invalid(shop_.RemoveSku(too_long), "sku");
  expect_invalid(shop_.Restock(too_long, 1), "sku");
  expect_invalid(shop_.Reshard(too_long, 1), "sku");
  expect_invalid(shop_.Available(too_long).status(), "sku");
  expect_invalid(shop_.Figures(too_long).status(), "sku");
  expect_invalid(shop_.Snapshot(too_long).status(), "sku");
  expect_invalid(shop_.Take({.sku = too_long, .request_id = "a"}).status(), "sku");
  expect_invalid(shop_.Take({.sku = longest, .request_id = too_long, .buyer = "b"}).status(), "request_id");
  expect_invalid(shop_.Take({.sku = longest, .request_id = "a", .buyer = too_long}).status(), "buyer");
  expect_invalid(shop_.Reserve({.sku = longest, .quantity = 0, .request_id = too_long}).status(), "request_id");
  expect_invalid(shop_.Reserve({.sku = too_long, .quantity = 0, .request_id = "a"}).status(), "sku");
  expect_invalid(shop_.ReserveBasket({.lines = {}, .request_id = too_long}).status(), "request_id");
  expect_invalid(shop_.ReserveBasket({.lines = {}, .request_id = "a", .buyer = too_long}).status(), "buyer");
  expect_invalid(shop_.ReserveBasket({.lines = {{"sneaker", 1}, {too_long, 0}}, .request_id = "a"}).status(), "sku");
  EXPECT_EQ(Figures(), (StockFigures{.granted = 10, .available = 10}));
  EXPECT_TRUE(shop_.Take({.sku = longest, .request_id = longest, .buyer = longest}).ok());
}

TEST_F(InventoryTest, Basket_OfTooManyLines_IsInvalid) {
  const absl::Status refused =
      shop_.ReserveBasket({.lines = std::vector<OrderLine>(1'001, {"sneaker", 1}), .request_id = "a"}).status();
  EXPECT_EQ(RefusalOf(refused), Refusal::kInvalid);
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("has 1001 lines; at most 1000 are allowed"));
  ASSERT_TRUE(shop_.Restock("sneaker", 990).ok());
  EXPECT_TRUE(shop_.ReserveBasket({.lines = std::vector<OrderLine>(1'000, {"sneaker", 1}), .request_id = "a"}).ok());
}

TEST_F(InventoryTest, Refusal_WhileUnitsAreHeld_SaysThatTheyMayComeBack) {
  const Reservation held = shop_.Reserve({.sku = "sneaker", .quantity = 10, .request_id = "a"}).value();
  const absl::Status refused = shop_.Take({.sku = "sneaker", .request_id = "b"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(RefusalOf(refused), Refusal::kAllHeld);
  EXPECT_EQ(RefusalOf(shop_.Take({.sku = "sneaker", .quantity = 11, .request_id = "b"}).status()), Refusal::kSoldOut);
  EXPECT_TRUE(shop_.Commit(held.id()).ok());
  EXPECT_EQ(RefusalOf(shop_.Take({.sku = "sneaker", .request_id = "b"}).status()), Refusal::kSoldOut);
}

TEST_F(InventoryTest, Refusal_WhereNothingIsEverSold_IsNeverSoldOut) {
  ASSERT_TRUE(shop_.AddSku("last", {.stock = 1, .shards = 2}).ok());
  const int64_t rounds = testing::Scaled(5'000, 500'000);
  testing::RunThreads(3, [&](int thread) {
    for (int64_t i = 0; i < rounds; ++i) {
      const auto held = shop_.Reserve({.sku = "last", .request_id = std::to_string(thread) + "-" + std::to_string(i)});
      if (held.ok()) {
        EXPECT_TRUE(shop_.Cancel(held->id()).ok());
      } else {
        EXPECT_EQ(RefusalOf(held.status()), Refusal::kAllHeld) << held.status();
      }
    }
  });
}

TEST_F(InventoryTest, Take_MoreBuyersThanUnits_ExactlyTheStockIsSold) {
  const int64_t stock = testing::Scaled(2'000, 50'000);
  ASSERT_TRUE(shop_.AddSku("ticket", {.stock = stock, .shards = 4}).ok());
  std::atomic<int64_t> sold{0};
  testing::RunThreads(4, [&](int thread) {
    for (int64_t i = 0; i < stock; ++i) {
      const auto order = shop_.Take({.sku = "ticket", .request_id = std::to_string(thread) + "-" + std::to_string(i)});
      if (order.ok()) {
        ++sold;
      } else if (RefusalOf(order.status()) != Refusal::kSoldOut) {
        // While another thread has taken the last units and has not sold them yet.
        EXPECT_EQ(RefusalOf(order.status()), Refusal::kAllHeld);
      }
    }
  });
  EXPECT_EQ(sold, stock);
  EXPECT_EQ(RefusalOf(shop_.Take({.sku = "ticket", .request_id = "late"}).status()), Refusal::kSoldOut);
  EXPECT_EQ(shop_.Figures("ticket").value(), (StockFigures{.granted = stock, .sold = stock}));
}

TEST_F(InventoryTest, CancelAndRestock_RacingWithSoldOut_TakeAfterThemSucceeds) {
  ASSERT_TRUE(shop_.AddSku("last", {.stock = 1, .shards = 4}).ok());
  std::atomic<bool> stop{false};
  const int64_t rounds = testing::Scaled(1'000, 50'000);
  testing::RunThreads(3, [&](int thread) {
    while (thread != 0 && !stop) {  // There are never 50 units: each is refused.
      EXPECT_FALSE(shop_.Take({.sku = "last", .quantity = 50, .request_id = "never"}).ok());
    }
    for (int64_t i = 0; thread == 0 && i < rounds; ++i) {
      const auto held = shop_.Reserve({.sku = "last", .request_id = "held" + std::to_string(i)});
      ASSERT_TRUE(held.ok()) << held.status();
      ASSERT_TRUE(shop_.Cancel(held->id()).ok());
      const auto sold = shop_.Take({.sku = "last", .request_id = "sold" + std::to_string(i)});
      ASSERT_TRUE(sold.ok()) << sold.status();
      ASSERT_TRUE(shop_.Restock("last", 1).ok());
    }
    if (thread == 0) stop = true;
  });
}

TEST_F(InventoryTest, Figures_UnderLoad_AlwaysAddUp) {
  const int64_t rounds = testing::Scaled(2'000, 100'000);
  std::atomic<int> running{3};
  testing::RunThreads(4, [&](int thread) {
    if (thread == 0) {
      while (running > 0) {
        const StockFigures at = Figures();
        ASSERT_EQ(at.granted, at.available + at.held + at.sold);
      }
      return;
    }
    for (int64_t i = 0; i < rounds; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const auto held = shop_.Reserve({.sku = "sneaker", .quantity = 1 + i % 4, .request_id = id});
      if (held.ok()) {
        EXPECT_TRUE(shop_.Cancel(held->id()).ok());
      }
      if (i % 64 == 0) {
        EXPECT_TRUE(shop_.Restock("sneaker", 1).ok());
      }
    }
    --running;
  });
}

TEST(InventoryOptionsTest, BadOptions_AreNamed) {
  EXPECT_EQ(Inventory::Create({.name = "", .metrics = nullptr}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Inventory::Create({.clock = nullptr, .metrics = nullptr}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_DEATH(Inventory({.name = "shop", .stripes = 0}), "Inventory 'shop': stripes is 0");
}

}  // namespace
}  // namespace stockade

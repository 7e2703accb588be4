// The table of orders, row by row, and what holds for each of them.
#include "order_rules.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;
using base_internal::Concat;

constexpr Kind kKinds[] = {Kind::kAddSku, Kind::kRestock,       Kind::kRemoveSku, Kind::kReserve,
                           Kind::kTake,   Kind::kReserveBasket, Kind::kCommit,    Kind::kCancel,
                           Kind::kExpire, Kind::kExtend,        Kind::kReturn,    Kind::kWriteOff};
constexpr OrderState kStates[] = {OrderState::kHeld, OrderState::kSold, OrderState::kCancelled, OrderState::kExpired};
constexpr const char* kKindNames[] = {"add_sku", "restock", "remove_sku", "reserve", "take",   "reserve_basket",
                                      "commit",  "cancel",  "expire",     "extend",  "return", "write_off"};
constexpr const char* kStateNames[] = {"held", "sold", "cancelled", "expired"};
constexpr const char* kAccountNames[] = {"outside", "available", "held", "sold"};

const char* NameOf(Kind kind) { return kKindNames[static_cast<int>(kind)]; }
const char* NameOf(OrderState state) { return kStateNames[static_cast<int>(state)]; }
const char* NameOf(Account account) { return kAccountNames[static_cast<int>(account)]; }

TEST(OrderRulesTest, EachRecordMovesUnits) {
  std::string table;
  for (const Kind kind : kKinds) {
    const std::optional<OrderState> after = StateAfter(kind);
    const Transfer on_sale = TransferOf(kind, true);
    const Transfer removed = TransferOf(kind, false);
    table += Concat(NameOf(kind), ": ", NameOf(on_sale.from), " to ", NameOf(on_sale.to));
    if (removed != on_sale) table += Concat(", once removed to ", NameOf(removed.to));
    table += Concat(after.has_value() ? ", then " : "", after.has_value() ? NameOf(*after) : "",
                    IsGrant(kind) ? ", a grant" : "", TakesFirst(on_sale) ? ", takes first" : "", "; ",
                    ToOrders(on_sale), "\n");
  }
  EXPECT_EQ(table,
            "add_sku: outside to available; 0\n"
            "restock: outside to available; 0\n"
            "remove_sku: available to outside, takes first; 0\n"
            "reserve: available to held, then held, a grant, takes first; 1\n"
            "take: available to sold, then sold, a grant, takes first; 1\n"
            "reserve_basket: available to held, then held, a grant, takes first; 1\n"
            "commit: held to sold, then sold; 0\n"
            "cancel: held to available, once removed to outside, then cancelled; -1\n"
            "expire: held to available, once removed to outside, then expired; -1\n"
            "extend: held to held, then held; 0\n"
            "return: sold to available, once removed to outside, then sold; -1\n"
            "write_off: sold to outside, then sold; -1\n");
}

TEST(OrderRulesTest, EachStateAllowsWhatMayComeNext) {
  std::string table;
  for (const Kind kind : {Kind::kCommit, Kind::kCancel, Kind::kExpire, Kind::kExtend, Kind::kReturn, Kind::kWriteOff}) {
    table += NameOf(kind);
    for (const OrderState state : kStates) {
      const Verdict verdict = Judge(kind, state);
      table += Concat(" ", NameOf(state), "=",
                      verdict == Verdict::kApply     ? "apply"
                      : verdict == Verdict::kAlready ? "already"
                                                     : "wrong");
    }
    table += "\n";
  }
  EXPECT_EQ(table,
            "commit held=apply sold=already cancelled=wrong expired=wrong\n"
            "cancel held=apply sold=wrong cancelled=already expired=already\n"
            "expire held=apply sold=already cancelled=already expired=already\n"
            "extend held=apply sold=wrong cancelled=wrong expired=wrong\n"
            "return held=wrong sold=apply cancelled=wrong expired=wrong\n"
            "write_off held=wrong sold=apply cancelled=wrong expired=wrong\n");
}

TEST(OrderRulesTest, AnExtension_IsNeverShorterAndEndsWithTheLongestHold) {
  constexpr int64_t kEver = INT64_MAX;
  // ttl, left, granted, extended, longest.
  EXPECT_EQ(ExtensionUs(600, 100, 600, 0, 3600), 500);
  EXPECT_EQ(ExtensionUs(600, 600, 600, 0, 3600), 0);
  EXPECT_EQ(ExtensionUs(600, 601, 600, 0, 3600), 0);
  EXPECT_EQ(ExtensionUs(3099, 100, 600, 0, 3600), 2999);
  EXPECT_EQ(ExtensionUs(3100, 100, 600, 0, 3600), 3000);
  EXPECT_EQ(ExtensionUs(3101, 100, 600, 0, 3600), 3000);
  EXPECT_EQ(ExtensionUs(9999, 100, 600, 2999, 3600), 1);
  EXPECT_EQ(ExtensionUs(9999, 100, 600, 3000, 3600), 0);
  EXPECT_EQ(ExtensionUs(9999, 100, 600, 3000, 600), 0) << "the longest hold was longer before";
  EXPECT_EQ(ExtensionUs(9999, 100, 7200, 0, 3600), 0) << "its own time is longer";
  EXPECT_EQ(ExtensionUs(600, 100, 600, 0, 0), 0);
  EXPECT_EQ(ExtensionUs(kEver, 100, 600, 0, 3600), 3000);
  EXPECT_EQ(ExtensionUs(kEver, kEver, kEver, 0, kEver), 0);
  EXPECT_EQ(ExtensionUs(600, kEver, kEver, 0, 3600), 0);
}

TEST(OrderRulesTest, TheUnitsOfAnOrderAreWhereItsStateSays) {
  for (const Kind kind : kKinds) {
    if (!StateAfter(kind).has_value()) continue;
    if (IsReturn(kind)) {
      EXPECT_EQ(TransferOf(kind, true).from, AccountOf(OrderState::kSold)) << NameOf(kind);
      continue;
    }
    EXPECT_EQ(TransferOf(kind, true).to, AccountOf(*StateAfter(kind))) << NameOf(kind);
    if (!IsGrant(kind)) EXPECT_EQ(TransferOf(kind, true).from, AccountOf(OrderState::kHeld)) << NameOf(kind);
  }
}

TEST(OrderRulesTest, ATransferAndItsReverseLeaveEachAccountAsItWas) {
  for (const Kind kind : kKinds) {
    for (const bool on_sale : {true, false}) {
      const Transfer transfer = TransferOf(kind, on_sale);
      Balance balance{.available = 5, .held = 6, .sold = 7};
      balance.Add(transfer, 3);
      const bool crosses = transfer.from == Account::kOutside || transfer.to == Account::kOutside;
      EXPECT_EQ(balance.granted() != 18, crosses) << NameOf(kind);
      EXPECT_EQ(ToOrders(transfer) * 3, balance.held + balance.sold - 13) << NameOf(kind);
      EXPECT_EQ(ToOrders(Reverse(transfer)), -ToOrders(transfer)) << NameOf(kind);
      balance.Add(Reverse(transfer), 3);
      for (const Account account : {Account::kAvailable, Account::kHeld, Account::kSold}) {
        EXPECT_EQ(balance.In(account), Balance({.available = 5, .held = 6, .sold = 7}).In(account)) << NameOf(kind);
      }
    }
  }
}

}  // namespace
}  // namespace stockade::inventory_internal

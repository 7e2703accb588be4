#ifndef STOCKADE_INVENTORY_ORDER_RULES_H_
#define STOCKADE_INVENTORY_ORDER_RULES_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// The rules of orders, for all who carry out records, undo them, write them down or check them: which record an order
// may get next, and between which accounts it moves the units of each line. Double entry: what one account loses
// another gets. Pure functions, O(1).

// An account of a SKU: what its units are. available + held + sold is what LedgerState::Sku calls granted.
enum class Account : uint8_t {
  kOutside,    // Not stocked yet, or withdrawn.
  kAvailable,  // For sale.
  kHeld,       // In orders that are held.
  kSold,       // In orders that are sold.
};

struct Transfer {
  Account from;
  Account to;

  friend constexpr bool operator==(const Transfer&, const Transfer&) = default;
};

// The accounts between which a record of `kind` moves units of a SKU. What comes back to one that is not on sale any
// more is withdrawn.
constexpr Transfer TransferOf(LedgerRecord::Kind kind, bool on_sale) {
  using Kind = LedgerRecord::Kind;
  const Account back = on_sale ? Account::kAvailable : Account::kOutside;
  switch (kind) {
    case Kind::kAddSku:
    case Kind::kRestock: return {Account::kOutside, Account::kAvailable};
    case Kind::kRemoveSku: return {Account::kAvailable, Account::kOutside};
    case Kind::kReserve:
    case Kind::kReserveBasket: return {Account::kAvailable, Account::kHeld};
    case Kind::kTake: return {Account::kAvailable, Account::kSold};
    case Kind::kCommit: return {Account::kHeld, Account::kSold};
    case Kind::kExtend: return {Account::kHeld, Account::kHeld};
    case Kind::kReturn: return {Account::kSold, back};
    case Kind::kWriteOff: return {Account::kSold, Account::kOutside};
    case Kind::kCancel:
    case Kind::kExpire: break;
  }
  return {Account::kHeld, back};
}

// A record of units that came back after they were sold. It changes a part of its order, and has lines of its own.
constexpr bool IsReturn(LedgerRecord::Kind kind) {
  return kind == LedgerRecord::Kind::kReturn || kind == LedgerRecord::Kind::kWriteOff;
}

// Undoes it.
constexpr Transfer Reverse(Transfer transfer) { return {transfer.to, transfer.from}; }

// Such units are taken in memory before the record is appended, and all others move after it: see Ledger.
constexpr bool TakesFirst(Transfer transfer) { return transfer.from == Account::kAvailable; }

constexpr bool IsOfOrders(Account account) { return account == Account::kHeld || account == Account::kSold; }

// By how much the units of orders, and of their buyer, grow with each unit: 1, 0 or -1.
constexpr int64_t ToOrders(Transfer transfer) {
  return int64_t{IsOfOrders(transfer.to)} - int64_t{IsOfOrders(transfer.from)};
}

// The account that has the units of an order. They have come back from one that was cancelled or has expired.
constexpr Account AccountOf(OrderState state) {
  switch (state) {
    case OrderState::kHeld: return Account::kHeld;
    case OrderState::kSold: return Account::kSold;
    case OrderState::kCancelled:
    case OrderState::kExpired: break;
  }
  return Account::kAvailable;
}

// The state of an order after its record; nothing for a record of a SKU.
constexpr std::optional<OrderState> StateAfter(LedgerRecord::Kind kind) {
  using Kind = LedgerRecord::Kind;
  switch (kind) {
    case Kind::kReserve:
    case Kind::kReserveBasket:
    case Kind::kExtend: return OrderState::kHeld;
    case Kind::kTake:
    case Kind::kCommit:
    case Kind::kReturn:
    case Kind::kWriteOff: return OrderState::kSold;
    case Kind::kCancel: return OrderState::kCancelled;
    case Kind::kExpire: return OrderState::kExpired;
    case Kind::kAddSku:
    case Kind::kRestock:
    case Kind::kRemoveSku: break;
  }
  return std::nullopt;
}

// A record that makes an order. All others of orders end or extend one that is held, or are returns.
constexpr bool IsGrant(LedgerRecord::Kind kind) {
  return StateAfter(kind).has_value() && TakesFirst(TransferOf(kind, true));
}

enum class Verdict : uint8_t {
  kApply,       // The record comes next.
  kAlready,     // Not again, but its purpose is achieved, and the answer says so.
  kWrongState,  // Never.
};

// Whether an order that is held, or ended in `state`, may get a record that changes it: `kind` is none of a grant.
// Whether its time is over, and whether anything of it is left, is for the caller to say.
constexpr Verdict Judge(LedgerRecord::Kind kind, OrderState state) {
  if (IsReturn(kind)) return state == OrderState::kSold ? Verdict::kApply : Verdict::kWrongState;
  if (state == OrderState::kHeld) return Verdict::kApply;
  if (state == StateAfter(kind) || kind == LedgerRecord::Kind::kExpire) return Verdict::kAlready;
  const bool came_back = state != OrderState::kSold;
  return kind == LedgerRecord::Kind::kCancel && came_back ? Verdict::kAlready : Verdict::kWrongState;
}

// By how much later a held order expires, if somebody asks for `ttl` from now: never before the end that it has, and at
// most `longest` after its grant, or after its own `granted` time if that is longer. `left`: until its end; `extended`:
// by how much that is later than granted.
constexpr int64_t ExtensionUs(int64_t ttl, int64_t left, int64_t granted, int64_t extended, int64_t longest) {
  const int64_t most = std::max(longest, granted) - granted - extended;
  return std::max<int64_t>(std::min(ttl - left, most), 0);
}

// The accounts of one SKU.
struct Balance {
  int64_t available = 0;
  int64_t held = 0;
  int64_t sold = 0;
  bool on_sale = true;

  constexpr int64_t granted() const { return available + held + sold; }
  constexpr int64_t In(Account account) const {
    switch (account) {
      case Account::kAvailable: return available;
      case Account::kHeld: return held;
      case Account::kSold: return sold;
      case Account::kOutside: break;
    }
    return std::numeric_limits<int64_t>::max() - granted();
  }
  // Without a check, so that differences can be summed up, too.
  constexpr void Add(Transfer transfer, int64_t units) {
    Change(transfer.from, -units);
    Change(transfer.to, units);
  }

 private:
  constexpr void Change(Account account, int64_t units) {
    if (account == Account::kAvailable) available += units;
    if (account == Account::kHeld) held += units;
    if (account == Account::kSold) sold += units;
  }
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_ORDER_RULES_H_

#include "ledger_names.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

struct NamedKind {
  Kind kind;
  std::string_view name;
};
constexpr NamedKind kKinds[] = {
    {Kind::kAddSku, "add_sku"},  {Kind::kRestock, "restock"}, {Kind::kRemoveSku, "remove_sku"},
    {Kind::kReserve, "reserve"}, {Kind::kTake, "take"},       {Kind::kReserveBasket, "reserve_basket"},
    {Kind::kCommit, "commit"},   {Kind::kCancel, "cancel"},   {Kind::kExpire, "expire"},
};

struct NamedState {
  OrderState state;
  std::string_view name;
};
constexpr NamedState kStates[] = {
    {OrderState::kHeld, "held"},
    {OrderState::kSold, "sold"},
    {OrderState::kCancelled, "cancelled"},
    {OrderState::kExpired, "expired"},
};

}  // namespace

std::string_view KindName(Kind kind) {
  for (const NamedKind& named : kKinds) {
    if (named.kind == kind) return named.name;
  }
  return "unknown";
}

std::optional<Kind> KindCalled(std::string_view name) {
  for (const NamedKind& named : kKinds) {
    if (named.name == name) return named.kind;
  }
  return std::nullopt;
}

std::string_view StateName(OrderState state) {
  for (const NamedState& named : kStates) {
    if (named.state == state) return named.name;
  }
  return "unknown";
}

std::optional<OrderState> StateCalled(std::string_view name) {
  for (const NamedState& named : kStates) {
    if (named.name == name) return named.state;
  }
  return std::nullopt;
}

OrderState StateAfter(Kind kind) {
  switch (kind) {
    case Kind::kTake:
    case Kind::kCommit: return OrderState::kSold;
    case Kind::kCancel: return OrderState::kCancelled;
    case Kind::kExpire: return OrderState::kExpired;
    default: return OrderState::kHeld;
  }
}

}  // namespace stockade::inventory_internal

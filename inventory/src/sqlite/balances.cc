#include "balances.h"

#include <limits>

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

using Kind = LedgerRecord::Kind;

absl::Status Refuse(const auto&... why) { return absl::FailedPreconditionError(Concat(why...)); }

// OK: the accounts have as many units as the record moves.
absl::Status Check(Kind kind, const std::string& sku, const Balance& balance, Transfer transfer, int64_t units) {
  const int64_t has = balance.In(transfer.from);
  if (kind == Kind::kRemoveSku) {
    return units == has ? absl::OkStatus() : Refuse("SKU '", sku, "' has ", has, " units to withdraw, not ", units);
  }
  if (units < 1) return Refuse(units, " units of SKU '", sku, "', but quantity > 0 must hold");
  if (units <= has) return absl::OkStatus();
  if (transfer.from == Account::kAvailable)
    return Refuse("it takes ", units, " units of SKU '", sku, "', which has ", has);
  if (transfer.from == Account::kHeld)
    return Refuse("SKU '", sku, "' has ", has, " units held, and ", units, " of them end");
  return Refuse("SKU '", sku, "' has ", balance.granted(), " units granted; ", units, " more would overflow");
}

}  // namespace

absl::StatusOr<const Balance*> Balances::Apply(Kind kind, const std::string& sku, int64_t units) {
  if (kind == Kind::kAddSku) return AddSku(sku, units);
  const auto found = balances_.find(sku);
  if (found == balances_.end()) return Refuse("unknown SKU '", sku, "'");
  Balance& balance = found->second;
  const Transfer transfer = TransferOf(kind, balance.on_sale);
  if (!balance.on_sale && !IsOfOrders(transfer.from)) return Refuse("SKU '", sku, "' was removed");
  if (absl::Status possible = Check(kind, sku, balance, transfer, units); !possible.ok()) return possible;
  changes_.push_back({.entry = &*found, .before = balance});
  balance.Add(transfer, units);
  balance.on_sale &= kind != Kind::kRemoveSku;
  return &balance;
}

absl::StatusOr<const Balance*> Balances::AddSku(const std::string& sku, int64_t units) {
  if (units < 0) return Refuse("SKU '", sku, "' begins with ", units, " units");
  const auto [entry, added] = balances_.try_emplace(sku, Balance{.available = units});
  if (!added) return Refuse("SKU '", sku, entry->second.on_sale ? "' exists already" : "' was removed");
  changes_.push_back({.entry = &*entry, .before = std::nullopt});
  return &entry->second;
}

void Balances::RollBack() {
  for (; !changes_.empty(); changes_.pop_back()) {
    const Change& change = changes_.back();
    if (change.before.has_value()) {
      change.entry->second = *change.before;
    } else {
      balances_.erase(balances_.find(change.entry->first));
    }
  }
}

const Balance* Balances::Find(const std::string& sku) const {
  const auto found = balances_.find(sku);
  return found == balances_.end() ? nullptr : &found->second;
}

}  // namespace stockade::inventory_internal

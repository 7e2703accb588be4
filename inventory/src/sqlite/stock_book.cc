#include "stock_book.h"

#include <limits>
#include <string_view>

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

absl::Status Refuse(const std::string& sku, std::string_view why) {
  return absl::FailedPreconditionError(Concat("SKU '", sku, "' ", why));
}

absl::Status RefuseQuantity(const std::string& sku, int64_t quantity) {
  return absl::FailedPreconditionError(Concat(quantity, " units of SKU '", sku, "', but quantity > 0 must hold"));
}

absl::Status UnknownSku(const std::string& sku) {
  return absl::FailedPreconditionError(Concat("unknown SKU '", sku, "'"));
}

}  // namespace

absl::StatusOr<StockBook::Entry*> StockBook::FindOnSale(const std::string& sku) {
  const auto found = stocks_.find(sku);
  if (found == stocks_.end()) return UnknownSku(sku);
  if (found->second.removed) return Refuse(sku, "was removed");
  return &*found;
}

SkuStock& StockBook::Changing(Entry& entry) {
  changes_.push_back({.entry = &entry, .before = entry.second});
  return entry.second;
}

void StockBook::RollBack() {
  for (; !changes_.empty(); changes_.pop_back()) {
    const Change& change = changes_.back();
    if (change.before.has_value()) {
      change.entry->second = *change.before;
    } else {
      stocks_.erase(stocks_.find(change.entry->first));
    }
  }
}

const SkuStock* StockBook::Find(const std::string& sku) const {
  const auto found = stocks_.find(sku);
  return found == stocks_.end() ? nullptr : &found->second;
}

StockBook::Result StockBook::Add(const std::string& sku, int64_t quantity) {
  if (quantity < 0) return Refuse(sku, Concat("begins with ", quantity, " units"));
  const auto [entry, added] = stocks_.try_emplace(sku, SkuStock{.granted = quantity, .available = quantity});
  if (!added) return Refuse(sku, entry->second.removed ? "was removed" : "exists already");
  changes_.push_back({.entry = &*entry, .before = std::nullopt});
  return &entry->second;
}

StockBook::Result StockBook::Restock(const std::string& sku, int64_t quantity) {
  const absl::StatusOr<Entry*> entry = FindOnSale(sku);
  if (!entry.ok()) return entry.status();
  if (quantity < 1) return RefuseQuantity(sku, quantity);
  const int64_t granted = (*entry)->second.granted;
  if (quantity > std::numeric_limits<int64_t>::max() - granted) {
    return Refuse(sku, Concat("has ", granted, " units granted; ", quantity, " more would overflow"));
  }
  SkuStock& stock = Changing(**entry);
  stock.granted += quantity;
  stock.available += quantity;
  return &stock;
}

StockBook::Result StockBook::Remove(const std::string& sku, int64_t quantity) {
  const absl::StatusOr<Entry*> entry = FindOnSale(sku);
  if (!entry.ok()) return entry.status();
  if (const int64_t available = (*entry)->second.available; quantity != available) {
    return Refuse(sku, Concat("has ", available, " units to withdraw, not ", quantity));
  }
  SkuStock& stock = Changing(**entry);
  stock.granted -= quantity;
  stock.available = 0;
  stock.removed = true;
  return &stock;
}

StockBook::Result StockBook::Take(const std::string& sku, int64_t quantity) {
  const absl::StatusOr<Entry*> entry = FindOnSale(sku);
  if (!entry.ok()) return entry.status();
  if (quantity < 1) return RefuseQuantity(sku, quantity);
  if (const int64_t available = (*entry)->second.available; quantity > available) {
    return absl::FailedPreconditionError(
        Concat("it takes ", quantity, " units of SKU '", sku, "', which has ", available));
  }
  SkuStock& stock = Changing(**entry);
  stock.available -= quantity;
  return &stock;
}

StockBook::Result StockBook::GiveBack(const std::string& sku, int64_t quantity) {
  const auto found = stocks_.find(sku);
  if (found == stocks_.end()) return UnknownSku(sku);
  if (quantity < 1) return RefuseQuantity(sku, quantity);
  if (const int64_t out = found->second.granted - found->second.available; quantity > out) {
    return Refuse(sku, Concat("has ", out, " units out, and gets ", quantity, " back"));
  }
  SkuStock& stock = Changing(*found);
  if (stock.removed) {
    stock.granted -= quantity;
  } else {
    stock.available += quantity;
  }
  return &stock;
}

}  // namespace stockade::inventory_internal

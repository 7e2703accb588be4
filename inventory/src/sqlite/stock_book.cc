#include "stock_book.h"

#include <limits>
#include <string_view>

#include "stockade/base/strings.h"

namespace stockade::internal {
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

absl::StatusOr<SkuStock*> StockBook::FindOnSale(const std::string& sku) {
  const auto found = stocks_.find(sku);
  if (found == stocks_.end()) return UnknownSku(sku);
  if (found->second.removed) return Refuse(sku, "was removed");
  return &found->second;
}

const SkuStock* StockBook::Find(const std::string& sku) const {
  const auto found = stocks_.find(sku);
  return found == stocks_.end() ? nullptr : &found->second;
}

StockBook::Result StockBook::Add(const std::string& sku, int64_t quantity) {
  if (quantity < 0) return Refuse(sku, Concat("begins with ", quantity, " units"));
  const auto [entry, added] = stocks_.try_emplace(sku, SkuStock{.granted = quantity, .available = quantity});
  if (!added) return Refuse(sku, entry->second.removed ? "was removed" : "is there already");
  return &entry->second;
}

StockBook::Result StockBook::Restock(const std::string& sku, int64_t quantity) {
  const absl::StatusOr<SkuStock*> stock = FindOnSale(sku);
  if (!stock.ok()) return stock.status();
  if (quantity < 1) return RefuseQuantity(sku, quantity);
  if (quantity > std::numeric_limits<int64_t>::max() - (*stock)->granted) {
    return Refuse(sku, Concat("has ", (*stock)->granted, " units granted; ", quantity, " more are too many to count"));
  }
  (*stock)->granted += quantity;
  (*stock)->available += quantity;
  return *stock;
}

StockBook::Result StockBook::Remove(const std::string& sku, int64_t quantity) {
  const absl::StatusOr<SkuStock*> stock = FindOnSale(sku);
  if (!stock.ok()) return stock.status();
  if (quantity != (*stock)->available) {
    return Refuse(sku, Concat("has ", (*stock)->available, " units to withdraw, not ", quantity));
  }
  (*stock)->granted -= quantity;
  (*stock)->available = 0;
  (*stock)->removed = true;
  return *stock;
}

StockBook::Result StockBook::Take(const std::string& sku, int64_t quantity) {
  const absl::StatusOr<SkuStock*> stock = FindOnSale(sku);
  if (!stock.ok()) return stock.status();
  if (quantity < 1) return RefuseQuantity(sku, quantity);
  if (quantity > (*stock)->available) {
    return absl::FailedPreconditionError(
        Concat("it takes ", quantity, " units of SKU '", sku, "', which has ", (*stock)->available));
  }
  (*stock)->available -= quantity;
  return *stock;
}

StockBook::Result StockBook::GiveBack(const std::string& sku, int64_t quantity) {
  const auto found = stocks_.find(sku);
  if (found == stocks_.end()) return UnknownSku(sku);
  SkuStock& stock = found->second;
  if (quantity < 1) return RefuseQuantity(sku, quantity);
  if (quantity > stock.granted - stock.available) {
    return Refuse(sku, Concat("has ", stock.granted - stock.available, " units out, and gets ", quantity, " back"));
  }
  if (stock.removed) {
    stock.granted -= quantity;
  } else {
    stock.available += quantity;
  }
  return &stock;
}

}  // namespace stockade::internal

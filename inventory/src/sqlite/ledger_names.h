#ifndef STOCKADE_INVENTORY_SQLITE_LEDGER_NAMES_H_
#define STOCKADE_INVENTORY_SQLITE_LEDGER_NAMES_H_

#include <optional>
#include <string_view>

#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// What the columns journal.kind and orders.state say. Nothing for a value that there is not; the tables' constraints
// refuse both that and "unknown".
std::string_view KindName(LedgerRecord::Kind kind);
std::optional<LedgerRecord::Kind> KindCalled(std::string_view name);
std::string_view StateName(OrderState state);
std::optional<OrderState> StateCalled(std::string_view name);

// The state of an order after its record: `kind` is none of a SKU.
OrderState StateAfter(LedgerRecord::Kind kind);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LEDGER_NAMES_H_

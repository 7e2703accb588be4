#ifndef STOCKADE_TESTS_INVENTORY_LEDGER_STATE_TEXT_H_
#define STOCKADE_TESTS_INVENTORY_LEDGER_STATE_TEXT_H_

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// All that `state` says, SKUs by name.
inline std::string Describe(const LedgerState& state) {
  std::map<std::string, std::string> skus;
  for (const LedgerState::Sku& sku : state.skus) {
    skus[sku.sku] = absl::StrCat(sku.sku, " granted ", sku.granted, " shards ", sku.shards, " limit ",
                                 sku.per_buyer_limit, sku.removed ? " removed" : "", "\n");
  }
  std::string text = absl::StrJoin(skus, "", [](std::string* to, const auto& sku) { to->append(sku.second); });
  for (const LedgerState::Order& order : state.orders) {
    absl::StrAppend(&text, order.order_id, " ", order.request_id, " of ", order.buyer, ":");
    for (const OrderLine& line : order.lines) absl::StrAppend(&text, " + ", line.quantity, " ", line.sku);
    absl::StrAppend(&text, " state ", static_cast<int>(order.state), " kind ", static_cast<int>(order.kind), " until ",
                    absl::FormatTime(order.expires_at), " ttl ", absl::FormatDuration(order.ttl), " ended ",
                    absl::FormatTime(order.ended_at),
                    order.extended == absl::ZeroDuration() ? "" : " extended " + absl::FormatDuration(order.extended),
                    "\n");
  }
  for (const LedgerState::Change& change : state.changes) {
    absl::StrAppend(&text, "change ", change.change_id, " ", change.request_id, " of ", change.order_id, " kind ",
                    static_cast<int>(change.kind), change.of_all ? " of all" : "");
    for (const ReturnedLine& line : change.lines) {
      absl::StrAppend(&text, " + ", line.quantity, " ", line.sku, line.to_stock ? "" : " withdrawn");
    }
    absl::StrAppend(&text, " at ", absl::FormatTime(change.at), "\n");
  }
  for (const LedgerState::Restock& restock : state.restocks) {
    absl::StrAppend(&text, "restock ", restock.order_id, " ", restock.request_id, ": ", restock.quantity, " ",
                    restock.sku, " at ", absl::FormatTime(restock.at), "\n");
  }
  return text;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_LEDGER_STATE_TEXT_H_

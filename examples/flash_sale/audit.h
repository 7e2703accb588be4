#ifndef STOCKADE_EXAMPLES_FLASH_SALE_AUDIT_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_AUDIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hot_key_log.h"

namespace flash_sale {

// The contents of an order database for the product on sale, by SQL on its tables alone.
struct StockAudit {
  int64_t stock = 0;
  int64_t sold = 0;
  int64_t held = 0;
  int64_t available = 0;   // The sum over the journal: below 0 if more units are out than there were.
  int64_t oversold = 0;    // Units out beyond the stock: now, or at the worst moment of the journal.
  int64_t duplicates = 0;  // Orders beyond the first of a request id, and orders granted or settled more than once.
  std::vector<std::string> faults;  // Other violations, one per line.

  // Nothing oversold, nothing twice, sold + held + available = stock, no fault.
  bool Holds() const;
};

// Audits a ledger, or the naive shop's tables, which have the same columns. No other connection may have the database
// open. Errors say that it cannot be read, or holds no sale.
absl::StatusOr<StockAudit> AuditOrders(const std::string& path);

// As AuditOrders(), and checks each answer in the log at `ack_log_path` against the ledger: an order that was
// acknowledged is there once, as acknowledged. A deviation is a fault.
absl::StatusOr<StockAudit> AuditLedger(const std::string& path, const std::string& ack_log_path);

// "audit: stock=... loads_per_expiry=1.00"; without a `hot_key`, "-".
std::string AuditLine(const StockAudit& audit, const std::optional<HotKeyFigures>& hot_key);

// Says in words, without a newline, what the oversold units of an audit line mean. Empty if nothing is oversold.
std::string ExplainOversold(const StockAudit& audit);

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_AUDIT_H_

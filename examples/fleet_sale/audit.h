#ifndef STOCKADE_EXAMPLES_FLEET_SALE_AUDIT_H_
#define STOCKADE_EXAMPLES_FLEET_SALE_AUDIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mariadb_client.h"
#include "shared_sale.h"

namespace fleet_sale {

// One half after its sale, by SQL on the tables of MariaDB alone.
struct Audit {
  int64_t stock = 0;
  int64_t sold = 0;
  int64_t held = 0;
  int64_t available = 0;
  int64_t oversold = 0;    // Units sold and held beyond the stock.
  int64_t duplicates = 0;  // Orders beyond the first of a request.
  // Units that are not sold although buyers were refused, and orders that buyers were acknowledged and are not there.
  // In the naive half each Redis node has its own part of the stock, and it is counted for each node. So units can be
  // lost at one node and oversold at another.
  int64_t lost = 0;
  std::vector<std::string> faults = {};  // The findings of docs/fleet_audit.sql, one per line.

  // Nothing oversold, nothing twice, nothing lost, all sold, no fault.
  bool Holds() const;
};

// Writes the answers that the buyers of a half got into the table `answers`, for the audit. `half`: "naive" or
// "stockade".
absl::Status StoreAnswers(examples::MariaDbClient& database, const std::string& half, SharedSale& sale);

absl::StatusOr<Audit> AuditNaive(examples::MariaDbClient& database);
// Also runs docs/fleet_audit.sql.
absl::StatusOr<Audit> AuditStockade(examples::MariaDbClient& database);

// In words for the user: how many of its units each node of the naive half has sold.
absl::StatusOr<std::string> ExplainNaive(examples::MariaDbClient& database);

// "audit: stock=2000 sold=2000 held=0 available=0 oversold=0 duplicates=0 lost=0".
std::string AuditLine(const Audit& audit);

}  // namespace fleet_sale

#endif  // STOCKADE_EXAMPLES_FLEET_SALE_AUDIT_H_

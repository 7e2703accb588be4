#include "audit.h"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "ack_log.h"
#include "common/sqlite.h"
#include "shop.h"

namespace flash_sale {
namespace {

using examples::Database;
using examples::Statement;

// ?1 is the SKU in all of them.
constexpr char kStock[] = "SELECT granted FROM skus WHERE sku = ?1";
// Less what came back, of which an order in the ledger keeps no sum, and the naive shop has none.
#define STOCKADE_RETURNED "(SELECT coalesce(sum(quantity), 0) FROM journal WHERE sku = ?1 AND kind = 'return')"
constexpr char kSold[] =
    "SELECT coalesce(sum(quantity), 0) - " STOCKADE_RETURNED " FROM orders WHERE sku = ?1 AND state = 'sold'";
constexpr char kHeld[] = "SELECT coalesce(sum(quantity), 0) FROM orders WHERE sku = ?1 AND state = 'held'";
constexpr char kRepeatedRequests[] = "SELECT count(*) - count(DISTINCT request_id) FROM orders WHERE sku = ?1";

// How a row of the journal changes the number of units on the shelf.
#define STOCKADE_MOVEMENTS                                                            \
  "WITH movement AS (SELECT position, CASE"                                           \
  " WHEN kind IN ('add_sku', 'restock', 'cancel', 'expire', 'return') THEN quantity"  \
  " WHEN kind IN ('reserve', 'take') THEN -quantity ELSE 0 END AS units FROM journal" \
  " WHERE sku = ?1) "
constexpr char kJournalAvailable[] = STOCKADE_MOVEMENTS "SELECT coalesce(sum(units), 0) FROM movement";
constexpr char kJournalLeast[] =
    STOCKADE_MOVEMENTS "SELECT min(shelf) FROM (SELECT sum(units) OVER (ORDER BY position) AS shelf FROM movement)";
#undef STOCKADE_MOVEMENTS
constexpr char kJournalStock[] =
    "SELECT coalesce(sum(quantity), 0) FROM journal WHERE sku = ?1 AND kind IN ('add_sku', 'restock')";
constexpr char kJournalSold[] = "SELECT coalesce(sum(quantity), 0) - " STOCKADE_RETURNED
                                " FROM journal WHERE sku = ?1 AND kind IN ('commit', 'take')";
#undef STOCKADE_RETURNED
constexpr char kRepeatedGrants[] =
    "SELECT count(*) - count(DISTINCT order_id) FROM journal WHERE sku = ?1 AND kind IN ('reserve', 'take')";
constexpr char kRepeatedEnds[] =
    "SELECT count(*) - count(DISTINCT order_id) FROM journal WHERE sku = ?1 AND kind IN ('take', 'commit', 'cancel', "
    "'expire')";

absl::StatusOr<Database> OpenToAudit(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return absl::NotFoundError(absl::StrCat("there is no ", path));
  // For writing too: what a killed process left in the write-ahead log has to be taken over first.
  absl::StatusOr<Database> database = Database::Open(path, Database::Mode::kExisting);
  if (!database.ok()) return database;
  absl::Status set = database->Execute("PRAGMA busy_timeout = 1000");
  if (!set.ok()) return set;
  return database;
}

struct Figure {
  const char* sql;
  int64_t* value;
};

absl::Status ReadFigures(Database& database, std::initializer_list<Figure> figures) {
  for (const Figure& figure : figures) {
    absl::StatusOr<Statement> select = database.Prepare(figure.sql);
    if (!select.ok()) return select.status();
    select->Bind(1, kSaleSku);
    const absl::StatusOr<int64_t> value = select->QueryInt();
    if (absl::IsNotFound(value.status())) return absl::NotFoundError("no sale in it");
    if (!value.ok()) return value.status();
    *figure.value = *value;
  }
  return absl::OkStatus();
}

absl::StatusOr<StockAudit> Audit(Database& database) {
  StockAudit audit;
  int64_t least = 0, stock = 0, sold = 0, grants = 0, ends = 0;
  const absl::Status read = ReadFigures(database, {{kStock, &audit.stock},
                                                   {kSold, &audit.sold},
                                                   {kHeld, &audit.held},
                                                   {kRepeatedRequests, &audit.duplicates},
                                                   {kJournalAvailable, &audit.available},
                                                   {kJournalLeast, &least},
                                                   {kJournalStock, &stock},
                                                   {kJournalSold, &sold},
                                                   {kRepeatedGrants, &grants},
                                                   {kRepeatedEnds, &ends}});
  if (!read.ok()) return read;
  audit.oversold = std::max<int64_t>(0, audit.sold + audit.held - audit.stock);
  audit.oversold = std::max(audit.oversold, -least);
  audit.duplicates += grants + ends;
  if (stock != audit.stock) {
    audit.faults.push_back(absl::StrCat("the journal stocks ", stock, " units, the table of SKUs ", audit.stock));
  }
  if (sold != audit.sold) {
    audit.faults.push_back(absl::StrCat("the journal sells ", sold, " units, the table of orders ", audit.sold));
  }
  return audit;
}

struct LedgerOrder {
  std::string request_id;
  std::string state;
};

absl::StatusOr<std::unordered_map<int64_t, LedgerOrder>> ReadOrders(Database& database) {
  absl::StatusOr<Statement> select = database.Prepare("SELECT order_id, request_id, state FROM orders");
  if (!select.ok()) return select.status();
  std::unordered_map<int64_t, LedgerOrder> orders;
  while (true) {
    const absl::StatusOr<bool> row = select->Step();
    if (!row.ok()) return row.status();
    if (!*row) return orders;
    orders[select->Int(0)] = {select->Text(1), select->Text(2)};
  }
}

// A fault for each answer that the ledger does not bear out.
void CheckAnswers(const std::vector<Acknowledgement>& answers, const std::unordered_map<int64_t, LedgerOrder>& orders,
                  StockAudit& audit) {
  std::unordered_map<std::string, int64_t> order_of_request;
  for (const Acknowledgement& answer : answers) {
    const auto found = orders.find(answer.order_id);
    if (found == orders.end()) {
      audit.faults.push_back(absl::StrCat("order ", answer.order_id, " was acknowledged and is not in the ledger"));
    } else if (answer.kind == Acknowledgement::Kind::kSold) {
      if (found->second.state != "sold") {
        audit.faults.push_back(
            absl::StrCat("order ", answer.order_id, " was acknowledged as sold and is ", found->second.state));
      }
    } else if (found->second.request_id != answer.request_id) {
      audit.faults.push_back(absl::StrCat("order ", answer.order_id, " was acknowledged for ", answer.request_id,
                                          " and is in the ledger for ", found->second.request_id));
    }
    if (answer.kind != Acknowledgement::Kind::kReserved) continue;
    const auto [first, fresh] = order_of_request.emplace(answer.request_id, answer.order_id);
    if (!fresh && first->second != answer.order_id) {
      audit.faults.push_back(absl::StrCat(answer.request_id, " was acknowledged twice: as order ", first->second,
                                          " and as order ", answer.order_id));
    }
  }
}

absl::Status NameFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

bool StockAudit::Holds() const {
  return oversold == 0 && duplicates == 0 && sold + held + available == stock && faults.empty();
}

absl::StatusOr<StockAudit> AuditOrders(const std::string& path) {
  absl::StatusOr<Database> database = OpenToAudit(path);
  if (!database.ok()) return database.status();
  absl::StatusOr<StockAudit> audit = Audit(*database);
  if (!audit.ok()) return NameFile(path, audit.status());
  return audit;
}

absl::StatusOr<StockAudit> AuditLedger(const std::string& path, const std::string& ack_log_path) {
  absl::StatusOr<Database> database = OpenToAudit(path);
  if (!database.ok()) return database.status();
  const absl::StatusOr<std::vector<Acknowledgement>> answers = ReadAckLog(ack_log_path);
  if (!answers.ok()) return answers.status();
  absl::StatusOr<StockAudit> audit = Audit(*database);
  if (!audit.ok()) return NameFile(path, audit.status());
  const absl::StatusOr<std::unordered_map<int64_t, LedgerOrder>> orders = ReadOrders(*database);
  if (!orders.ok()) return NameFile(path, orders.status());
  CheckAnswers(*answers, *orders, *audit);
  return audit;
}

std::string AuditLine(const StockAudit& audit, const std::optional<HotKeyFigures>& hot_key) {
  return absl::StrCat("audit: stock=", audit.stock, " sold=", audit.sold, " held=", audit.held,
                      " available=", audit.available, " oversold=", audit.oversold, " duplicates=", audit.duplicates,
                      " loads_per_expiry=", hot_key ? absl::StrFormat("%.2f", hot_key->LoadsPerExpiry()) : "-");
}

std::string ExplainOversold(const StockAudit& audit) {
  if (audit.oversold == 0) return "";
  const int64_t at_the_end = std::max<int64_t>(-audit.available, 0);
  const char* const came_back = at_the_end < audit.oversold ? ": cancelled and expired units have come back" : "";
  return absl::StrCat("oversold: at the worst moment ", audit.oversold, " units more than the stock of ", audit.stock,
                      " were held or sold; at the end ", at_the_end, " are (available=", audit.available, ")",
                      came_back);
}

}  // namespace flash_sale

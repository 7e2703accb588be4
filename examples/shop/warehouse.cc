#include "warehouse.h"

#include "absl/strings/str_cat.h"

namespace shop {
namespace {

constexpr char kTables[] =
    "CREATE TABLE IF NOT EXISTS shop"
    " (one INT PRIMARY KEY, phase INT, boxes_booked BIGINT, token BIGINT, price BIGINT, queries BIGINT);"
    "CREATE TABLE IF NOT EXISTS shown (process INT PRIMARY KEY, price BIGINT);"
    "INSERT IGNORE INTO shop VALUES (1, 0, 0, 0, 89, 0)";

absl::Status TooOld(int64_t token) {
  return absl::AbortedError(absl::StrCat("token ", token, " is older than one seen"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Warehouse>> Warehouse::Open(const std::string& socket) {
  absl::StatusOr<std::unique_ptr<examples::MariaDbClient>> client = examples::MariaDbClient::Connect(socket, "shop");
  if (!client.ok()) return client.status();
  if (auto made = (*client)->Run(kTables); !made.ok()) return made.status();
  return std::unique_ptr<Warehouse>(new Warehouse(*std::move(client)));
}

absl::StatusOr<int64_t> Warehouse::BoxesBooked(int64_t token) {
  if (absl::Status seen = Run(absl::StrCat("UPDATE shop SET token = GREATEST(token, ", token, ")")); !seen.ok()) {
    return seen;
  }
  absl::StatusOr<int64_t> booked = Number(absl::StrCat("SELECT IF(token = ", token, ", boxes_booked, -1) FROM shop"));
  if (booked.ok() && *booked < 0) return TooOld(token);
  return booked;
}

absl::Status Warehouse::BookBox(int64_t token) {
  const absl::StatusOr<int64_t> rows =
      Number(absl::StrCat("UPDATE shop SET boxes_booked = boxes_booked + 1, token = ", token, " WHERE token <= ", token,
                          "; SELECT ROW_COUNT()"));
  if (rows.ok() && *rows == 0) return TooOld(token);
  return rows.status();
}

absl::StatusOr<int64_t> Warehouse::Price() {
  return Number("UPDATE shop SET queries = queries + 1; SELECT price FROM shop");
}

absl::Status Warehouse::SetPrice(int64_t price) { return Run(absl::StrCat("UPDATE shop SET price = ", price)); }

absl::Status Warehouse::SetPrice(int64_t price, int64_t token) {
  const absl::StatusOr<int64_t> rows = Number(absl::StrCat("UPDATE shop SET price = ", price, ", token = ", token,
                                                           " WHERE token <= ", token, "; SELECT ROW_COUNT()"));
  if (rows.ok() && *rows == 0) return TooOld(token);
  return rows.status();
}

absl::StatusOr<int64_t> Warehouse::Queries() { return Number("SELECT queries FROM shop"); }

absl::Status Warehouse::Show(int64_t process, int64_t price) {
  return Run(absl::StrCat("REPLACE INTO shown VALUES (", process, ", ", price, ")"));
}

absl::StatusOr<int64_t> Warehouse::ProcessesThatShow(int64_t price) {
  return Number(absl::StrCat("SELECT COUNT(*) FROM shown WHERE price = ", price));
}

absl::StatusOr<int64_t> Warehouse::BoxesBooked() { return Number("SELECT boxes_booked FROM shop"); }

absl::Status Warehouse::Begin(Phase phase) {
  return Run(absl::StrCat("UPDATE shop SET phase = ", static_cast<int>(phase)));
}

absl::StatusOr<bool> Warehouse::HasBegun(Phase phase) {
  const absl::StatusOr<int64_t> now = Number("SELECT phase FROM shop");
  if (!now.ok()) return now.status();
  return *now >= static_cast<int>(phase);
}

absl::Status Warehouse::Run(std::string_view sql) {
  const std::lock_guard lock(mutex_);
  return client_->Run(sql).status();
}

absl::StatusOr<int64_t> Warehouse::Number(std::string_view sql) {
  const std::lock_guard lock(mutex_);
  return client_->QueryInt(sql);
}

}  // namespace shop

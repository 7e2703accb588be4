#include "database.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "visitors.h"

namespace shop {
namespace {

constexpr absl::Duration kTravel = absl::Milliseconds(2);

constexpr char kTables[] =
    "CREATE TABLE products(id TEXT PRIMARY KEY, brand TEXT NOT NULL, price INTEGER NOT NULL, stock INTEGER NOT NULL);"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 99) "
    "INSERT INTO products SELECT 'shoe-' || i, 'brand-' || (i / 10), 100, 0 FROM n;";

Product RowOf(examples::Statement& row) { return {.id = row.Text(0), .brand = row.Text(1), .price = row.Int(2)}; }

}  // namespace

Database::Database() : sqlite_(OrExit(examples::Database::Open(":memory:", examples::Database::Mode::kCreate))) {
  OrExit(sqlite_.Execute(kTables));
}

absl::Status Database::Travel() const {
  absl::SleepFor(kTravel);
  return down_ ? absl::UnavailableError("the database is down") : absl::OkStatus();
}

absl::StatusOr<Product> Database::Find(const std::string& id) {
  absl::StatusOr<std::vector<Product>> rows = FindAll({id});
  if (!rows.ok()) return rows.status();
  if (rows->empty()) return absl::NotFoundError(absl::StrCat("no product ", id));
  return rows->front();
}

absl::StatusOr<std::vector<Product>> Database::FindAll(const std::vector<std::string>& ids) {
  ++queries_;
  if (absl::Status there = Travel(); !there.ok()) return there;
  const std::lock_guard lock(mutex_);
  absl::StatusOr<examples::Statement> select = sqlite_.Prepare("SELECT id, brand, price FROM products WHERE id = ?1");
  if (!select.ok()) return select.status();
  std::vector<Product> rows;
  for (const std::string& id : ids) {
    select->Bind(1, id);
    absl::StatusOr<bool> row = select->Step();
    if (!row.ok()) return row.status();
    if (*row) rows.push_back(RowOf(*select));
    select->Reset();
  }
  return rows;
}

absl::StatusOr<int64_t> Database::Stock(const std::string& id) {
  ++queries_;
  if (absl::Status there = Travel(); !there.ok()) return there;
  const std::lock_guard lock(mutex_);
  absl::StatusOr<examples::Statement> select = sqlite_.Prepare("SELECT stock FROM products WHERE id = ?1");
  if (!select.ok()) return select.status();
  select->Bind(1, id);
  return select->QueryInt();
}

absl::Status Database::SetPrice(const std::string& id, int64_t price) {
  return Update("UPDATE products SET price = ?2 WHERE id = ?1", id, price);
}

absl::Status Database::SetStock(const std::string& id, int64_t units) {
  return Update("UPDATE products SET stock = ?2 WHERE id = ?1", id, units);
}

absl::Status Database::Update(const char* sql, const std::string& id, int64_t value) {
  if (absl::Status there = Travel(); !there.ok()) return there;
  const std::lock_guard lock(mutex_);
  absl::StatusOr<examples::Statement> update = sqlite_.Prepare(sql);
  if (!update.ok()) return update.status();
  update->Bind(1, id);
  update->Bind(2, value);
  return update->Run();
}

}  // namespace shop

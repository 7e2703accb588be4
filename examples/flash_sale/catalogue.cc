#include "catalogue.h"

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace flash_sale {

absl::Status MakeCatalogue(const std::string& path, const std::vector<ProductId>& views) {
  absl::StatusOr<Database> database = Database::Open(path, Database::Mode::kCreate);
  if (!database.ok()) return database.status();
  absl::Status made = database->Execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; BEGIN;"
      "CREATE TABLE products(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price_cents INTEGER NOT NULL) STRICT;");
  if (!made.ok()) return made;
  absl::StatusOr<Statement> insert = database->Prepare("INSERT OR IGNORE INTO products VALUES(?1, ?2, ?3)");
  if (!insert.ok()) return insert.status();
  for (const ProductId id : views) {
    insert->Bind(1, static_cast<int64_t>(id));
    insert->Bind(2, absl::StrCat("Product ", id));
    insert->Bind(3, static_cast<int64_t>(999 + id % 90'000));
    if (absl::Status inserted = insert->Run(); !inserted.ok()) return inserted;
  }
  return database->Execute("COMMIT");
}

Catalogue::Catalogue(const std::string& path, ProductId hot, HotKeyLog* log)
    : hot_(hot), log_(log), connections_([path]() -> absl::StatusOr<std::unique_ptr<Connection>> {
        absl::StatusOr<Database> database = Database::Open(path, Database::Mode::kReadOnly);
        if (!database.ok()) return database.status();
        absl::StatusOr<Statement> select = database->Prepare("SELECT name, price_cents FROM products WHERE id = ?1");
        if (!select.ok()) return select.status();
        return std::make_unique<Connection>(*std::move(database), *std::move(select));
      }) {}

absl::StatusOr<Product> Catalogue::Fetch(ProductId id) {
  queries_.fetch_add(1, std::memory_order_relaxed);
  const bool hot = id == hot_;
  const size_t query = hot ? log_->BeginQuery() : 0;
  absl::StatusOr<Product> product = Select(id);
  std::this_thread::sleep_for(absl::ToChronoNanoseconds(kQueryTime));
  if (hot) log_->EndQuery(query);
  return product;
}

absl::StatusOr<Product> Catalogue::Select(ProductId id) {
  absl::StatusOr<Pool<Connection>::Lease> connection = connections_.Borrow();
  if (!connection.ok()) return connection.status();
  Statement& select = (*connection)->select;
  select.Bind(1, static_cast<int64_t>(id));
  const absl::StatusOr<bool> row = select.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError(absl::StrCat("no product ", id));
  Product product{.id = id, .name = select.Text(0), .price_cents = select.Int(1)};
  select.Reset();
  return product;
}

}  // namespace flash_sale

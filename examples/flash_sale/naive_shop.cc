#include "naive_shop.h"

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "stockade/base/clock.h"

namespace flash_sale {
namespace {

using stockade::Clock;

// The tables that the audit reads. They have the tables and columns of the ledger, without its constraints.
constexpr char kTables[] = R"sql(
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE skus(sku TEXT PRIMARY KEY, granted INTEGER NOT NULL, units INTEGER NOT NULL);
CREATE TABLE orders(order_id INTEGER PRIMARY KEY, request_id TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
                    state TEXT NOT NULL, expires_at_us INTEGER NOT NULL);
CREATE TABLE journal(position INTEGER PRIMARY KEY, kind TEXT NOT NULL, order_id INTEGER, sku TEXT NOT NULL,
                     quantity INTEGER NOT NULL);
CREATE INDEX orders_by_state ON orders(state, expires_at_us);
)sql";

// Prepares `sql` in turn; the first error stops it.
template <size_t N>
absl::StatusOr<std::vector<Statement>> PrepareAll(Database& database, const std::array<const char*, N>& sql) {
  std::vector<Statement> statements;
  for (const char* const text : sql) {
    absl::StatusOr<Statement> statement = database.Prepare(text);
    if (!statement.ok()) return statement.status();
    statements.push_back(*std::move(statement));
  }
  return statements;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NaiveShop>> NaiveShop::Create(const std::string& path, Catalogue* catalogue,
                                                             ProductId hot, absl::Duration hot_ttl, int64_t stock) {
  absl::StatusOr<Database> database = Database::Open(path, Database::Mode::kCreate);
  if (!database.ok()) return database.status();
  if (absl::Status made = database->Execute(kTables); !made.ok()) return made;
  const std::string add_sku = absl::StrFormat(
      "INSERT INTO skus VALUES('%s', %d, %d);"
      "INSERT INTO journal(kind, sku, quantity) VALUES('add_sku', '%s', %d)",
      kSaleSku, stock, stock, kSaleSku, stock);
  if (absl::Status added = database->Execute(add_sku.c_str()); !added.ok()) return added;
  auto prepared = PrepareAll<6>(
      *database, {"BEGIN IMMEDIATE", "COMMIT", "UPDATE skus SET units = units + ?2 WHERE sku = ?1",
                  "INSERT INTO orders(request_id, sku, quantity, state, expires_at_us) VALUES(?1, ?2, 1, 'held', ?3) "
                  "RETURNING order_id",
                  "UPDATE orders SET state = ?2 WHERE order_id = ?1",
                  "INSERT INTO journal(kind, order_id, sku, quantity) VALUES(?1, ?2, ?3, 1)"});
  if (!prepared.ok()) return prepared.status();
  auto& statement = *prepared;
  Writer writer{*std::move(database),    std::move(statement[0]), std::move(statement[1]), std::move(statement[2]),
                std::move(statement[3]), std::move(statement[4]), std::move(statement[5])};
  return std::unique_ptr<NaiveShop>(new NaiveShop(path, std::move(writer), catalogue, hot, hot_ttl));
}

NaiveShop::NaiveShop(const std::string& path, Writer writer, Catalogue* catalogue, ProductId hot,
                     absl::Duration hot_ttl)
    : catalogue_(catalogue),
      hot_(hot),
      hot_ttl_(hot_ttl),
      readers_([path]() -> absl::StatusOr<std::unique_ptr<Reader>> {
        absl::StatusOr<Database> database = Database::Open(path, Database::Mode::kReadOnly);
        if (!database.ok()) return database.status();
        auto prepared = PrepareAll<4>(
            *database, {"SELECT units FROM skus WHERE sku = ?1", "SELECT state FROM orders WHERE order_id = ?1",
                        "SELECT count(*) FROM orders WHERE state = 'held'",
                        "SELECT order_id FROM orders WHERE state = 'held' AND expires_at_us <= ?1"});
        if (!prepared.ok()) return prepared.status();
        auto& statement = *prepared;
        return std::make_unique<Reader>(*std::move(database), std::move(statement[0]), std::move(statement[1]),
                                        std::move(statement[2]), std::move(statement[3]));
      }),
      writer_(std::move(writer)),
      sweeper_([this] { SweepUntilStopped(); }) {}

NaiveShop::~NaiveShop() {
  {
    const std::lock_guard lock(stop_mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  sweeper_.join();
}

absl::StatusOr<Product> NaiveShop::View(ProductId id) {
  {
    const std::lock_guard lock(pages_mutex_);
    const auto found = pages_.find(id);
    if (found != pages_.end() && Clock::System()->Now() < found->second.expires) return found->second.product;
  }
  absl::StatusOr<Product> product = catalogue_->Fetch(id);
  if (!product.ok()) return product;
  const std::lock_guard lock(pages_mutex_);
  pages_[id] = {*product, Clock::System()->Now() + (id == hot_ ? hot_ttl_ : kPageTtl)};
  return product;
}

absl::StatusOr<int64_t> NaiveShop::Reserve(const std::string& request_id, absl::Duration ttl) {
  const absl::StatusOr<int64_t> units = Left();
  if (!units.ok()) return units.status();
  if (*units < 1) return absl::ResourceExhaustedError("sold out");

  return Write("reserve", -1, [&]() -> absl::StatusOr<int64_t> {
    writer_.insert_order.Bind(1, request_id);
    writer_.insert_order.Bind(2, kSaleSku);
    writer_.insert_order.Bind(3, absl::ToUnixMicros(absl::Now() + ttl));
    return writer_.insert_order.QueryInt();
  });
}

absl::Status NaiveShop::Commit(int64_t order_id) { return EndReservation(order_id, "sold", "commit", 0); }

absl::Status NaiveShop::Cancel(int64_t order_id) { return EndReservation(order_id, "cancelled", "cancel", 1); }

absl::Status NaiveShop::EndReservation(int64_t order_id, const char* state, const char* kind, int64_t units) {
  const absl::StatusOr<std::string> before = ReadState(order_id);
  if (!before.ok()) return before.status();
  if (*before != "held") return absl::FailedPreconditionError(absl::StrCat("the order is ", *before));

  return Write(kind, units,
               [&]() -> absl::StatusOr<int64_t> {
                 writer_.set_state.Bind(1, order_id);
                 writer_.set_state.Bind(2, state);
                 if (absl::Status set = writer_.set_state.Run(); !set.ok()) return set;
                 return order_id;
               })
      .status();
}

absl::StatusOr<int64_t> NaiveShop::Write(const char* kind, int64_t units,
                                         const std::function<absl::StatusOr<int64_t>()>& change) {
  const std::lock_guard lock(writer_mutex_);
  if (absl::Status begun = writer_.begin.Run(); !begun.ok()) return begun;
  absl::StatusOr<int64_t> order_id = change();
  if (!order_id.ok()) return order_id;
  writer_.add_units.Bind(1, kSaleSku);
  writer_.add_units.Bind(2, units);
  if (absl::Status added = writer_.add_units.Run(); !added.ok()) return added;
  writer_.write_journal.Bind(1, kind);
  writer_.write_journal.Bind(2, *order_id);
  writer_.write_journal.Bind(3, kSaleSku);
  if (absl::Status written = writer_.write_journal.Run(); !written.ok()) return written;
  if (absl::Status committed = writer_.commit.Run(); !committed.ok()) return committed;
  return order_id;
}

absl::StatusOr<int64_t> NaiveShop::Held() {
  absl::StatusOr<Pool<Reader>::Lease> reader = readers_.Borrow();
  if (!reader.ok()) return reader.status();
  return (*reader)->held.QueryInt();
}

absl::StatusOr<int64_t> NaiveShop::Left() {
  absl::StatusOr<Pool<Reader>::Lease> reader = readers_.Borrow();
  if (!reader.ok()) return reader.status();
  (*reader)->units.Bind(1, kSaleSku);
  return (*reader)->units.QueryInt();
}

absl::StatusOr<std::string> NaiveShop::ReadState(int64_t order_id) {
  absl::StatusOr<Pool<Reader>::Lease> reader = readers_.Borrow();
  if (!reader.ok()) return reader.status();
  Statement& state = (*reader)->state;
  state.Bind(1, order_id);
  const absl::StatusOr<bool> row = state.Step();
  if (!row.ok()) return row.status();
  if (!*row) return absl::NotFoundError(absl::StrCat("no order ", order_id));
  std::string text = state.Text(0);
  state.Reset();
  return text;
}

void NaiveShop::SweepUntilStopped() {
  std::unique_lock lock(stop_mutex_);
  while (!stop_changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return stop_; })) {
    lock.unlock();
    if (absl::Status swept = Sweep(); !swept.ok()) std::fprintf(stderr, "naive shop: %s\n", swept.ToString().c_str());
    lock.lock();
  }
}

absl::Status NaiveShop::Sweep() {
  std::vector<int64_t> ran_out;
  {
    absl::StatusOr<Pool<Reader>::Lease> reader = readers_.Borrow();
    if (!reader.ok()) return reader.status();
    Statement& select = (*reader)->ran_out;
    select.Bind(1, absl::ToUnixMicros(absl::Now()));
    while (true) {
      const absl::StatusOr<bool> row = select.Step();
      if (!row.ok()) return row.status();
      if (!*row) break;
      ran_out.push_back(select.Int(0));
    }
  }
  for (const int64_t order_id : ran_out) {
    absl::Status ended = EndReservation(order_id, "expired", "expire", 1);
    if (!ended.ok() && !absl::IsFailedPrecondition(ended)) return ended;
  }
  return absl::OkStatus();
}

}  // namespace flash_sale

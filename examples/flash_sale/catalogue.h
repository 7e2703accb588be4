#ifndef STOCKADE_EXAMPLES_FLASH_SALE_CATALOGUE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_CATALOGUE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/pool.h"
#include "common/sqlite.h"
#include "hot_key_log.h"
#include "trace.h"

namespace flash_sale {

using examples::Pool;

using examples::Database;
using examples::Statement;

// A product, as a page of the shop shows it.
struct Product {
  ProductId id = 0;
  std::string name;
  int64_t price_cents = 0;
};

// A SQLite file here answers in microseconds. A shop's database is a network and a queue away: each query for a product
// takes this much longer, in both halves.
inline constexpr absl::Duration kQueryTime = absl::Milliseconds(2);

// Makes the file at `path` with the products that `views` mention.
absl::Status MakeCatalogue(const std::string& path, const std::vector<ProductId>& views);

// The products in SQLite, and the one place where queries for them are counted. Thread-safe.
class Catalogue {
 public:
  // `log` must outlive the catalogue.
  Catalogue(const std::string& path, ProductId hot, HotKeyLog* log);

  // One query. NotFound: there is no such product.
  absl::StatusOr<Product> Fetch(ProductId id);

  // So far.
  int64_t queries() const { return queries_.load(std::memory_order_relaxed); }

 private:
  struct Connection {
    Database database;
    Statement select;
  };

  absl::StatusOr<Product> Select(ProductId id);

  const ProductId hot_;
  HotKeyLog* const log_;
  std::atomic<int64_t> queries_{0};
  Pool<Connection> connections_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_CATALOGUE_H_

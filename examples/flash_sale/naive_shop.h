#ifndef STOCKADE_EXAMPLES_FLASH_SALE_NAIVE_SHOP_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_NAIVE_SHOP_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catalogue.h"
#include "common/pool.h"
#include "common/sqlite.h"
#include "shop.h"
#include "stockade/base/instant.h"

namespace flash_sale {

using examples::Database;
using examples::Pool;
using examples::Statement;

// The shop as most services are written, and nothing made worse than it usually is: a map with a time to live in front
// of the product query, and a stock that is read, checked in the program, subtracted from, and written. Nothing of it
// is wrong for one caller at a time. Its database commits are as durable as the ledger's (WAL, synchronous=FULL).
class NaiveShop final : public Shop {
 public:
  // Makes the order database at `path`. `catalogue` must outlive the shop.
  static absl::StatusOr<std::unique_ptr<NaiveShop>> Create(const std::string& path, Catalogue* catalogue, ProductId hot,
                                                           absl::Duration hot_ttl, int64_t stock);
  ~NaiveShop() override;

  absl::StatusOr<Product> View(ProductId id) override;
  absl::StatusOr<int64_t> Reserve(const std::string& request_id, absl::Duration ttl) override;
  absl::Status Commit(int64_t order_id) override;
  absl::Status Cancel(int64_t order_id) override;
  absl::StatusOr<int64_t> Held() override;
  absl::StatusOr<int64_t> Left() override;

 private:
  struct CachedPage {
    Product product;
    stockade::Instant expires;
  };
  struct Reader {
    Database database;
    Statement units;
    Statement state;
    Statement held;
    Statement ran_out;
  };
  // SQLite has one writer at a time, so one connection writes.
  struct Writer {
    Database database;
    Statement begin;
    Statement commit;
    Statement add_units;
    Statement insert_order;
    Statement set_state;
    Statement write_journal;
  };

  NaiveShop(const std::string& path, Writer writer, Catalogue* catalogue, ProductId hot, absl::Duration hot_ttl);

  absl::StatusOr<std::string> ReadState(int64_t order_id);
  // `units` go back on the shelf.
  absl::Status EndReservation(int64_t order_id, const char* state, const char* kind, int64_t units);
  // One transaction: what `change` does, `units` more on the shelf, and a line in the journal.
  absl::StatusOr<int64_t> Write(const char* kind, int64_t units,
                                const std::function<absl::StatusOr<int64_t>()>& change);
  void SweepUntilStopped();
  absl::Status Sweep();

  Catalogue* const catalogue_;
  const ProductId hot_;
  const absl::Duration hot_ttl_;

  std::mutex pages_mutex_;
  std::unordered_map<ProductId, CachedPage> pages_;  // Guarded by pages_mutex_.

  Pool<Reader> readers_;
  std::mutex writer_mutex_;
  Writer writer_;  // Guarded by writer_mutex_.

  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;  // Guarded by stop_mutex_.
  std::thread sweeper_;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_NAIVE_SHOP_H_

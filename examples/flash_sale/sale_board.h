#ifndef STOCKADE_EXAMPLES_FLASH_SALE_SALE_BOARD_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_SALE_BOARD_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "audit.h"
#include "common/course.h"
#include "common/sale_requests.h"
#include "trace.h"

namespace flash_sale {

// The product on sale, and the number of buyers and viewers.
struct SaleFacts {
  ProductId product = 0;
  int64_t stock = 0;
  int64_t buyers = 0;
  int64_t viewers = 0;
};

enum class Stage { kWaits, kPageViews, kSale, kAudit, kDone };

// The state of a half at one moment: the answers that viewers and buyers got, and the shop's own count of its shelf.
struct LiveFigures {
  absl::Duration elapsed = {};  // Since its page views began.
  int64_t page_views = 0;
  absl::Duration page_view_p99 = {};
  int64_t queries = 0;      // For products, in the database.
  int64_t hot_queries = 0;  // Of them, for the sale's page.
  int64_t orders = 0;
  int64_t refusals = 0;
  int64_t wrong_refusals = 0;
  int64_t sold = 0;  // Units that buyers have bought, by their answers.
  int64_t units_left = 0;
};

// One half, written by the thread that runs it and read by those that show it. Thread-safe.
class HalfBoard {
 public:
  struct Reading {
    Stage stage = Stage::kWaits;
    std::vector<LiveFigures> course = {};  // Ascending by time; the last is the newest.
    std::optional<StockAudit> audit = {};
    double loads_per_expiry = 0;  // Once there is an audit.
  };

  // For the next sale: as if it were new.
  void Clear();
  void SetStage(Stage stage);
  void Add(const LiveFigures& figures);
  void Judge(const StockAudit& audit, double loads_per_expiry);

  Stage stage() const;
  Reading Read() const;

 private:
  mutable std::mutex mutex_;
  Reading reading_;  // Without the course. Guarded by mutex_, like the next.
  examples::Course<LiveFigures> course_;
};

// Both halves of the sale that runs, or of the last one. Thread-safe.
class SaleBoard {
 public:
  struct Reading {
    examples::SaleRequest sale;
    HalfBoard::Reading naive;
    HalfBoard::Reading stockade;
  };

  explicit SaleBoard(const SaleFacts& sale_facts) : facts(sale_facts) {}

  // Clears both halves for the next sale; Read() never returns one of each sale.
  void Begin(const examples::SaleRequest& sale);
  Reading Read() const;

  const SaleFacts facts;  // The same for all sales.
  HalfBoard naive;
  HalfBoard stockade;

 private:
  mutable std::mutex mutex_;
  examples::SaleRequest sale_;  // Guarded by mutex_.
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_SALE_BOARD_H_

#ifndef STOCKADE_INVENTORY_FLEET_FLEET_STOCK_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_STOCK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "inventory_metrics.h"
#include "stockade/base/clock.h"
#include "stockade/base/mutex.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::inventory_internal {

// The metrics of what a fleet has in stock. One process reads and exports them for all, the one that does the upkeep:
// in the others the series are missing, so that sums over processes are right. Thread-safe.
class FleetStock {
 public:
  struct Units {
    int64_t available = 0;
    int64_t held = 0;
    int64_t sold = 0;
  };
  struct Figures {
    Units all = {};
    int64_t oversold = 0;
    int64_t buyers_over_limit = 0;
    std::map<std::string, Units> skus = {};  // At most FleetInventoryOptions::sku_metrics.
  };

  explicit FleetStock(const FleetInventoryOptions& options);

  // Whether anybody reads them.
  bool enabled() const { return metrics_.enabled(); }
  void Set(Figures figures);
  // This process may export what it has read until then.
  void ExportUntil(Instant end);
  // When the oldest reservation was due that has not expired; InfiniteFuture(): none.
  void SetOverdue(Instant since);
  double OverdueSeconds() const;
  // Another process exports them.
  void Clear();

 private:
  void Add(ComponentMetrics& to, size_t metric, std::function<double(const Figures&)> read);

  Clock& clock_;
  mutable Mutex mutex_;
  Figures figures_ STOCKADE_GUARDED_BY(mutex_);
  bool has_figures_ STOCKADE_GUARDED_BY(mutex_) = false;
  Instant export_end_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfinitePast();
  Instant overdue_since_ STOCKADE_GUARDED_BY(mutex_) = Instant::InfiniteFuture();
  std::set<std::string> named_;  // SKUs with series. Only Set() uses it.
  SkuMetrics sku_metrics_;
  ComponentMetrics metrics_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_STOCK_H_

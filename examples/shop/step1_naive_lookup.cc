// Step 1: a page asks the database; then a map with a TTL stands between them.

#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/base/instant.h"
#include "stockade/base/manual_clock.h"
#include "visitors.h"

namespace {

using shop::Product;

// The cache that everybody writes first.
class TtlMap {
 public:
  TtlMap(shop::Database* db, stockade::Clock* clock) : db_(db), clock_(clock) {}

  absl::StatusOr<Product> Find(const std::string& id) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = products_.find(id);
      if (found != products_.end() && clock_->Now() < found->second.expires) return found->second.product;
    }
    absl::StatusOr<Product> product = db_->Find(id);  // Callers that arrive before the first returns query too.
    if (product.ok()) {
      const std::lock_guard lock(mutex_);
      products_[id] = {*product, clock_->Now() + absl::Minutes(1)};
    }
    return product;
  }

 private:
  struct Cached {
    Product product;
    stockade::Instant expires;
  };

  shop::Database* const db_;
  stockade::Clock* const clock_;
  std::mutex mutex_;
  std::unordered_map<std::string, Cached> products_;  // Guarded by mutex_.
};

}  // namespace

int main() {
  shop::Database db;
  stockade::ManualClock clock;  // Moved by hand, so that nobody waits for a minute to pass.
  shop::Report report(&db);

  const shop::Lookup uncached = [&](const std::string& id) { return db.Find(id); };
  report.Line("no cache: 100 visitors at once", shop::VisitAtOnce(100, uncached, "shoe-1"));

  TtlMap products(&db, &clock);
  const shop::Lookup lookup = [&](const std::string& id) { return products.Find(id); };
  report.LineAbout("a map: 100 visitors at once", shop::VisitAtOnce(100, lookup, "shoe-1"));
  clock.Advance(absl::Seconds(45));
  report.Line("100 more, 45 s later", shop::VisitAtOnce(100, lookup, "shoe-1"));
  clock.Advance(absl::Seconds(45));
  report.LineAbout("100 more, when it has expired", shop::VisitAtOnce(100, lookup, "shoe-1"));
}

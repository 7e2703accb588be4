#include <mutex>
#include <unordered_map>

#include "steps.h"
#include "stockade/base/instant.h"

namespace cached_lookup {
namespace {

// The cache that everybody writes first. It is correct, and each expiry is a stampede: whoever finds the value expired
// queries the database, and until the first of them has stored what it got, that is everyone.
class TtlMap {
 public:
  explicit TtlMap(Setting* setting) : setting_(setting) {}

  absl::StatusOr<Product> Find(int id) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = products_.find(id);
      if (found != products_.end() && setting_->clock.Now() < found->second.expires) return found->second.product;
    }
    absl::StatusOr<Product> product = setting_->db.Find(id);
    if (product.ok()) {
      const std::lock_guard lock(mutex_);
      products_[id] = {*product, setting_->clock.Now() + kTtl};
    }
    return product;
  }

 private:
  struct Cached {
    Product product;
    stockade::Instant expires;
  };

  Setting* const setting_;
  std::mutex mutex_;
  std::unordered_map<int, Cached> products_;  // Guarded by mutex_.
};

}  // namespace

std::vector<Row> Step2TtlMap() {
  Setting setting;
  TtlMap products(&setting);
  const auto lookup = [&](int id) { return products.Find(id); };
  return {Named("2", "a map, a mutex, a TTL", AskForOne(setting, lookup, 1))};
}

}  // namespace cached_lookup

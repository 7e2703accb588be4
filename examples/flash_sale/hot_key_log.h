#ifndef STOCKADE_EXAMPLES_FLASH_SALE_HOT_KEY_LOG_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_HOT_KEY_LOG_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"

namespace flash_sale {

struct HotKeyFigures {
  int64_t queries = 0;
  int64_t expiries = 0;  // That were followed by a view.

  // 0 where nothing was viewed.
  double LoadsPerExpiry() const {
    return queries == 0 ? 0 : static_cast<double>(queries) / static_cast<double>(1 + expiries);
  }
  // Each value but the first was loaded once, for an expiry, and each expiry was answered by a load.
  bool Exact() const { return queries == 1 + expiries; }
};

// Counts the database's queries for the hot key and its expiries, by times alone: what the cache counts or believes
// plays no part, so the same rule judges both halves.
//
// A value runs out at the earliest one TTL after the first query that fetched it ended (it cannot have been stored
// before), and at the latest one TTL after the last view that ran such a query returned (it had been stored by then).
// Views between the two may find the old value or not; both are right. From the queries' times, a generation is
// everything that starts before the earliest expiry of what its first query fetched. Then
//
//   - a query that starts after the earliest expiry is made by a view that found the value expired: an expiry that was
//     followed by a view, and the first query of the next generation. All other queries of a generation are excess.
//   - a view that starts after the latest expiry of the last generation follows an expiry too, which no query answered.
//
// So queries = 1 + expiries where each expiry cost one query; a stampede makes the quotient larger, a value that is
// served on after its expiry makes it smaller. Caches may go by a coarser clock than this log, hence kSlack.
//
// Thread-safe.
class HotKeyLog {
 public:
  // A view of the hot key, for as long as it lives, on the thread that made it.
  class View {
   public:
    explicit View(HotKeyLog& log);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;

   private:
    HotKeyLog& log_;
  };

  // `clock` must outlive the log.
  explicit HotKeyLog(absl::Duration ttl, const stockade::Clock* clock = stockade::Clock::System())
      : ttl_(ttl), clock_(clock) {}

  // The database calls these around a query for the hot key, on the thread of the view that needs it.
  size_t BeginQuery();
  void EndQuery(size_t query);

  // So far.
  int64_t queries() const;

  // Once all views have ended.
  HotKeyFigures Figures() const;

 private:
  struct Query {
    stockade::Instant start;
    stockade::Instant end = stockade::Instant::InfiniteFuture();
    stockade::Instant view_end = stockade::Instant::InfiniteFuture();
  };

  // A share of the TTL by which clocks may disagree. Queries of a stampede start within milliseconds of each other.
  static constexpr double kSlack = 0.2;

  const absl::Duration ttl_;
  const stockade::Clock* const clock_;
  mutable std::mutex mutex_;
  std::vector<Query> queries_;  // In the order of their starts. This and the next are guarded by mutex_.
  stockade::Instant last_view_start_ = stockade::Instant::InfinitePast();
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_HOT_KEY_LOG_H_

#ifndef STOCKADE_EXAMPLES_FLASH_SALE_REFEREE_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_REFEREE_H_

#include <cstdint>
#include <deque>
#include <mutex>

#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"

namespace flash_sale {

struct SaleFigures {
  int64_t orders = 0;  // Accepted, each once however often it was acknowledged.
  int64_t refusals = 0;
  int64_t wrong_refusals = 0;
  double orders_per_second = 0;  // From the first request until the first refusal, or the last order.
};

// Watches a sale from outside, by the buyers' answers alone, and counts the wrong refusals: those during which, from
// the call's start to its end, a unit was certainly there.
//
// Invariant: certain_ is at most the number of units that a correct shop has on its shelf. Every request takes its unit
// off certain_ when it begins, and gives it back when it ends without one. Returned units are added once their return
// was confirmed. So every refusal that is called wrong was wrong, and a wrong one may be missed while other requests
// are under way.
//
// Thread-safe.
class Referee {
 public:
  // `clock` must outlive the referee.
  explicit Referee(int64_t stock, const stockade::Clock* clock = stockade::Clock::System())
      : clock_(clock), certain_(stock) {}

  enum class Answer {
    kOrder,    // A unit that was not the buyer's before.
    kRefused,  // "Sold out."
    kOther,    // No unit changed hands.
  };

  // Around each request. End() takes what Begin() returned.
  uint64_t Begin();
  void End(uint64_t begun, Answer answer);

  // A unit is for sale again.
  void Returned();
  // A unit will be, because nobody will commit or cancel its reservation, once `ttl` and a grace have passed.
  void Abandoned(absl::Duration ttl);

  SaleFigures Figures() const;

 private:
  // Far above the 10 ms that Stockade states and the 20 ms between two sweeps of the naive shop, for a busy machine.
  static constexpr absl::Duration kGrace = absl::Milliseconds(500);

  void CountReturns(stockade::Instant now);

  const stockade::Clock* const clock_;
  mutable std::mutex mutex_;
  // All below are guarded by mutex_.
  int64_t certain_;
  uint64_t events_ = 0;
  uint64_t last_short_ = 0;  // The last event after which certain_ was below 0: the caller's own unit not there.
  std::deque<stockade::Instant> returns_;  // Ascending, for one ttl.
  SaleFigures figures_;
  stockade::Instant opened_ = stockade::Instant::InfiniteFuture();
  stockade::Instant last_order_ = stockade::Instant::InfinitePast();
  int64_t orders_before_refusal_ = 0;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_REFEREE_H_

#ifndef STOCKADE_EXAMPLES_FLASH_SALE_BUYERS_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_BUYERS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "errors.h"
#include "hot_key_log.h"
#include "referee.h"
#include "shop.h"

namespace flash_sale {

// How long a reservation lasts. Minutes in a real shop; here a run should see some of them run out.
inline constexpr absl::Duration kReservationTtl = absl::Seconds(1);

struct BuyerCounts {
  std::atomic<int64_t> retried{0};
  std::atomic<int64_t> sold{0};
  std::atomic<int64_t> cancelled{0};
  std::atomic<int64_t> abandoned{0};
};

// The buyers of a sale, on kThreads threads, each of which plays one buyer after another. A buyer looks at the page,
// then asks for a unit. One request in ten is sent twice with the same id, as after a time-out. Of the buyers that get
// a unit, one in ten cancels and one in ten leaves without a word; the others buy. Once all buyers have played and the
// abandoned reservations have expired, the buyers that were refused come back, with the same id, and buy what they get.
// The behaviour of a buyer is drawn from the seed and the buyer's number.
class Buyers {
 public:
  static constexpr int kThreads = 32;

  // All must outlive this.
  Buyers(Shop* shop, ProductId hot, HotKeyLog* log, Referee* referee, Errors* errors, uint64_t seed)
      : shop_(shop), hot_(hot), log_(log), referee_(referee), errors_(errors), seed_(seed) {}

  // The first `buyers` arrive in groups of kThreads, in even steps over `time`. A group arrives at once, so that buyers
  // compete in a slow sale, too.
  struct Arrivals {
    int64_t buyers = 0;
    absl::Duration time = {};
  };

  // The whole sale. Returns when no reservation runs any more.
  void Run(int64_t buyers, const Arrivals& arrivals);

  const BuyerCounts& counts() const { return counts_; }
  int64_t served() const { return served_.load(std::memory_order_relaxed); }

 private:
  void PlayAll(int64_t count, const std::function<void(int64_t)>& play);
  void Play(int64_t buyer);
  void PlayAgain(int64_t buyer);
  void ViewPage();
  void WasRefused(int64_t buyer);
  void Buy(int64_t order_id);
  void EndedOtherwise(const absl::Status& status);
  void Decide(int64_t buyer, int64_t order_id);
  // The order id, or 0.
  int64_t Ask(const std::string& request_id, int64_t known_order, bool& refused);
  void AwaitNoneHeld();

  Shop* const shop_;
  const ProductId hot_;
  HotKeyLog* const log_;
  Referee* const referee_;
  Errors* const errors_;
  const uint64_t seed_;
  BuyerCounts counts_;
  std::atomic<int64_t> served_{0};
  std::mutex refused_mutex_;
  std::vector<int64_t> refused_;  // Guarded by refused_mutex_.
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_BUYERS_H_

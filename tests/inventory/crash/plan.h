#ifndef STOCKADE_TESTS_INVENTORY_CRASH_PLAN_H_
#define STOCKADE_TESTS_INVENTORY_CRASH_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "stockade/inventory/ledger.h"

namespace stockade::testing {

// What is on sale, and to whom; the same over all rounds on one ledger.
struct World {
  uint32_t seed = 1;
  uint32_t skus = 100;
  int64_t stock = 20;  // Of each SKU, to begin with.
};

// Names a request: the round, one of its threads, and which one of that thread's.
struct Key {
  uint32_t round = 0;
  uint32_t thread = 0;
  uint32_t index = 0;

  std::string request_id() const;
  uint64_t packed() const { return uint64_t{round} << 40 | uint64_t{thread} << 32 | index; }
  static Key Unpacked(uint64_t packed) {
    return {static_cast<uint32_t>(packed >> 40), static_cast<uint32_t>(packed >> 32 & 0xff),
            static_cast<uint32_t>(packed)};
  }
};

// None: no request id of ours.
std::optional<Key> KeyCalled(std::string_view request_id);

// A whole request, and the use of its order. Both follow from its key alone, so a reader of the ledger knows what may
// be there even if no answer came through.
struct Plan {
  enum class Call { kReserve, kTake, kBasket };
  enum class Fate {
    kLeave,   // To its TTL.
    kCommit,  // And then perhaps cancelled, in vain.
    kCancel,  // And then perhaps committed, in vain.
    kRace,    // Committed and cancelled at the same moment.
  };

  Call call = Call::kTake;
  Fate fate = Fate::kLeave;
  bool own_sku = false;          // The first line is of a SKU that is there for this request only.
  std::vector<OrderLine> lines;  // Each SKU once, ascending.
  std::string buyer;
  absl::Duration ttl = absl::InfiniteDuration();
  bool writes_off = false;  // What comes back.

  // Of the first line; others stay.
  bool returns_a_unit() const { return may_be_sold() && (lines.size() > 1 || lines[0].quantity > 1); }
  bool may_be_sold() const { return call == Call::kTake || fate == Fate::kCommit || fate == Fate::kRace; }
  bool may_be_cancelled() const { return call != Call::kTake && (fate == Fate::kCancel || fate == Fate::kRace); }
};

Plan PlanOf(const World& world, const Key& key);

// The SKUs of a world by their number, and what a buyer may have of them; 0: as many as there are.
std::string SkuCalled(uint32_t number);
int64_t LimitOf(uint32_t number);

// Of the one SKU of a plan that has its own.
std::string OwnSkuOf(const Key& key);
inline constexpr int64_t kOwnStock = 3;

// Of a TTL that a round outlives; a longer one outlives the test.
inline constexpr absl::Duration kShortTtl = absl::Milliseconds(60);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_CRASH_PLAN_H_

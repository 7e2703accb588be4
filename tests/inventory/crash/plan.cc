#include "inventory/crash/plan.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_cat.h"

namespace stockade::testing {
namespace {

// splitmix64: good in all bits, the same everywhere.
class Bits {
 public:
  explicit Bits(uint64_t state) : state_(state) {}

  uint32_t Below(uint32_t bound) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return static_cast<uint32_t>((mixed ^ mixed >> 31) >> 32) % bound;
  }

 private:
  uint64_t state_;
};

}  // namespace

std::string Key::request_id() const { return absl::StrCat(round, "-", thread, "-", index); }

std::optional<Key> KeyCalled(std::string_view request_id) {
  Key key;
  const char* at = request_id.data();
  const char* const end = at + request_id.size();
  for (uint32_t* const part : {&key.round, &key.thread, &key.index}) {
    if (part != &key.round && (at == end || *at++ != '-')) return std::nullopt;
    const auto [next, error] = std::from_chars(at, end, *part);
    if (error != std::errc()) return std::nullopt;
    at = next;
  }
  return at == end ? std::optional(key) : std::nullopt;
}

std::string SkuCalled(uint32_t number) { return absl::StrCat("sku-", number); }

int64_t LimitOf(uint32_t number) { return number % 4 == 3 ? 3 : 0; }

std::string OwnSkuOf(const Key& key) { return absl::StrCat("only-", key.request_id()); }

Plan PlanOf(const World& world, const Key& key) {
  Bits bits(uint64_t{world.seed} * 0x2545f4914f6cdd1d ^ key.packed());
  Plan plan;
  const uint32_t call = bits.Below(100);
  plan.call = call < 25 ? Plan::Call::kTake : call < 70 ? Plan::Call::kReserve : Plan::Call::kBasket;
  // A round's own buyers, so that there are always some whose limit is not used up.
  plan.buyer = absl::StrCat("buyer-", key.round, "-", bits.Below(64));
  const uint32_t lines = plan.call == Plan::Call::kBasket ? 1 + bits.Below(4) : 1;
  for (uint32_t i = 0; i < lines; ++i) {
    const std::string sku = SkuCalled(bits.Below(world.skus));
    if (std::ranges::find(plan.lines, sku, &OrderLine::sku) != plan.lines.end()) continue;
    plan.lines.push_back({.sku = sku, .quantity = 1 + bits.Below(8) / 7});
  }
  plan.own_sku = bits.Below(64) == 0;
  if (plan.own_sku) plan.lines[0] = {.sku = OwnSkuOf(key), .quantity = 2};
  std::ranges::sort(plan.lines, {}, &OrderLine::sku);
  plan.writes_off = key.index % 4 == 0;
  if (plan.call == Plan::Call::kTake) return plan;

  const uint32_t fate = bits.Below(100);
  plan.fate = fate < 35   ? Plan::Fate::kCommit
              : fate < 70 ? Plan::Fate::kCancel
              : fate < 82 ? Plan::Fate::kRace
                          : Plan::Fate::kLeave;
  const bool runs_out = plan.fate == Plan::Fate::kLeave ? bits.Below(6) != 0 : bits.Below(5) == 0;
  plan.ttl = runs_out ? absl::Milliseconds(1 + bits.Below(static_cast<uint32_t>(kShortTtl / absl::Milliseconds(1))))
                      : absl::Hours(100);
  return plan;
}

}  // namespace stockade::testing

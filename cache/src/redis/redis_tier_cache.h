#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_CACHE_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_CACHE_H_

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "redis_tier.h"
#include "stockade/cache/cache_tier.h"

namespace stockade::cache_internal {

// The calls of one cache.
class RedisTierCache final : public TierCache {
 public:
  RedisTierCache(std::shared_ptr<RedisTier> tier, std::shared_ptr<TierSpace> space)
      : tier_(std::move(tier)), space_(std::move(space)) {}
  ~RedisTierCache() override;

  std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) override;
  std::vector<TierFilled> Fill(std::span<const TierFill> fills) override;
  void Fail(std::string_view key, const TierLease& lease) override;
  uint64_t Queue(const TierTarget& target) override;
  TierInvalidated Await(uint64_t queued, bool with_lease) override;
  bool AwaitAll(Instant deadline) override;
  void CancelWaits() override;
  Instant trusted_until() const override { return tier_->trusted_until(); }
  absl::Duration max_staleness() const override { return tier_->options().max_staleness; }
  absl::Duration max_ttl() const override { return tier_->options().max_ttl; }

 private:
  // Answers the question if its record is a hit and has no tags. Otherwise, and if anything fails, returns false.
  bool TryHit(const TierReign& reign, std::string_view key, Instant deadline, TierAnswer& answer);
  // Asks once. Returns those of `open` that are to be asked again.
  std::vector<size_t> AskOnce(const TierReign& reign, std::span<const TierAsk> questions,
                              const std::vector<size_t>& open, Instant deadline, std::vector<TierAnswer>& answers,
                              uint64_t& beat);
  // Whether the tier takes the value.
  bool Storable(const TierFill& fill) const;

  const std::shared_ptr<RedisTier> tier_;
  const std::shared_ptr<TierSpace> space_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_CACHE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/tier/tier_client.h"
#include "cache/tier/tier_contract.h"
#include "stockade/base/manual_clock.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/memory_cache_tier.h"

namespace stockade::testing {
namespace {

class MemoryFleet final : public TierFleet {
 public:
  std::shared_ptr<CacheTier> NewTier() override { return tier_; }
  void AwaitHeartbeats() override { tier_->BeatAll(); }
  size_t leases() override { return tier_->leases(); }
  void LapseLeases() override { tier_->LapseLeases(); }
  void TrimJournal() override { tier_->TrimJournal(); }
  void BeginReign() override { tier_->BeginReign(); }

 private:
  const std::shared_ptr<MemoryCacheTier> tier_ = MemoryCacheTier::Create(
      {.max_staleness = absl::Minutes(10), .lease = absl::Minutes(10), .max_value_bytes = kMaxValueBytes});
};

void StartMemoryFleet(std::unique_ptr<TierFleet>& fleet) { fleet = std::make_unique<MemoryFleet>(); }

INSTANTIATE_TEST_SUITE_P(Memory, TierContractTest, ::testing::Values(&StartMemoryFleet));

TEST(MemoryCacheTierTest, Caches_OfOtherNamesAndCodecs_ShareNothing) {
  const auto tier = MemoryCacheTier::Create();
  TierClient one(tier, "one", "text"), same(tier, "one", "text"), codec(tier, "one", "number"),
      two(tier, "two", "text");
  ASSERT_EQ(one.Load("k", "v").kind, Filled::kStored);
  ASSERT_EQ(two.Load("k", {.bytes = "w", .tags = {"t"}}).kind, Filled::kStored);
  ASSERT_TRUE(one.InvalidateTag("t").accepted);
  ASSERT_TRUE(two.InvalidateKey("other").accepted);
  EXPECT_EQ(same.Ask("k").record->bytes, "v");
  EXPECT_EQ(two.Ask("k").record->bytes, "w") << "the tag is of the other cache";
  tier->BeatAll();
  EXPECT_EQ(same.ear->lines(), std::vector<std::string>{"tag t"});
  EXPECT_EQ(two.ear->lines(), std::vector<std::string>{"key other"}) << "and no reset";
  EXPECT_EQ(codec.Ask("k").kind, Answer::kGranted) << "it cannot read the record";
  ASSERT_TRUE(one.InvalidateAll().accepted);
  EXPECT_EQ(two.Ask("k").kind, Answer::kHit);
}

TEST(MemoryCacheTierTest, Open_InvalidNames_AreRefusedAsByRedis) {
  const auto tier = MemoryCacheTier::Create();
  TierEar ear;
  EXPECT_TRUE(tier->Open(std::string(64, 'x'), std::string(32, 'x'), ear).ok());
  for (const auto& [cache, codec] : {std::pair<std::string, std::string>(std::string(65, 'x'), "c"),
                                     {"x", std::string(33, 'x')},
                                     {"", "c"},
                                     {"x", ""},
                                     {"a b", "c"},
                                     {"x", "c{}"}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(tier->Open(cache, codec, ear).status())) << cache << codec;
  }
  EXPECT_EQ(tier->opened(), 1u);
}

// The example of its header.
TEST(MemoryCacheTierTest, TwoProcesses_InvalidationsAndFaultsAreTheTests) {
  using Products = LoadingCache<std::string, std::string>;
  ManualClock clock;
  int price = 1;
  const auto load = [&](const std::string& id) -> absl::StatusOr<std::string> { return id + std::to_string(price); };
  const auto tier = MemoryCacheTier::Create({.clock = &clock});
  const LoadingCacheOptions options = {
      .name = "products", .ttl = absl::Minutes(5), .clock = &clock, .tier = tier, .metrics = nullptr};
  Products here(options, load), there(options, load);
  const auto get = [](Products& from) { return **from.Get("dunk-low"); };
  EXPECT_EQ(get(here) + get(there), "dunk-low1dunk-low1");
  price = 2;
  here.Invalidate("dunk-low");
  EXPECT_EQ(get(here) + get(there), "dunk-low2dunk-low1") << "no heartbeat yet";
  tier->BeatAll();
  EXPECT_EQ(get(there), "dunk-low2");
  tier->process(1).away = true;
  price = 3;
  here.Invalidate("dunk-low");
  tier->BeatAll();
  EXPECT_EQ(get(here) + get(there), "dunk-low3dunk-low2") << "within its max_staleness";
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(get(there), "dunk-low3") << "loaded for itself";
}

}  // namespace
}  // namespace stockade::testing

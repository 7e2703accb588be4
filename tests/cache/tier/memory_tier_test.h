#ifndef STOCKADE_TESTS_CACHE_TIER_MEMORY_TIER_TEST_H_
#define STOCKADE_TESTS_CACHE_TIER_MEMORY_TIER_TEST_H_

#include <memory>

#include "cache/tier/two_caches.h"
#include "stockade/base/manual_clock.h"
#include "stockade/cache/memory_cache_tier.h"

namespace stockade::testing {

// Two processes with a tier in memory, of which the test decides what happens when.
class MemoryTierTest : public TwoCachesTest {
 protected:
  std::shared_ptr<CacheTier> NewTier() override { return tier; }
  void NewMemoryTier(MemoryCacheTierOptions options = {}) {
    options.clock = &clock;
    tier = MemoryCacheTier::Create(options);
  }
  // For tests in which a call waits for another process.
  void UseSystemClock(const MemoryCacheTierOptions& options = {}) { tier = MemoryCacheTier::Create(options); }
  void PassMaxStaleness() { clock.Advance(MemoryCacheTierOptions().max_staleness); }
  // The caches have ended all their leases.
  void ExpectNoLease() {
    EXPECT_EQ(tier->leases(), 0u);
    EXPECT_EQ(tier->forgotten_leases(), 0u);
  }

  ManualClock clock;
  std::shared_ptr<MemoryCacheTier> tier = MemoryCacheTier::Create({.clock = &clock});
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TIER_MEMORY_TIER_TEST_H_

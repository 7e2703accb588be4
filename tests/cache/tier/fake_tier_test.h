#ifndef STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_TEST_H_
#define STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_TEST_H_

#include <memory>

#include "cache/tier/fake_tier.h"
#include "cache/tier/two_caches.h"
#include "stockade/base/manual_clock.h"

namespace stockade::testing {

// Two processes with a tier in memory, of which the test decides what happens when.
class FakeTierTest : public TwoCachesTest {
 protected:
  std::shared_ptr<CacheTier> NewTier() override { return tier; }
  void NewFakeTier() { tier = std::make_shared<FakeTier>(&clock); }
  // For tests in which a call waits for another process.
  void UseSystemClock(const FakeTier::Spans& spans = {}) { tier = std::make_shared<FakeTier>(Clock::System(), spans); }
  void PassMaxStaleness() { clock.Advance(FakeTier::kMaxStaleness); }
  // The caches have ended all their leases.
  void ExpectNoLease() {
    EXPECT_EQ(tier->leases(), 0u);
    EXPECT_EQ(tier->forgotten_leases(), 0u);
  }

  ManualClock clock;
  std::shared_ptr<FakeTier> tier = std::make_shared<FakeTier>(&clock);
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_TEST_H_

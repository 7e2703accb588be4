#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "cache/tier/fake_tier.h"
#include "cache/tier/tier_contract.h"

namespace stockade::testing {
namespace {

class FakeFleet final : public TierFleet {
 public:
  FakeFleet() { tier_->max_value_bytes = kMaxValueBytes; }

  std::shared_ptr<CacheTier> NewTier() override { return tier_; }
  void AwaitHeartbeats() override { tier_->BeatAll(); }
  size_t leases() override { return tier_->leases(); }
  void LapseLeases() override { tier_->LapseLeases(); }
  void TrimJournal() override { tier_->TrimJournal(); }
  void BeginReign() override { tier_->BeginReign(); }

 private:
  const std::shared_ptr<FakeTier> tier_ = std::make_shared<FakeTier>(
      Clock::System(), FakeTier::Spans{.max_staleness = absl::Minutes(10), .lease = absl::Minutes(10)});
};

void StartFakeFleet(std::unique_ptr<TierFleet>& fleet) { fleet = std::make_unique<FakeFleet>(); }

INSTANTIATE_TEST_SUITE_P(Fake, TierContractTest, ::testing::Values(&StartFakeFleet));

}  // namespace
}  // namespace stockade::testing

#ifndef STOCKADE_TESTS_CACHE_TIER_TIER_CONTRACT_H_
#define STOCKADE_TESTS_CACHE_TIER_TIER_CONTRACT_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "cache/tier/tier_client.h"
#include "cache/tier/two_caches.h"
#include "support/await.h"

// The contract suite: what each implementation of CacheTier must do. To run it over another one, derive a TierFleet,
// instantiate TierContractTest with a function that makes it, as memory_tier_contract_test.cc does, and link that with
// tier_contract_test.cc.

namespace stockade::testing {

// The processes that share one tier, and its server. Its clock goes on by itself. It is patient: no lease lapses and no
// trust ends while a test runs.
class TierFleet {
 public:
  static constexpr size_t kMaxValueBytes = 100;  // Larger values are not stored.

  virtual ~TierFleet() = default;

  // The tier of one more process. Tests open a cache in it, named "products", and perhaps a second one, "orders".
  virtual std::shared_ptr<CacheTier> NewTier() = 0;
  // Returns when each cache has been given all invalidations that were accepted before the call, and trusts its memory.
  virtual void AwaitHeartbeats() = 0;
  // The live leases, of all keys.
  virtual size_t leases() = 0;
  // Ends all leases, as if their processes had been killed.
  virtual void LapseLeases() = 0;
  // Removes all entries from the journal, as if there had been too many later ones. A tier that always keeps all
  // entries may do nothing.
  virtual void TrimJournal() = 0;
  // The server comes back empty.
  virtual void BeginReign() = 0;
};

// Makes a fleet. Leaves `fleet` empty and skips the test if a program that it needs is missing.
using StartTierFleet = void (*)(std::unique_ptr<TierFleet>& fleet);

class TierContractTest : public TwoCachesTest, public ::testing::WithParamInterface<StartTierFleet> {
 protected:
  void SetUp() override { GetParam()(fleet); }
  std::shared_ptr<CacheTier> NewTier() override { return fleet->NewTier(); }

  struct Clients {
    TierClient a;
    TierClient b;
  };
  TierClient NewClient() { return TierClient(NewTier()); }
  Clients NewClients() { return {NewClient(), NewClient()}; }
  void AwaitNoLease() {
    Await("the end of all leases", [&] { return fleet->leases() == 0; });
  }

  std::unique_ptr<TierFleet> fleet;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TIER_TIER_CONTRACT_H_

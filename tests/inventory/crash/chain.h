#ifndef STOCKADE_TESTS_INVENTORY_CRASH_CHAIN_H_
#define STOCKADE_TESTS_INVENTORY_CRASH_CHAIN_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "inventory/crash/plan.h"
#include "inventory/crash/victim.h"
#include "inventory/crash/witness.h"
#include "support/temp_dir.h"

namespace stockade::testing {

// Rounds of one ledger. After each of them the audit by SQL alone must hold, and the ledger must be what was heard of
// it in this round and all before.
class Chain {
 public:
  Chain(const World& world, uint32_t threads) : world_(world), threads_(threads), witness_(world) {}

  Ended RunToDeath(const Death& death, absl::Duration retention = absl::InfiniteDuration());
  // Until each thread has sent `requests` and the ledger is closed, unless it dies before.
  Ended RunToEnd(uint32_t requests, const Death& death = {}, absl::Duration retention = absl::InfiniteDuration());

  const Witness& witness() const { return witness_; }
  uint32_t rounds() const { return next_round_; }
  std::string path() const { return dir_.File("orders.db"); }
  // What SQL says to a query of one number.
  int64_t Count(const std::string& sql) const;

 private:
  Ended Run(const Round& round, const Death& death);

  const TempDir dir_;
  const World world_;
  const uint32_t threads_;
  Witness witness_;
  uint32_t next_round_ = 0;
};

// It died by SIGKILL, and not of silence.
void ExpectKilled(const Ended& ended);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_CRASH_CHAIN_H_

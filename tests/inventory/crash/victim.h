#ifndef STOCKADE_TESTS_INVENTORY_CRASH_VICTIM_H_
#define STOCKADE_TESTS_INVENTORY_CRASH_VICTIM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "inventory/crash/plan.h"

namespace stockade::testing {

// A round: a process that opens a shop on a ledger and trades. Its arguments; see shop_under_load.cc.
struct Round {
  std::string ledger;
  World world;
  uint32_t number = 0;
  uint32_t threads = 4;
  absl::Duration retention = absl::InfiniteDuration();
  // Requests of each thread, after which the process closes the shop and ends with 0.
  uint32_t requests = UINT32_MAX;
  // How many requests each thread of the round before had answered.
  std::vector<uint32_t> former = {};
};

// When it is killed, whatever comes first; but if `crash_at` is given, it is to kill itself (see crash_point.h).
struct Death {
  uint64_t lines = UINT64_MAX;                              // This many answers have come.
  absl::Duration after_start = absl::InfiniteDuration();    // Of the process, which opens the ledger first.
  absl::Duration after_opening = absl::InfiniteDuration();  // Of the ledger.
  absl::Duration after_lines = absl::ZeroDuration();        // This long after `lines` have come.
  std::string crash_at = {};
};

struct Ended {
  int status = 0;       // As a shell gives it: 128 + SIGKILL where it was killed.
  bool opened = false;  // The ledger was, and the shop.
  bool hung = false;    // Killed because it said nothing for long.
  absl::Duration opening = absl::ZeroDuration();
};

// Runs a round to its death, and hands over each line that it wrote, whole, in the order in which they were written.
Ended RunRound(const Round& round, const Death& death, const std::function<void(std::string_view)>& line);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_CRASH_VICTIM_H_

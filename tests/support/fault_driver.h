#ifndef STOCKADE_TESTS_SUPPORT_FAULT_DRIVER_H_
#define STOCKADE_TESTS_SUPPORT_FAULT_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/network.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade::testing {

struct Fault {
  int64_t after = 0;  // How much passes before it: milliseconds, or what else the test counts.
  std::string kind = {};
  std::vector<int64_t> numbers = {};

  friend bool operator==(const Fault&, const Fault&) = default;
};

// "100 kill 2; 0 cut 1 3".
std::string ToText(std::span<const Fault> schedule);
// Aborts where the text is no schedule.
std::vector<Fault> ParseFaults(const std::string& text);

// These faults, or those that STOCKADE_TEST_FAULTS has as a text, to repeat a run or a part of it. Prints them, and the
// seed of what else the run does.
std::vector<Fault> FaultsToRun(std::vector<Fault> faults, uint64_t seed = Seed());
// Whether STOCKADE_TEST_FAULTS is set, so that what a schedule usually does may not happen.
bool FaultsAreGiven();

// Makes faults of several kinds, by a schedule that a seed decides. For one thread.
class FaultDriver {
 public:
  struct Kind {
    std::string name;
    // Of its numbers: each is drawn from 0 to below its limit.
    std::vector<int64_t> limits;
    std::function<void(std::span<const int64_t> numbers)> make;
    int weight = 1;  // It is drawn in proportion to this.
  };
  using Kinds = std::vector<Kind>;
  // Blocks until so much has passed.
  using Pass = std::function<void(int64_t amount)>;

  FaultDriver(Kinds kinds, Pass pass) : kinds_(std::move(kinds)), pass_(std::move(pass)) {}

  // The same for the same seed, kinds and limits.
  std::vector<Fault> Draw(uint64_t seed, int64_t faults, int64_t longest_pause) const;
  // Aborts where there is no such kind, or its numbers are others.
  void Make(const Fault& fault) const;
  void MakeAll(std::span<const Fault> schedule) const {
    for (const Fault& fault : schedule) Make(fault);
  }

 private:
  const Kinds kinds_;
  const Pass pass_;
};

// What one of the proxies does to all its connections, or to the next reply: each fault names its proxy first. Those
// that take a time end by themselves. The vector must outlive the kinds.
FaultDriver::Kinds ProxyFaults(const std::vector<TcpProxy*>& proxies, const FaultDriver::Pass& pass, int64_t longest);

// What becomes of the ways between the first hosts, which are `servers`, and all. All but "cut-off" stay until "heal".
//   cut S H W     what server S and the H-th host after it send each other is lost: W is 0 from S to H, 1 from H to S,
//   2
//                 both ways
//   reset S H     connections between them are reset
//   split M       the ways between the hosts whose bits in M + 1 are set and the others are cut
//   cut-off C T   the C-th host that is no server reaches none for so long, and then everything passes again
FaultDriver::Kinds NetworkFaults(Network& network, int servers, const FaultDriver::Pass& pass, int64_t longest);

inline FaultDriver::Kinds Together(FaultDriver::Kinds kinds, FaultDriver::Kinds more) {
  for (FaultDriver::Kind& kind : more) kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_FAULT_DRIVER_H_

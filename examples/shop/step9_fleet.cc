// Step 9: several processes. One of them books the delivery, under a lock; all of them sell, each what it was allotted.

#include <signal.h>
#include <stdlib.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/own_redis.h"
#include "common/process.h"
#include "common/sqlite.h"
#include "fleet_process.h"
#include "visitors.h"
#include "warehouse.h"

namespace {

using examples::Process;
using shop::Fate;
using shop::FleetPlan;
using shop::OrExit;

Process Start(const FleetPlan& plan) {
  return OrExit(
      Process::Start({"/proc/self/exe", "process", absl::StrCat(plan.number), absl::StrCat(static_cast<int>(plan.fate)),
                      plan.locks, plan.lock_name, plan.directory}));
}

FleetPlan PlanOf(char** argv) {
  return {.number = std::atoi(argv[2]),
          .fate = static_cast<Fate>(std::atoi(argv[3])),
          .locks = argv[4],
          .lock_name = argv[5],
          .directory = argv[6]};
}

void Await(const std::function<bool()>& is_so) {
  for (const absl::Time limit = absl::Now() + absl::Minutes(1); !is_so(); absl::SleepFor(absl::Milliseconds(5))) {
    if (absl::Now() > limit) OrExit(absl::DeadlineExceededError("a process of the fleet makes no progress"));
  }
}

// Three processes: the first is paused while it has the lock, the third is killed with an allotment in hand.
std::vector<Process> StartFleet(FleetPlan plan, shop::Warehouse& warehouse) {
  std::vector<Process> fleet;
  plan.fate = Fate::kPausedInTheJob;
  fleet.push_back(Start(plan));
  if (!fleet[0].Await().stopped) OrExit(absl::InternalError("process 1 should have been paused"));

  plan.number = 2;
  plan.fate = Fate::kNone;
  fleet.push_back(Start(plan));
  Await([&] { return OrExit(warehouse.BoxesBooked()) == shop::kBoxes && OrExit(warehouse.Allotted(2)) > 0; });
  fleet[0].Continue();
  Await([&] { return OrExit(warehouse.Allotted(1)) > 0; });

  plan.number = 3;
  plan.fate = Fate::kKilledWithAnAllotment;
  Process killed = Start(plan);
  if (killed.Await().signal != SIGKILL) OrExit(absl::InternalError("process 3 should have been killed"));
  plan.fate = Fate::kNone;
  fleet.push_back(Start(plan));
  return fleet;
}

// Compares the ledgers of all processes with the answers that their buyers got. True: all is well.
bool Audit(FleetPlan plan, int processes) {
  std::set<std::string> buyers;
  int64_t sold = 0;
  int64_t told_and_missing = 0;
  std::string each;
  for (plan.number = 1; plan.number <= processes; ++plan.number) {
    examples::Database ledger = OrExit(examples::Database::Open(plan.ledger(), examples::Database::Mode::kExisting));
    examples::Statement orders = OrExit(ledger.Prepare("SELECT request_id, quantity FROM orders WHERE state = 'sold'"));
    int64_t its = 0;
    while (OrExit(orders.Step())) {
      buyers.insert(orders.Text(0));
      its += orders.Int(1);
    }
    sold += its;
    absl::StrAppend(&each, each.empty() ? "" : ", ", "~", its, " by process ", plan.number);
    std::ifstream told(plan.told());
    for (std::string buyer; std::getline(told, buyer);) told_and_missing += !buyers.contains(buyer);
  }
  const int64_t stocked = shop::kBoxes * shop::kPairsInABox;
  std::printf("sold: %s\n", each.c_str());
  std::printf("audit: delivered %lld, sold %lld, to %zu buyers; acknowledged and not there: %lld\n",
              static_cast<long long>(stocked), static_cast<long long>(sold), buyers.size(),
              static_cast<long long>(told_and_missing));
  return sold == stocked && std::cmp_equal(buyers.size(), sold) && told_and_missing == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 7) {
    shop::RunFleetProcess(PlanOf(argv));
    return 0;
  }
  if (argc > 2) {
    std::fprintf(stderr, "usage: step9 [LOCKS]\n");
    return 2;
  }

  std::string directory = "/tmp/shop-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) OrExit(absl::UnavailableError("no directory in /tmp"));
  FleetPlan plan = {.locks = argc > 1 ? argv[1] : "local:",
                    .lock_name = absl::StrCat("delivery:", directory),
                    .directory = directory};
  absl::StatusOr<std::unique_ptr<examples::OwnRedis>> redis;
  if (argc == 1) {
    redis = examples::OwnRedis::Start();
    if (redis.ok()) plan.locks = (*redis)->url();
  }
  const std::unique_ptr<shop::Warehouse> warehouse = OrExit(shop::Warehouse::Open(plan.warehouse()));

  // Such locks exclude one process's threads only.
  const bool alone = plan.locks == "local:";
  if (alone) {
    std::printf("locks are local: (is redis-server installed?), so there is one process\n");
    std::fflush(stdout);
  }
  std::vector<Process> fleet;
  if (alone) {
    fleet.push_back(Start(plan));
  } else {
    fleet = StartFleet(plan, *warehouse);
  }
  OrExit(warehouse->OpenSale());
  for (Process& process : fleet) {
    if (process.Await().exit_status != 0) OrExit(absl::InternalError("a process of the fleet failed"));
  }
  const bool is_well = Audit(plan, static_cast<int>(fleet.size()));
  std::filesystem::remove_all(directory);
  return is_well ? 0 : 1;
}

// Step 9: three processes. One of them books the delivery, under a lock; all show one price, and sell one stock.

#include <signal.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
#include "common/own_mariadb.h"
#include "common/own_redis.h"
#include "common/process.h"
#include "common/temp_directory.h"
#include "fleet_process.h"
#include "visitors.h"
#include "warehouse.h"

namespace {

using examples::Process;
using examples::TempDirectory;
using shop::Fate;
using shop::FleetPlan;
using shop::OrExit;
using shop::Phase;
using shop::Warehouse;

Process Start(const FleetPlan& plan) {
  return OrExit(
      Process::Start({"/proc/self/exe", "process", absl::StrCat(plan.number), absl::StrCat(static_cast<int>(plan.fate)),
                      plan.locks, plan.lock_name, plan.redis, plan.ledger, plan.socket, plan.directory}));
}

FleetPlan PlanOf(char** argv) {
  return {.number = std::atoi(argv[2]),
          .fate = static_cast<Fate>(std::atoi(argv[3])),
          .locks = argv[4],
          .lock_name = argv[5],
          .redis = argv[6],
          .ledger = argv[7],
          .socket = argv[8],
          .directory = argv[9]};
}

void Await(const std::function<bool()>& is_so) {
  for (const absl::Time limit = absl::Now() + absl::Minutes(1); !is_so(); absl::SleepFor(absl::Milliseconds(5))) {
    if (absl::Now() > limit) OrExit(absl::DeadlineExceededError("a process of the fleet makes no progress"));
  }
}

// The job. The first process is paused while it has the lock. The third one comes later.
std::vector<Process> BookTheDelivery(FleetPlan plan, Warehouse& warehouse) {
  std::vector<Process> fleet;
  plan.fate = Fate::kPausedInTheJob;
  fleet.push_back(Start(plan));
  if (!fleet[0].Await().stopped) OrExit(absl::InternalError("process 1 should have been paused"));

  plan.number = 2;
  plan.fate = Fate::kNone;
  fleet.push_back(Start(plan));
  Await([&] { return OrExit(warehouse.ProcessesThatShow(shop::kNoPrice)) == 1; });
  fleet[0].Continue();

  plan.number = 3;
  plan.fate = Fate::kKilledInTheSale;
  fleet.push_back(Start(plan));
  return fleet;
}

void ShowPrices(Warehouse& warehouse) {
  OrExit(warehouse.Begin(Phase::kVisits));
  const int64_t price = OrExit(warehouse.Number("SELECT price FROM shop"));
  Await([&] { return OrExit(warehouse.ProcessesThatShow(price)) == shop::kFleet; });
  std::printf("%d visitors of %d processes see the price %lld: %lld query\n", shop::kFleet * shop::kVisitors,
              shop::kFleet, static_cast<long long>(price), static_cast<long long>(OrExit(warehouse.Queries())));

  OrExit(warehouse.Begin(Phase::kNewPrice));
  Await([&] { return OrExit(warehouse.ProcessesThatShow(shop::kNewPrice)) == shop::kFleet; });
  std::printf("process 2 makes it %lld, and all processes show that\n", static_cast<long long>(shop::kNewPrice));
  std::fflush(stdout);
}

// The third process is killed while it sells. It is started again, and its buyers ask again.
void Sell(FleetPlan plan, Warehouse& warehouse, std::vector<Process>& fleet) {
  OrExit(warehouse.Begin(Phase::kSale));
  plan.number = shop::kFleet;
  if (fleet.back().Await().signal != SIGKILL) OrExit(absl::InternalError("process 3 should have been killed"));
  std::printf("process 3 is killed after %d answers, and started again\n", shop::kToldBeforeTheKill);
  std::fflush(stdout);
  fleet.back() = Start(plan);
  for (Process& process : fleet) {
    if (process.Await().exit_status != 0) OrExit(absl::InternalError("a process of the fleet failed"));
  }
}

// Compares what the database says with the answers that the buyers got. True: all is well.
bool Audit(FleetPlan plan, Warehouse& warehouse) {
  const std::unique_ptr<stockade::Inventory> stock = shop::ConnectStock(plan);
  int64_t told_and_missing = 0;
  std::string each;
  for (plan.number = 1; plan.number <= shop::kFleet; ++plan.number) {
    std::set<std::string> orders;
    std::ifstream told(plan.told());
    for (std::string order; std::getline(told, order);) orders.insert(order);
    for (const std::string& order : orders) {
      const auto state = stock->StateOf(OrExit(stockade::ParseOrderId(order)));
      told_and_missing += !state.ok() || *state != stockade::OrderState::kSold;
    }
    absl::StrAppend(&each, each.empty() ? "" : ", ", "~", orders.size(), " by process ", plan.number);
  }
  const int64_t stocked = shop::kBoxes * shop::kPairsInABox;
  const int64_t sold = OrExit(warehouse.Number("SELECT SUM(quantity) FROM shop_orders WHERE state = 1"));
  const int64_t buyers = OrExit(warehouse.Number("SELECT COUNT(DISTINCT buyer) FROM shop_orders WHERE state = 1"));
  std::printf("sold: %s\n", each.c_str());
  std::printf("audit: delivered %lld, sold %lld, to %lld buyers; acknowledged and not there: %lld\n",
              static_cast<long long>(stocked), static_cast<long long>(sold), static_cast<long long>(buyers),
              static_cast<long long>(told_and_missing));
  return sold == stocked && buyers == sold && told_and_missing == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 10) {
    shop::RunFleetProcess(PlanOf(argv));
    return 0;
  }
  if (argc > 2) {
    std::fprintf(stderr, "usage: step9 [LOCKS]\n");
    return 2;
  }

  const TempDirectory directory = OrExit(TempDirectory::Create("shop"));
  const auto redis = examples::OwnRedis::Start();
  const auto database = examples::OwnMariaDb::Start();
  for (const absl::Status& started : {redis.status(), database.status()}) {
    if (started.ok()) continue;
    std::fprintf(stderr, "step9 needs redis-server and MariaDB: %s\n", std::string(started.message()).c_str());
    return 2;
  }
  Await([&] { return OrExit((*database)->Answers()); });
  const FleetPlan plan = {.locks = argc > 1 ? argv[1] : (*redis)->url(),
                          .lock_name = absl::StrCat("delivery:", directory.path()),
                          .redis = (*redis)->url(),
                          .ledger = (*database)->url(),
                          .socket = (*database)->socket(),
                          .directory = directory.path()};
  const std::unique_ptr<Warehouse> warehouse = OrExit(Warehouse::Open(plan.socket));

  std::vector<Process> fleet = BookTheDelivery(plan, *warehouse);
  ShowPrices(*warehouse);
  Sell(plan, *warehouse, fleet);
  return Audit(plan, *warehouse) ? 0 : 1;
}

#include "cache/schedules/explorer.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstring>
#include <functional>
#include <iostream>
#include <string_view>

#include "cache/schedules/checker.h"
#include "cache/schedules/choice.h"
#include "cache/schedules/fleet_workload.h"
#include "cache/schedules/plan.h"
#include "cache/schedules/workload.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {
namespace {

constinit std::atomic<uint64_t> running_seed{0};

// The library crashed: only what may be called in a signal's handler.
void TellSeed(int signal) {
  char text[] = "STOCKADE_SCHEDULE_SEED=00000000000000000000\n";
  char* const number = std::strchr(text, '=') + 1;
  char* const end = std::to_chars(number, number + 20, running_seed.load(std::memory_order_relaxed)).ptr;
  *end = '\n';
  if (write(STDERR_FILENO, text, static_cast<size_t>(end + 1 - text)) < 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

// A sanitizer's handlers stay.
Explorer::Explorer() {
  for (const int signal : {SIGSEGV, SIGABRT}) {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(signal, TellSeed);
  }
}

std::string Explorer::Explore(uint64_t seed) {
  running_seed.store(seed, std::memory_order_relaxed);
  const Plan plan(seed);
  Choice choice(seed);
  Workload workload(plan, seed, &scheduler_);
  const auto report = [&](std::string_view what) {
    return base_internal::Concat(what, "\nSTOCKADE_SCHEDULE_SEED=", seed, ": ", plan.Text(), "\n", Trace());
  };
  const auto bodies = workload.Bodies();
  scheduler_.Run(
      bodies, choice, [&] { workload.CheckStep(); }, [&](const char* why) { base_internal::Fatal(report(why)); });
  if (workload.wrong().empty()) workload.CheckEnd();
  if (!workload.wrong().empty()) return report(workload.wrong());
  FindCircles(workload.history());
  const std::string wrong = CheckHistory(plan.rules, workload.history(), plan.keys);
  return wrong.empty() ? wrong : report(wrong);
}

std::string Explorer::ExploreFleet(uint64_t seed) {
  running_seed.store(seed, std::memory_order_relaxed);
  scheduler_.Reset();
  const FleetPlan plan(seed);
  Choice choice(seed);
  FleetWorkload workload(plan, seed, &scheduler_);
  const auto report = [&](std::string_view what) {
    return base_internal::Concat(what, "\nSTOCKADE_SCHEDULE_SEED=", seed, ": ", plan.Text(), "\n", Trace());
  };
  const std::function<void(const char*)> stuck = [&](const char* why) {
    std::cerr << report(why);  // A log line is cut.
    base_internal::Fatal(why);
  };
  const std::function<void()> at_each_step = [] {};
  const auto bodies = workload.Bodies();
  scheduler_.Run(bodies, choice, at_each_step, stuck);
  const auto settling = workload.SettlingBodies();
  if (workload.wrong().empty()) scheduler_.Continue(settling);
  if (workload.wrong().empty()) workload.CheckEnd();
  if (!workload.wrong().empty()) return report(workload.wrong());
  const std::string wrong = CheckFleet({plan.max_staleness, plan.rules.stale_if_error > 0}, workload.history());
  return wrong.empty() ? wrong : report(wrong);
}

}  // namespace stockade::testing

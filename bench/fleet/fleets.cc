#include "fleet/fleets.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

using Processes = std::vector<std::unique_ptr<PeerProcess>>;

// Asks all at once.
std::vector<std::string> AskAll(const Processes& processes, const std::string& request) {
  std::vector<std::string> answers(processes.size());
  std::vector<std::jthread> askers;
  for (size_t i = 0; i < processes.size(); ++i) {
    askers.emplace_back([&, i] { answers[i] = Require(processes[i]->Ask(request, kPatience), "a process"); });
  }
  askers.clear();
  return answers;
}

double Milliseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e6; }

}  // namespace

std::vector<std::unique_ptr<PeerProcess>> StartFleet(const FleetCommand& command, size_t processes) {
  Processes started;
  for (size_t i = 0; i < processes; ++i) started.push_back(Require(PeerProcess::Start(command), "a process"));
  return started;
}

int64_t SteadyNow() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

ColdFleet::ColdFleet(const FleetCommand& command, const std::string& url)
    : processes_(StartFleet(command, kFleetProcesses)) {
  if (!url.empty()) meter_ = std::make_unique<ServerMeter>(url);
  Run(0);  // Each has its connections now.
}

Figures ColdFleet::Run(int64_t load_ms) {
  if (meter_ != nullptr) meter_->Restart();
  const std::vector<std::string> answers = AskAll(processes_, base_internal::Concat(++key_, " ", load_ms));
  const double server_ms = meter_ != nullptr ? meter_->Since().processor_us / 1e3 : 0;
  int64_t loads = 0;
  int64_t load_end = 0;
  int64_t answered = 0;
  for (const std::string& answer : answers) {
    long long its_loads = 0;
    long long its_end = 0;
    long long its_answered = 0;
    if (std::sscanf(answer.c_str(), "%lld %lld %lld", &its_loads, &its_end, &its_answered) != 3) {
      base_internal::Fatal("bench: a process answered " + answer);
    }
    loads += its_loads;
    load_end = std::max<int64_t>(load_end, its_end);
    answered = std::max<int64_t>(answered, its_answered);
  }
  return {{"loads", static_cast<double>(loads)}, {"last", Milliseconds(answered - load_end)}, {"server", server_ms}};
}

WatchingFleet::WatchingFleet(const FleetCommand& command, const std::string& url,
                             std::function<void(uint64_t key)> invalidate)
    : meter_(url), invalidate_(std::move(invalidate)), processes_(StartFleet(command, kFleetProcesses)) {
  Run(3);
}

Figures WatchingFleet::Run(int64_t invalidations) {
  std::vector<double> times;
  meter_.Restart();
  for (int64_t i = 0; i < invalidations; ++i) {
    const std::string request = std::to_string(++key_);
    for (const auto& process : processes_) Require(process->Ask(request, kPatience), "a process");
    const int64_t begun = SteadyNow();
    invalidate_(key_);
    int64_t last = 0;
    for (const auto& process : processes_) {
      const std::string removed = Require(process->ReadLine(kPatience), "a process");
      last = std::max<int64_t>(last, std::atoll(removed.c_str()));
    }
    times.push_back(Milliseconds(last - begun));
  }
  const double server_us = meter_.Since().processor_us / static_cast<double>(invalidations);
  std::sort(times.begin(), times.end());
  return {{"last", times[(times.size() * 99 + 99) / 100 - 1]}, {"server", server_us}};
}

Figures ManyKeysFleet::Run() {
  std::vector<std::jthread> spinning;
  for (size_t i = 0; i < kSpinning; ++i) {
    spinning.emplace_back([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
      }
    });
  }
  const int64_t begun = SteadyNow();
  int64_t loads = 0;
  int64_t ended = begun;
  for (const std::string& answer : AskAll(processes_, std::to_string(first_))) {
    long long its_loads = 0;
    long long its_end = 0;
    if (std::sscanf(answer.c_str(), "%lld %lld", &its_loads, &its_end) != 2) {
      base_internal::Fatal("bench: a process answered " + answer);
    }
    loads += its_loads;
    ended = std::max<int64_t>(ended, its_end);
  }
  first_ += count_;
  return {{"loads", static_cast<double>(loads)}, {"time", Milliseconds(ended - begun)}};
}

TakeOverFleet::TakeOverFleet(FleetCommand command, const std::string& url, int64_t lease_ms)
    : command_(std::move(command)),
      lease_ms_(static_cast<double>(lease_ms)),
      meter_(url),
      processes_(StartFleet(command_, kFleetProcesses - 1)) {
  AskAll(processes_, base_internal::Concat(++key_, " 0"));  // Each has its connections now.
}

std::unique_ptr<PeerProcess> TakeOverFleet::StartOne() const {
  return Require(PeerProcess::Start(command_), "a process");
}

Figures TakeOverFleet::Run() {
  const std::unique_ptr<PeerProcess> loader = StartOne();
  Require(loader->Ask(base_internal::Concat(++key_, " 0"), kPatience), "a process");
  absl::SleepFor(absl::Milliseconds(lease_ms_ / 20));  // It has all its connections now.
  Require(loader->Ask(base_internal::Concat(++key_, " 1"), kPatience), "a process");
  std::vector<std::string> answers;
  std::jthread waiters([&] { answers = AskAll(processes_, base_internal::Concat(key_, " 0")); });
  absl::SleepFor(absl::Milliseconds(lease_ms_ / 20));  // All wait now, unless the machine is busy.
  meter_.Restart();
  const int64_t killed = SteadyNow();
  kill(loader->pid(), SIGKILL);
  waiters.join();
  int64_t taken_over = 0;
  for (const std::string& answer : answers) {
    const int64_t begun = std::atoll(answer.c_str());
    if (begun != 0 && (taken_over == 0 || begun < taken_over)) taken_over = begun;
  }
  const double time = Milliseconds(taken_over - killed);
  return {{"time", time}, {"leases", time / lease_ms_}, {"server", meter_.Since().processor_us / 1e3}};
}

CutProcess::CutProcess(const FleetCommand& command, const std::string& url, uint64_t count, Change change)
    : count_(count),
      change_(std::move(change)),
      meter_(url),
      process_(Require(PeerProcess::Start(command), "a process")) {
  Require(process_->Ask(std::to_string(value_), kPatience), "a process");
}

Figures CutProcess::Run() {
  // It is stopped, so that it cannot connect again before the keys have changed.
  kill(process_->pid(), SIGSTOP);
  const RedisReply clients = Require(meter_.client().Run(RedisCommand("CLIENT").Arg("LIST")), "CLIENT LIST");
  std::string_view lines = clients.text();
  size_t cut = 0;
  for (size_t at = 0; (at = lines.find(" name=reader ")) != std::string_view::npos; lines.remove_prefix(at + 1)) {
    const size_t line = lines.rfind("id=", at);
    const std::string id(lines.substr(line + 3, lines.find(' ', line) - line - 3));
    Require(meter_.client().Run(RedisCommand("CLIENT").Arg("KILL").Arg("ID").Arg(id)).status(), "CLIENT KILL");
    ++cut;
  }
  if (cut == 0) base_internal::Fatal("bench: the process has no connection");
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; key < count_; key += count_ / 10) keys.push_back(key);
  change_(meter_, keys, ++value_);
  meter_.Restart();
  const int64_t begun = SteadyNow();
  kill(process_->pid(), SIGCONT);
  Require(process_->Ask(std::to_string(value_), kPatience), "a process");
  const double time = Milliseconds(SteadyNow() - begun);
  const ServerMeter::Reading load = meter_.Since();
  return {{"commands", load.commands}, {"time", time}, {"server", load.processor_us / 1e3}};
}

}  // namespace stockade::bench

#include "support/fault_driver.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;
using ::stockade::base_internal::Fatal;

namespace {

constexpr char kGiven[] = "STOCKADE_TEST_FAULTS";

}  // namespace

std::string ToText(std::span<const Fault> schedule) {
  std::string text;
  for (const Fault& fault : schedule) {
    text += Concat(text.empty() ? "" : "; ", fault.after, " ", fault.kind);
    for (const int64_t number : fault.numbers) text += Concat(" ", number);
  }
  return text;
}

std::vector<Fault> ParseFaults(const std::string& text) {
  std::vector<Fault> schedule;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ';', absl::SkipWhitespace()))) {
    const std::vector<std::string> words = absl::StrSplit(part, ' ', absl::SkipEmpty());
    Fault fault;
    bool good = words.size() >= 2 && absl::SimpleAtoi(words[0], &fault.after);
    for (size_t i = 2; good && i < words.size(); ++i) good = absl::SimpleAtoi(words[i], &fault.numbers.emplace_back());
    if (!good) Fatal(Concat("no fault: '", part, "'"));
    fault.kind = words[1];
    schedule.push_back(std::move(fault));
  }
  return schedule;
}

bool FaultsAreGiven() { return std::getenv(kGiven) != nullptr; }

std::vector<Fault> FaultsToRun(std::vector<Fault> faults, uint64_t seed) {
  if (FaultsAreGiven()) faults = ParseFaults(std::getenv(kGiven));
  // At once: what follows may crash or hang.
  std::cout << "to repeat: STOCKADE_TEST_SEED=" << seed << " STOCKADE_TEST_FAULTS='" << ToText(faults) << "'"
            << std::endl;
  return faults;
}

std::vector<Fault> FaultDriver::Draw(uint64_t seed, int64_t faults, int64_t longest_pause) const {
  // Not by a distribution of the library, whose numbers differ from library to library.
  std::mt19937_64 random(seed);
  const auto below = [&random](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(limit, 1)));
  };
  int64_t weights = 0;
  for (const Kind& kind : kinds_) weights += kind.weight;
  std::vector<Fault> schedule;
  while (std::cmp_less(schedule.size(), faults)) {
    Fault fault = {.after = below(longest_pause)};
    int64_t chosen = below(weights);
    auto kind = kinds_.begin();
    for (; chosen >= kind->weight; ++kind) chosen -= kind->weight;
    fault.kind = kind->name;
    for (const int64_t limit : kind->limits) fault.numbers.push_back(below(limit));
    schedule.push_back(std::move(fault));
  }
  return schedule;
}

void FaultDriver::Make(const Fault& fault) const {
  const auto kind = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& one) { return one.name == fault.kind; });
  bool good = kind != kinds_.end() && kind->limits.size() == fault.numbers.size();
  for (size_t i = 0; good && i < fault.numbers.size(); ++i) {
    good = fault.numbers[i] >= 0 && fault.numbers[i] < kind->limits[i];
  }
  if (!good) Fatal(Concat("this test makes no fault '", ToText({&fault, 1}), "'"));
  pass_(fault.after);
  kind->make(fault.numbers);
}

FaultDriver::Kinds ProxyFaults(const std::vector<TcpProxy*>& proxies, const FaultDriver::Pass& pass, int64_t longest) {
  const auto of = [&proxies](auto action) {
    return [&proxies, action](std::span<const int64_t> numbers) {
      action(*proxies.at(static_cast<size_t>(numbers[0])), numbers.size() > 1 ? numbers[1] : 0);
    };
  };
  const auto count = static_cast<int64_t>(proxies.size());
  return {
      {"cut-reply",
       {count, 60},
       of([](TcpProxy& proxy, int64_t bytes) { proxy.CutReplyAfter(static_cast<uint64_t>(bytes)); }),
       3},
      {"close", {count}, of([](TcpProxy& proxy, int64_t) { proxy.CloseAll(); })},
      {"hold", {count, longest}, of([pass](TcpProxy& proxy, int64_t time) {
         proxy.Hold();
         pass(time);
         proxy.Release();
       })},
      {"hold-and-close", {count, longest}, of([pass](TcpProxy& proxy, int64_t time) {
         proxy.Hold();
         pass(time);
         proxy.CloseAll();
         proxy.Release();
       })},
      {"freeze", {count, longest}, of([pass](TcpProxy& proxy, int64_t time) {
         proxy.Freeze();
         pass(time);
         proxy.Thaw();
       })},
      {"refuse", {count, longest}, of([pass](TcpProxy& proxy, int64_t time) {
         proxy.Refuse();
         proxy.CloseAll();
         pass(time);
         proxy.Accept();
       })},
  };
}

FaultDriver::Kinds NetworkFaults(Network& network, int servers, const FaultDriver::Pass& pass, int64_t longest) {
  const int hosts = network.size();
  const auto after = [hosts](int64_t server, int64_t n) { return static_cast<int>((server + 1 + n) % hosts); };
  const auto cut = [&network, after](std::span<const int64_t> numbers) {
    const auto server = static_cast<int>(numbers[0]);
    const int host = after(server, numbers[1]);
    if (numbers[2] != 1) network.Cut(server, host);
    if (numbers[2] != 0) network.Cut(host, server);
  };
  const auto reset = [&network, after](std::span<const int64_t> numbers) {
    network.Reset(static_cast<int>(numbers[0]), after(numbers[0], numbers[1]));
  };
  const auto split = [&network](std::span<const int64_t> numbers) {
    network.Split(static_cast<uint64_t>(numbers[0]) + 1);
  };
  const auto cut_off = [&network, servers, pass](std::span<const int64_t> numbers) {
    network.Split(uint64_t{1} << (servers + numbers[0]));
    pass(numbers[1]);
    network.Heal();
  };
  return {
      {"cut", {servers, hosts - 1, 3}, cut, 2},
      {"reset", {servers, hosts - 1}, reset},
      {"split", {(int64_t{1} << hosts) - 2}, split},
      {"cut-off", {hosts - servers, longest}, cut_off},
      {"heal", {}, [&network](std::span<const int64_t>) { network.Heal(); }, 3},
  };
}

}  // namespace stockade::testing

#include "harness/suite.h"

#include <memory>

#include "harness/reporter.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

// The pair that runs. There is one for a program, because what a pair works on can be large.
struct Current {
  const Suite::Entry* entry = nullptr;
  Contestants contestants;
  bool is_warm[2] = {};
};

// Thread 0 prepares the pair, and all threads run one repetition.
void RunOnce(benchmark::State& state, const Suite::Entry& entry, bool is_ours, const Scale& scale, Crew& crew,
             Current& current) {
  const Comparison& row = entry.rows[0];
  Worker worker(crew, static_cast<size_t>(state.thread_index()));
  worker.Once([&] {
    if (current.entry == &entry) return;
    current = {};
    current = {&entry, entry.pair.prepare(scale)};
  });
  const Measurement& measure = is_ours ? current.contestants.ours : current.contestants.peer;
  if (!current.is_warm[is_ours]) measure(worker);
  for (auto _ : state) {
    const Figures figures = measure(worker);
    if (worker.thread() > 0) continue;
    current.is_warm[is_ours] = true;
    for (const auto& [name, figure] : figures) state.counters[name.empty() ? row.unit : name] = figure;
    // The time is the figure, or its inverse if higher is better, so that compare.py judges each row correctly. Google
    // Benchmark divides it by the number of threads, and then by the iterations of all threads.
    const double figure = figures.at(row.counter);
    const auto divisor = static_cast<double>(worker.threads() * worker.threads());
    state.SetIterationTime(1e-9 * divisor * (row.better == Better::kLower ? figure : 1 / figure));
  }
}

}  // namespace

void Suite::AddRows(std::vector<Comparison> rows, Pair pair) {
  for (const Comparison& row : rows) {
    MakeRow(row, 1, 1);  // Aborts if the target is malformed.
    if (names_.insert(NameOf(row, true)).second) continue;
    base_internal::Fatal(base_internal::Concat("bench row '", row.name, "' against '", row.peer, "' is defined twice"));
  }
  entries_.push_back({std::move(rows), std::move(pair)});
}

void Suite::LeaveOut(std::string_view rows, std::string_view why) {
  left_out_ += base_internal::Concat("left out: ", rows, ": ", why, "\n");
}

void Suite::Filter(std::string_view text) {
  for (Entry& entry : entries_) {
    std::erase_if(entry.rows, [&](const Comparison& row) {
      return row.name.find(text) == std::string::npos && row.peer.find(text) == std::string::npos;
    });
  }
  std::erase_if(entries_, [](const Entry& entry) { return entry.rows.empty(); });
}

// Google Benchmark runs all repetitions of a benchmark one after another, or mixes those of all benchmarks. A benchmark
// of its own for each repetition makes a pair take turns.
void Register(const Suite& suite, const Scale& scale) {
  const auto current = std::make_shared<Current>();
  for (const Suite::Entry& entry : suite.entries()) {
    for (int turn = 0; turn < 2 * kRepetitions; ++turn) {
      const bool is_ours = turn % 2 == 0;
      const auto crew = std::make_shared<Crew>(is_ours ? entry.pair.threads : entry.pair.peer_threads);
      const auto run = [=, &entry](benchmark::State& state) { RunOnce(state, entry, is_ours, scale, *crew, *current); };
      benchmark::RegisterBenchmark(NameOf(entry.rows[0], is_ours).c_str(), run)
          ->Threads(static_cast<int>(crew->runs.size()))
          ->Iterations(1)
          ->UseManualTime();
    }
  }
}

}  // namespace stockade::bench

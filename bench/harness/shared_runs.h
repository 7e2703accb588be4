#ifndef STOCKADE_BENCH_HARNESS_SHARED_RUNS_H_
#define STOCKADE_BENCH_HARNESS_SHARED_RUNS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/suite.h"

namespace stockade::bench {

// Rows that read different figures off the same repetitions, which take as long as those of one row, and fit together:
// a higher percentile is never below a lower one.
template <typename Result>
class SharedRuns : public std::enable_shared_from_this<SharedRuns<Result>> {
 public:
  // What a repetition of either side does.
  struct Sides {
    std::function<Result()> ours;
    std::function<Result()> peer;
  };
  using Prepare = std::function<Sides(const Scale& scale)>;
  using Read = std::function<double(const Result& result)>;

  static std::shared_ptr<SharedRuns> Of(Prepare prepare) {
    return std::shared_ptr<SharedRuns>(new SharedRuns(std::move(prepare)));
  }

  void AddRow(Suite& suite, std::string name, std::string unit, std::string peer, Read read) {
    AddRow(suite, {.name = std::move(name), .unit = std::move(unit), .peer = std::move(peer)}, std::move(read));
  }

  // `row` without its `prepare`.
  void AddRow(Suite& suite, Comparison row, Read read) {
    row.prepare = [self = this->shared_from_this(), read = std::move(read)](const Scale& scale) -> Contestants {
      if (self->ours_.empty()) self->sides_ = self->prepare_(scale);
      return {Reading(self, &Sides::ours, &SharedRuns::ours_, read),
              Reading(self, &Sides::peer, &SharedRuns::peers_, read)};
    };
    suite.Add(std::move(row));
  }

 private:
  using Results = std::vector<Result>;

  explicit SharedRuns(Prepare prepare) : prepare_(std::move(prepare)) {}

  // The first row's repetitions are those of all.
  static Measurement Reading(const std::shared_ptr<SharedRuns>& self, std::function<Result()> Sides::*run,
                             Results SharedRuns::*results, const Read& read) {
    return [=, repetition = size_t{0}]() mutable {
      Results& done = self.get()->*results;
      if (done.size() == repetition) done.push_back((self->sides_.*run)());
      if (self->ours_.size() > kRepetitions && self->peers_.size() > kRepetitions) self->sides_ = {};
      return read(done[repetition++]);
    };
  }

  const Prepare prepare_;
  Sides sides_;  // Empty but while the first row runs: what they work on can be large.
  Results ours_;
  Results peers_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_SHARED_RUNS_H_

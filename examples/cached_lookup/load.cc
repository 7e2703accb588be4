#include "load.h"

#include <algorithm>
#include <barrier>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"

namespace cached_lookup {
namespace {

// What all threads have seen together.
class Tally {
 public:
  // One lookup.
  void Measure(const Lookup& lookup, int id, int least_price) {
    stockade::Clock* const clock = stockade::Clock::System();
    const stockade::Instant begun = clock->Now();
    const absl::StatusOr<Product> found = lookup(id);
    const absl::Duration took = clock->Now() - begun;
    const bool good = found.ok() ? found->price >= least_price : absl::IsNotFound(found.status());
    const std::lock_guard lock(mutex_);
    row_.slowest = std::max(row_.slowest, took);
    if (!good) ++row_.errors;
  }
  Row row() const { return row_; }

 private:
  std::mutex mutex_;
  Row row_;  // Guarded by mutex_.
};

// Until what was queued before has run: there is one thread.
void AwaitBackground(Setting& setting) {
  std::latch done(1);
  setting.background.Schedule([&] { done.count_down(); });
  done.wait();
}

}  // namespace

Row AskForOne(Setting& setting, const Lookup& lookup, int id, int down_from, int down_until) {
  const int64_t before = setting.db.queries();
  Tally tally;
  int round = 0;
  const auto between_rounds = [&]() noexcept {
    AwaitBackground(setting);
    setting.clock.Advance(kTtl / kRoundsPerTtl);
    setting.db.set_down(round >= down_from && round < down_until);
    ++round;
  };
  std::barrier line_up(kThreads, between_rounds);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < kLifetimes * kRoundsPerTtl; ++i) {
          line_up.arrive_and_wait();
          for (int n = 0; n < kLookups; ++n) tally.Measure(lookup, id, 0);
        }
      });
    }
  }
  AwaitBackground(setting);
  Row row = tally.row();
  row.queries = setting.db.queries() - before;
  return row;
}

Row AskForEach(Setting& setting, const Lookup& lookup, const std::vector<int>& ids, int least_price) {
  const int64_t before = setting.db.queries();
  Tally tally;
  std::latch line_up(kThreads);
  {
    std::vector<std::jthread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        line_up.arrive_and_wait();
        for (const int id : ids) tally.Measure(lookup, id, least_price);
      });
    }
  }
  Row row = tally.row();
  row.queries = setting.db.queries() - before;
  return row;
}

Row Named(std::string step, std::string what, Row row) {
  row.step = std::move(step);
  row.what = std::move(what);
  return row;
}

}  // namespace cached_lookup

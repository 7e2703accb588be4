#ifndef STOCKADE_EXAMPLES_CACHED_LOOKUP_LOAD_H_
#define STOCKADE_EXAMPLES_CACHED_LOOKUP_LOAD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "database.h"
#include "product.h"
#include "stockade/base/executor.h"
#include "stockade/base/manual_clock.h"

namespace cached_lookup {

// A line of the table.
struct Row {
  std::string step;
  std::string what;
  int64_t queries = 0;
  absl::Duration slowest = {};
  int64_t errors = 0;  // That callers saw; an old price is one. "No such product" is not.
};

// What a step runs on. The clock is moved by hand, so that ten times to live pass in no time; a service has neither
// `clock` nor `background` in its options.
struct Setting {
  Database db;
  stockade::ManualClock clock;
  stockade::ThreadPool background{1};
};

using Lookup = std::function<absl::StatusOr<Product>(int id)>;

inline constexpr int kThreads = 8;
inline constexpr int kLookups = 3;          // Of each thread in each round.
inline constexpr int kRoundsPerTtl = 4;     // The clock goes on by a quarter of the TTL before each round.
inline constexpr int kLifetimes = 10;       // TTLs in a run.
inline constexpr int kNobodys = 1'000'000;  // An id that does not exist.

// All threads look `id` up at the same time, in each round of kLifetimes TTLs. The database is down for the rounds from
// `down_from` to before `down_until`.
Row AskForOne(Setting& setting, const Lookup& lookup, int id, int down_from = 0, int down_until = 0);

// All threads look each of `ids` up once; what costs less than `least_price` is an error.
Row AskForEach(Setting& setting, const Lookup& lookup, const std::vector<int>& ids, int least_price);

// `row` with its first two columns.
Row Named(std::string step, std::string what, Row row);

}  // namespace cached_lookup

#endif  // STOCKADE_EXAMPLES_CACHED_LOOKUP_LOAD_H_

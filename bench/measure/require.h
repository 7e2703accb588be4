#ifndef STOCKADE_BENCH_MEASURE_REQUIRE_H_
#define STOCKADE_BENCH_MEASURE_REQUIRE_H_

#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {

// Aborts with the status and `what`, unless the status is OK.
inline void Require(const absl::Status& status, std::string_view what) {
  if (!status.ok()) base_internal::Fatal(base_internal::Concat("bench: ", what, ": ", status.ToString()));
}

template <typename T>
T Require(absl::StatusOr<T> result, std::string_view what) {
  Require(result.status(), what);
  return *std::move(result);
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_MEASURE_REQUIRE_H_

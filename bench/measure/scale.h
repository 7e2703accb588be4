#ifndef STOCKADE_BENCH_MEASURE_SCALE_H_
#define STOCKADE_BENCH_MEASURE_SCALE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace stockade::bench {

// How much one repetition does.
struct Scale {
  bool quick = false;                            // A smoke test: its figures mean nothing.
  absl::Duration span = absl::Milliseconds(80);  // Of a timed run.

  int64_t Sized(int64_t quick_size, int64_t full_size) const { return quick ? quick_size : full_size; }
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_MEASURE_SCALE_H_

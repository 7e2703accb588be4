#include "harness/stats.h"

#include <algorithm>

#include "stockade/base/log.h"

namespace stockade::bench {

double Median(std::vector<double> values) {
  if (values.empty()) base_internal::Fatal("Median: no values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

}  // namespace stockade::bench

#ifndef STOCKADE_TESTS_SUPPORT_EXPORTED_H_
#define STOCKADE_TESTS_SUPPORT_EXPORTED_H_

#include <prometheus/text_serializer.h>

#include <cstdlib>
#include <string>

#include "stockade/metrics/metrics_registry.h"

namespace stockade::testing {

// The value of the sample whose name and labels are `series` as exported; -1 where there is none.
inline double Exported(const MetricsRegistry& registry, const std::string& series) {
  const std::string text = "\n" + prometheus::TextSerializer().Serialize(registry.Collect());
  const size_t at = text.find("\n" + series + " ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + series.size() + 2);
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_EXPORTED_H_

#ifndef STOCKADE_EXAMPLES_COMMON_OR_THROW_H_
#define STOCKADE_EXAMPLES_COMMON_OR_THROW_H_

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace examples {

// For programs that end at the first error: main() catches std::runtime_error.
inline void OrThrow(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

template <typename T>
T OrThrow(absl::StatusOr<T> value) {
  OrThrow(value.status());
  return *std::move(value);
}

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_OR_THROW_H_

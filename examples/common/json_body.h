#ifndef STOCKADE_EXAMPLES_COMMON_JSON_BODY_H_
#define STOCKADE_EXAMPLES_COMMON_JSON_BODY_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace examples {

// The body of a request: an object whose fields are all plain values, each there once. InvalidArgument says what is
// wrong with it.
absl::Status ParsePlainObject(const std::string& body, nlohmann::json& object);

// The field's value. InvalidArgument: it is no whole number from `least` to `most`.
absl::StatusOr<uint64_t> WholeNumber(const nlohmann::json& value, const char* field, uint64_t least, uint64_t most);

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_JSON_BODY_H_

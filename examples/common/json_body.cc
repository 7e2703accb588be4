#include "common/json_body.h"

#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"

namespace examples {
namespace {

using nlohmann::json;

// Of the object itself 1: none of its values has anything inside.
constexpr int kMostDepth = 1;

}  // namespace

absl::StatusOr<uint64_t> WholeNumber(const json& value, const char* field, uint64_t least, uint64_t most) {
  // Unsigned is what the parser makes of all that have no minus, no fraction and no exponent, and are not too large.
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least || value.get<uint64_t>() > most) {
    return absl::InvalidArgumentError(absl::StrCat(field, " is not a whole number from ", least, " to ", most));
  }
  return value.get<uint64_t>();
}

absl::Status ParsePlainObject(const std::string& body, json& object) {
  // RFC 8259: a sender must not add one. The parser skips it, another reader of the same body may not.
  if (body.starts_with("\xef\xbb\xbf")) return absl::InvalidArgumentError("the body begins with a byte order mark");
  // The parser takes a NUL for the end of the text, and would ignore what follows.
  if (body.find('\0') != std::string::npos) return absl::InvalidArgumentError("the body has a NUL byte");
  bool too_deep = false;
  bool twice = false;  // The parser would keep the last; another reader of the same body may keep the first.
  std::set<std::string> fields;
  const auto plain = [&](int depth, json::parse_event_t event, json& parsed) {
    const bool opens = event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    if (opens && depth >= kMostDepth) too_deep = true;
    if (event == json::parse_event_t::key && !fields.insert(parsed.get<std::string>()).second) twice = true;
    return !too_deep;
  };
  object = json::parse(body, plain, /*allow_exceptions=*/false);
  if (too_deep) return absl::InvalidArgumentError("a field of the body is an object or an array");
  if (object.is_discarded()) return absl::InvalidArgumentError("the body is not JSON");
  if (!object.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  if (twice) return absl::InvalidArgumentError("the body has a field twice");
  return absl::OkStatus();
}

}  // namespace examples

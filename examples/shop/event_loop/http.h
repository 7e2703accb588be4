#ifndef STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_HTTP_H_
#define STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_HTTP_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace shop {

// As much of HTTP/1.1 as the example needs: requests without bodies. README.md says what it takes and what not.
struct Request {
  static constexpr size_t kMostHeadBytes = 8192;

  std::string method = {};
  std::string path = {};
  std::map<std::string, std::string, std::less<>> query = {};
  std::string trace_id = {};  // 32 digits: that of the header `traceparent` (W3C Trace Context), or a new one.
  bool keep_alive = true;

  // Empty if there is none.
  std::string_view Get(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body = {};  // A line.
};

// Takes the first request off the front of `received`. Nothing: it is not complete. InvalidArgument: what is there is
// no request, or one that the example does not take; nothing after it can be understood.
absl::StatusOr<std::optional<Request>> TakeRequest(std::string& received);

std::string Format(const Response& response, const Request& request);

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_EVENT_LOOP_HTTP_H_

#ifndef STOCKADE_EXAMPLES_COMMON_HTTP_API_H_
#define STOCKADE_EXAMPLES_COMMON_HTTP_API_H_

#include <httplib.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace examples {

// An error, as a client gets it: {"error": {"code": ..., "message": ...}}.
struct ApiError {
  int status = 500;
  const char* code = "internal";
  std::string message = {};
  const char* allow = nullptr;  // The header, of 405.
};

// The error of a request that is not for this machine, or that a page of another origin may have made in a browser on
// this machine.
std::optional<ApiError> RefusalOfOrigin(const httplib::Request& head);

// GET or HEAD.
bool IsReading(const httplib::Request& head);
bool MayHaveBody(const httplib::Request& head);
// The error of a request that is not IsReading(), or that has a body.
std::optional<ApiError> RefusalUnlessReading(const httplib::Request& head);
// The error of a request whose body has no length, is too large or is not JSON, by its head.
std::optional<ApiError> RefusalOfBody(const httplib::Request& head);

// The error of a request that httplib itself refuses with this status.
ApiError ErrorOfStatus(int status);

void SendJson(int status, const nlohmann::json& body, httplib::Response& response);
void SendError(const ApiError& error, httplib::Response& response);
// A page whose style and scripts are in it. It can make requests to this server alone.
void SendPage(const char* page, httplib::Response& response);
// The headers of every answer.
void SendNoStore(httplib::Response& response);

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_HTTP_API_H_

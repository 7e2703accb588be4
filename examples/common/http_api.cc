#include "common/http_api.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/http_server.h"

namespace examples {
namespace {

using httplib::Request;
using httplib::Response;

constexpr char kJson[] = "application/json";

// Names of this machine that no DNS server can point elsewhere: a page of evil.example, whose name was
// resolved to 127.0.0.1, sends that name. The port may be another than ours, which may be forwarded.
bool IsLoopback(std::string_view authority) {
  for (const std::string_view name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (!absl::EqualsIgnoreCase(std::string(authority.substr(0, name.size())), std::string(name))) continue;
    const std::string_view port = authority.substr(name.size());
    return port.empty() || (port[0] == ':' && std::all_of(port.begin() + 1, port.end(), absl::ascii_isdigit));
  }
  return false;
}

bool IsJson(const std::string& content_type) {
  const std::string type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), kJson);
}

}  // namespace

std::optional<ApiError> RefusalOfOrigin(const Request& head) {
  if (head.get_header_value_count("Host") != 1) return ApiError{400, "bad_host", "exactly one Host is required"};
  const std::string host = head.get_header_value("Host");
  if (!IsLoopback(host)) return ApiError{403, "foreign_host", "this is served only to 127.0.0.1 and localhost"};
  if (head.get_header_value_count("Origin") > 1 ||
      (head.has_header("Origin") && !absl::EqualsIgnoreCase(head.get_header_value("Origin"), "http://" + host))) {
    return ApiError{403, "foreign_origin", "this is served only to its own page"};
  }
  return std::nullopt;
}

bool IsReading(const Request& head) { return head.method == "GET" || head.method == "HEAD"; }

bool MayHaveBody(const Request& head) {
  return !IsReading(head) || head.has_header("Transfer-Encoding") ||
         head.get_header_value_count("Content-Length") > 1 ||
         (head.has_header("Content-Length") && head.get_header_value("Content-Length") != "0");
}

std::optional<ApiError> RefusalUnlessReading(const Request& head) {
  if (!IsReading(head)) return ApiError{405, "method_not_allowed", "this is read-only", "GET, HEAD"};
  if (MayHaveBody(head)) return ApiError{400, "unexpected_body", "this takes no body"};
  return std::nullopt;
}

std::optional<ApiError> RefusalOfBody(const Request& head) {
  if (head.has_header("Transfer-Encoding") || !head.has_header("Content-Length")) {
    return ApiError{411, "length_required", "a Content-Length is required"};
  }
  const std::string length = head.get_header_value("Content-Length");
  size_t bytes = 0;
  const auto [rest, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (error == std::errc::result_out_of_range || (error == std::errc() && bytes > HttpServer::kMostBodyBytes)) {
    return ApiError{413, "body_too_large", "the body has more than 4096 bytes"};
  }
  if (head.get_header_value_count("Content-Length") > 1 || error != std::errc() ||
      rest != length.data() + length.size()) {
    return ApiError{400, "bad_length", "Content-Length is not a number"};
  }
  if (head.get_header_value_count("Content-Type") > 1) {
    return ApiError{400, "bad_type", "there is more than one Content-Type"};
  }
  if (head.has_header("Content-Encoding") || !IsJson(head.get_header_value("Content-Type"))) {
    return ApiError{415, "not_json", "the body must be application/json"};
  }
  return std::nullopt;
}

ApiError ErrorOfStatus(int status) {
  switch (status) {
    case 413: return {413, "body_too_large", "the body has more than 4096 bytes"};
    case 414: return {414, "path_too_long", "the request's first line is too long"};
    case 500: return {500, "internal", "internal error"};
    default: return {status, "bad_request", "the request is not HTTP that this server supports"};
  }
}

void SendJson(int status, const nlohmann::json& body, Response& response) {
  response.status = status;
  // Text that is not UTF-8, in a user's catalogue, is no reason to fail.
  response.set_content(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", kJson);
}

void SendError(const ApiError& error, Response& response) {
  if (error.allow != nullptr) response.set_header("Allow", error.allow);
  if (error.status == 503) response.set_header("Retry-After", "1");
  SendJson(error.status, {{"error", {{"code", error.code}, {"message", error.message}}}}, response);
}

void SendPage(const char* page, Response& response) {
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                      "img-src data:");
  response.set_content(page, "text/html; charset=utf-8");
}

void SendNoStore(Response& response) {
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
}

}  // namespace examples

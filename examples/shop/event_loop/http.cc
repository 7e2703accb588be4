#include "event_loop/http.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace shop {
namespace {

bool IsTokenChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool IsToken(std::string_view text) { return !text.empty() && std::ranges::all_of(text, IsTokenChar); }

// Letters, digits and marks that need no escape in a path or a query. Escapes are not taken.
bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-._~/").find(c) != std::string_view::npos;
  });
}

// `form` has an x for each hexadecimal digit.
bool HasForm(std::string_view text, std::string_view form) {
  return std::ranges::equal(text, form, [](char c, char in_form) {
    return in_form == 'x' ? (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') : c == in_form;
  });
}

std::string NewTraceId() {
  thread_local std::mt19937_64 random(std::random_device{}());
  return absl::StrFormat("%016x%016x", random(), random() | 1);
}

// Text up to `end`, which both are taken off `rest`. Nothing: there is no `end`.
std::optional<std::string_view> TakeUntil(std::string_view end, std::string_view& rest) {
  const size_t at = rest.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(at + end.size());
  return taken;
}

absl::Status Refused(std::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

absl::Status ParseTarget(std::string_view target, Request& request) {
  const size_t mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  if (!path.starts_with('/') || !IsPlain(path)) return Refused("the path is not plain");
  request.path = path;
  if (mark == std::string_view::npos) return absl::OkStatus();
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    std::string_view pair = rest;
    if (const auto taken = TakeUntil("&", rest)) {
      pair = *taken;
    } else {
      rest = {};
    }
    const auto name = TakeUntil("=", pair);
    if (!name.has_value() || !IsPlain(*name) || !IsPlain(pair)) return Refused("the query is not plain");
    if (!request.query.emplace(*name, pair).second) return Refused("a name is twice in the query");
  }
  return absl::OkStatus();
}

absl::Status ParseHeader(std::string_view line, Request& request, int& hosts) {
  const auto name = TakeUntil(":", line);
  if (!name.has_value() || !IsToken(*name)) return Refused("a line is not a header");
  const std::string lower = absl::AsciiStrToLower(std::string(*name));
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
  if (std::ranges::any_of(line,
                          [](char c) { return c != '\t' && absl::ascii_iscntrl(static_cast<unsigned char>(c)); })) {
    return Refused("a header has a control character");
  }
  if (lower == "host") ++hosts;
  // A body would be the next request.
  if (lower == "transfer-encoding" || (lower == "content-length" && line != "0"))
    return Refused("bodies are not taken");
  if (lower == "connection") {
    for (const std::string& option :
         std::vector<std::string>(absl::StrSplit(absl::AsciiStrToLower(std::string(line)), ','))) {
      if (absl::StripAsciiWhitespace(option) == "close") request.keep_alive = false;
    }
  }
  // 00-<trace id>-<parent id>-<flags>
  if (lower == "traceparent" && HasForm(line, "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx") &&
      line.substr(3, 32).find_first_not_of('0') != std::string_view::npos) {
    request.trace_id = line.substr(3, 32);
  }
  return absl::OkStatus();
}

std::string_view Reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 409: return "Conflict";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    default: return "Internal Server Error";
  }
}

}  // namespace

std::string_view Request::Get(std::string_view name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string_view() : found->second;
}

absl::StatusOr<std::optional<Request>> TakeRequest(std::string& received) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const size_t end = received.find(kEnd);
  // All of its end except the last byte may be there.
  const size_t least = end == std::string::npos ? received.size() - std::min(received.size(), kEnd.size() - 1) : end;
  if (least > Request::kMostHeadBytes) return Refused("the head is too long");
  if (end == std::string::npos) return std::nullopt;
  const std::string head = received.substr(0, end + 2);
  received.erase(0, end + 4);

  Request request;
  std::string_view rest = head;
  std::string_view line = *TakeUntil("\r\n", rest);
  const auto method = TakeUntil(" ", line);
  const auto target = TakeUntil(" ", line);
  if (!method.has_value() || !target.has_value()) return Refused("the first line is no request");
  if (*method != "GET" && *method != "POST") return Refused("the method is neither GET nor POST");
  if (line != "HTTP/1.1") return Refused("the version is not HTTP/1.1");
  request.method = *method;
  if (absl::Status parsed = ParseTarget(*target, request); !parsed.ok()) return parsed;
  int hosts = 0;
  while (const auto header = TakeUntil("\r\n", rest)) {
    if (absl::Status parsed = ParseHeader(*header, request, hosts); !parsed.ok()) return parsed;
  }
  if (hosts != 1) return Refused("there is not one header Host");
  if (request.trace_id.empty()) request.trace_id = NewTraceId();
  return request;
}

std::string Format(const Response& response, const Request& request) {
  return absl::StrCat("HTTP/1.1 ", response.status, " ", std::string(Reason(response.status)),
                      "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ", response.body.size(),
                      request.trace_id.empty() ? "" : "\r\nTrace-Id: ", request.trace_id,
                      request.keep_alive ? "" : "\r\nConnection: close", "\r\n\r\n", response.body);
}

}  // namespace shop

#include "stockade/redis/redis_reply.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr size_t kMostShown = 200;  // Characters.

absl::Status IsNot(std::string_view wanted, const RedisReply& reply) {
  return absl::FailedPreconditionError(
      base_internal::Concat("redis: the reply ", reply.ToString(), " is not ", wanted));
}

void AppendTo(std::string& out, const RedisReply& reply) {
  if (out.size() > kMostShown) return;
  const std::string_view shown = reply.text().substr(0, kMostShown);
  switch (reply.kind()) {
    case RedisReply::Kind::kNil: out += "(nil)"; return;
    case RedisReply::Kind::kInteger: out += std::to_string(reply.integer()); return;
    case RedisReply::Kind::kString:
      out += base_internal::Concat("\"", absl::CEscape(base_internal::AbslView(shown)), "\"");
      return;
    case RedisReply::Kind::kStatus: out += shown; return;
    case RedisReply::Kind::kError: out += base_internal::Concat("(error) ", shown); return;
    case RedisReply::Kind::kArray: break;
  }
  out += '[';
  bool first = true;
  for (const RedisReply& element : reply.elements()) {
    if (!first) out += ", ";
    first = false;
    AppendTo(out, element);
    if (out.size() > kMostShown) break;
  }
  out += ']';
}

}  // namespace

RedisReply RedisReply::Integer(int64_t value) {
  RedisReply reply;
  reply.kind_ = Kind::kInteger;
  reply.integer_ = value;
  return reply;
}

RedisReply RedisReply::Text(Kind kind, std::string text) {
  RedisReply reply;
  reply.kind_ = kind;
  reply.text_ = std::move(text);
  return reply;
}

RedisReply RedisReply::Array(std::vector<RedisReply> elements) {
  RedisReply reply;
  reply.kind_ = Kind::kArray;
  reply.elements_ = std::move(elements);
  return reply;
}

absl::StatusOr<int64_t> RedisReply::AsInteger() const {
  if (kind_ == Kind::kInteger) return integer_;
  int64_t value = 0;
  // SimpleAtoi bears blanks, which Redis never sends.
  if (kind_ == Kind::kString && absl::SimpleAtoi(text_, &value)) return value;
  return IsNot("an integer", *this);
}

absl::StatusOr<std::optional<std::string_view>> RedisReply::AsText() const {
  if (kind_ == Kind::kNil) return std::optional<std::string_view>();
  if (kind_ == Kind::kString || kind_ == Kind::kStatus) return std::optional<std::string_view>(text_);
  return IsNot("a string", *this);
}

absl::StatusOr<std::span<const RedisReply>> RedisReply::AsArray(std::optional<size_t> size) const {
  if (kind_ != Kind::kArray) return IsNot("an array", *this);
  if (size && elements_.size() != *size) return IsNot(base_internal::Concat("an array of ", *size), *this);
  return std::span<const RedisReply>(elements_);
}

std::string RedisReply::ToString() const {
  std::string out;
  AppendTo(out, *this);
  if (out.size() > kMostShown) {
    out.resize(kMostShown);
    out += "...";
  }
  return out;
}

std::string_view RedisReplyKindName(RedisReply::Kind kind) {
  switch (kind) {
    case RedisReply::Kind::kNil: return "nil";
    case RedisReply::Kind::kInteger: return "integer";
    case RedisReply::Kind::kString: return "string";
    case RedisReply::Kind::kStatus: return "status";
    case RedisReply::Kind::kError: return "error";
    case RedisReply::Kind::kArray: return "array";
  }
  return "unknown";
}

}  // namespace stockade

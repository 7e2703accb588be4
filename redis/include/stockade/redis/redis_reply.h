#ifndef STOCKADE_REDIS_REDIS_REPLY_H_
#define STOCKADE_REDIS_REDIS_REPLY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "stockade/base/export.h"

namespace stockade {

namespace redis_internal {
class ReplyReader;
}  // namespace redis_internal

// A reply of Redis (RESP2). A value type; any thread may read it.
class STOCKADE_EXPORT RedisReply {
 public:
  // The types of RESP2.
  enum class Kind : uint8_t { kNil, kInteger, kString, kStatus, kError, kArray };

  RedisReply() = default;  // Nil.
  // For tests of code that reads replies. A client's replies come from the server.
  static RedisReply Integer(int64_t value);
  // `kind` is kString, kStatus or kError.
  static RedisReply Text(Kind kind, std::string text);
  static RedisReply Array(std::vector<RedisReply> elements);

  // The type of the reply. O(1).
  Kind kind() const { return kind_; }
  bool is_nil() const { return kind_ == Kind::kNil; }
  bool is_error() const { return kind_ == Kind::kError; }

  // The value. integer() is 0 for other types, text() is empty unless the reply is a string, status or error, and
  // elements() is empty unless it is an array.
  int64_t integer() const { return integer_; }
  std::string_view text() const { return text_; }
  std::string TakeText() && { return std::move(text_); }
  std::span<const RedisReply> elements() const { return elements_; }
  std::vector<RedisReply> TakeElements() && { return std::move(elements_); }

  // The value of an integer, or of a string that is a decimal integer. Otherwise FailedPrecondition, with the actual
  // reply.
  absl::StatusOr<int64_t> AsInteger() const;
  // The text of a string or a status; nullopt for nil. Otherwise FailedPrecondition.
  absl::StatusOr<std::optional<std::string_view>> AsText() const;
  // The elements of an array; if `size` is set, of an array of that size. Otherwise FailedPrecondition.
  absl::StatusOr<std::span<const RedisReply>> AsArray(std::optional<size_t> size = std::nullopt) const;

  // A short form for messages and tests: 3, "text", OK, (nil), (error) ERR text, [1, "a"]; truncated after some 200
  // characters.
  std::string ToString() const;

  friend bool operator==(const RedisReply&, const RedisReply&) = default;

 private:
  friend class redis_internal::ReplyReader;  // Fills arrays in place.

  Kind kind_ = Kind::kNil;
  int64_t integer_ = 0;
  std::string text_;
  std::vector<RedisReply> elements_;
};

// "nil", "integer", "string", "status", "error", "array".
STOCKADE_EXPORT std::string_view RedisReplyKindName(RedisReply::Kind kind);

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_REPLY_H_

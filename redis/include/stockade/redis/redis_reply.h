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

namespace internal {
class ReplyReader;
}  // namespace internal

// What Redis answered (RESP2). A value type; safe to read from any thread.
class STOCKADE_EXPORT RedisReply {
 public:
  // What RESP2 has.
  enum class Kind : uint8_t { kNil, kInteger, kString, kStatus, kError, kArray };

  RedisReply() = default;  // Nil.
  // For tests of what reads replies; those of a client come from the server.
  static RedisReply Integer(int64_t value);
  // `kind` is kString, kStatus or kError.
  static RedisReply Text(Kind kind, std::string text);
  static RedisReply Array(std::vector<RedisReply> elements);

  // What it is. O(1).
  Kind kind() const { return kind_; }
  bool is_nil() const { return kind_ == Kind::kNil; }
  bool is_error() const { return kind_ == Kind::kError; }

  // As it came: 0 where it is no integer, empty where it is no string, status or error, and where it is no array.
  int64_t integer() const { return integer_; }
  std::string_view text() const { return text_; }
  std::string TakeText() && { return std::move(text_); }
  std::span<const RedisReply> elements() const { return elements_; }

  // An integer, or a string that is one in decimal. FailedPrecondition, with what it is instead, otherwise.
  absl::StatusOr<int64_t> AsInteger() const;
  // A string or a status; nil is nothing. FailedPrecondition otherwise.
  absl::StatusOr<std::optional<std::string_view>> AsText() const;
  // An array of any or of `size` elements. FailedPrecondition otherwise.
  absl::StatusOr<std::span<const RedisReply>> AsArray(std::optional<size_t> size = std::nullopt) const;

  // For messages and tests: 3, "text", OK, (nil), (error) ERR text, [1, "a"]; cut after some 200 characters.
  std::string ToString() const;

  friend bool operator==(const RedisReply&, const RedisReply&) = default;

 private:
  friend class internal::ReplyReader;  // Fills arrays in place.

  Kind kind_ = Kind::kNil;
  int64_t integer_ = 0;
  std::string text_;
  std::vector<RedisReply> elements_;
};

// "nil", "integer", "string", "status", "error", "array".
STOCKADE_EXPORT std::string_view RedisReplyKindName(RedisReply::Kind kind);

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_REPLY_H_

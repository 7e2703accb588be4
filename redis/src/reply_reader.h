#ifndef STOCKADE_REDIS_REPLY_READER_H_
#define STOCKADE_REDIS_REPLY_READER_H_

#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/redis/redis_reply.h"

struct redisReader;

namespace stockade::redis_internal {

// Bytes from a server into replies: hiredis's parser, which builds our replies in place, within a bound. For one thread
// at a time.
class ReplyReader {
 public:
  // No reply larger than `max_reply_bytes`, counted as the memory that it takes, is built.
  explicit ReplyReader(size_t max_reply_bytes);
  ~ReplyReader();
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;

  // After an error every call returns it again: where the next reply would begin is not known.
  //
  // Takes bytes as they came. ResourceExhausted where what is there of a reply is larger than the bound.
  absl::Status Feed(std::string_view bytes);
  // True: `reply` is the next one. False: it is not all there yet. ResourceExhausted: too large; DataLoss: broken.
  absl::StatusOr<bool> Next(RedisReply& reply);
  // Whether bytes are there that are in no reply which Next() has given out.
  bool HasUnread() const;

 private:
  struct Builder;

  bool BeginsTooLargeString() const;
  absl::Status TooLarge();
  absl::Status Broken();

  const size_t max_reply_bytes_;
  std::unique_ptr<Builder> builder_;
  redisReader* reader_;
  absl::Status error_;
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_REPLY_READER_H_

#ifndef STOCKADE_REDIS_PUSH_REPLY_H_
#define STOCKADE_REDIS_PUSH_REPLY_H_

#include <string_view>

#include "stockade/redis/redis_reply.h"

namespace stockade::redis_internal {

// What comes over a connection for subscriptions.
struct PushReply {
  enum class Kind {
    kMessage,
    kSubscribed,
    kUnsubscribed,
    kPong,
    kError,
    kOther,  // Nothing that belongs there.
  };
  Kind kind = Kind::kOther;
  // Whether `channel` is the pattern of a pattern subscription.
  bool pattern = false;
  // All point into the reply.
  std::string_view channel = {};
  std::string_view text = {};       // The message, or the error.
  std::string_view published = {};  // The channel of a message to a pattern.
};

// `sharded`: which of the two kinds of channels the connection has. Any connection may have patterns.
PushReply ReadPushReply(const RedisReply& reply, bool sharded);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_PUSH_REPLY_H_

#include "push_reply.h"

#include <span>

namespace stockade::redis_internal {

PushReply ReadPushReply(const RedisReply& reply, bool sharded) {
  using enum PushReply::Kind;
  using ReplyKind = RedisReply::Kind;
  if (reply.is_error()) return {.kind = kError, .text = reply.text()};
  // How PING is answered while nothing is subscribed to.
  if (reply.kind() == ReplyKind::kStatus && reply.text() == "PONG") return {.kind = kPong};
  const std::span<const RedisReply> parts = reply.elements();
  if (parts.size() < 2 || parts[0].kind() != ReplyKind::kString || parts[1].kind() != ReplyKind::kString) return {};
  const std::string_view what = parts[0].text();
  const std::string_view channel = parts[1].text();
  if (parts.size() == 2) return what == "pong" ? PushReply{.kind = kPong} : PushReply{};
  if (parts.size() == 4 && what == "pmessage") {
    if (parts[2].kind() != ReplyKind::kString || parts[3].kind() != ReplyKind::kString) return {};
    return {
        .kind = kMessage, .pattern = true, .channel = channel, .text = parts[3].text(), .published = parts[2].text()};
  }
  if (parts.size() != 3) return {};
  if (what == (sharded ? "smessage" : "message")) {
    if (parts[2].kind() != ReplyKind::kString) return {};
    return {.kind = kMessage, .channel = channel, .text = parts[2].text()};
  }
  if (parts[2].kind() != ReplyKind::kInteger) return {};
  if (what == "psubscribe") return {.kind = kSubscribed, .pattern = true, .channel = channel};
  if (what == "punsubscribe") return {.kind = kUnsubscribed, .pattern = true, .channel = channel};
  if (what == (sharded ? "ssubscribe" : "subscribe")) return {.kind = kSubscribed, .channel = channel};
  if (what == (sharded ? "sunsubscribe" : "unsubscribe")) return {.kind = kUnsubscribed, .channel = channel};
  return {};
}

}  // namespace stockade::redis_internal

#include "push_reply.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stockade::redis_internal {
namespace {

using Kind = PushReply::Kind;
using ReplyKind = RedisReply::Kind;

RedisReply Text(const std::string& text) { return RedisReply::Text(ReplyKind::kString, text); }

RedisReply Push(const std::string& what, RedisReply channel, RedisReply last) {
  return RedisReply::Array({Text(what), std::move(channel), std::move(last)});
}

TEST(ReadPushReplyTest, Message_OfItsKindOfChannels_HasChannelAndText) {
  const RedisReply plain = Push("message", Text("news"), Text("hello"));
  const RedisReply sharded = Push("smessage", Text("news"), Text(""));
  EXPECT_EQ(ReadPushReply(plain, false).kind, Kind::kMessage);
  EXPECT_EQ(ReadPushReply(plain, false).channel, "news");
  EXPECT_EQ(ReadPushReply(plain, false).text, "hello");
  EXPECT_EQ(ReadPushReply(sharded, true).kind, Kind::kMessage);
  EXPECT_EQ(ReadPushReply(plain, true).kind, Kind::kOther);
  EXPECT_EQ(ReadPushReply(sharded, false).kind, Kind::kOther);
}

TEST(ReadPushReplyTest, Confirmation_OfItsKindOfChannels_NamesTheChannel) {
  const RedisReply count = RedisReply::Integer(1);
  EXPECT_EQ(ReadPushReply(Push("subscribe", Text("a"), count), false).kind, Kind::kSubscribed);
  EXPECT_EQ(ReadPushReply(Push("subscribe", Text("a"), count), false).channel, "a");
  EXPECT_EQ(ReadPushReply(Push("unsubscribe", Text("a"), count), false).kind, Kind::kUnsubscribed);
  EXPECT_EQ(ReadPushReply(Push("ssubscribe", Text("a"), count), true).kind, Kind::kSubscribed);
  EXPECT_EQ(ReadPushReply(Push("sunsubscribe", Text("a"), count), true).kind, Kind::kUnsubscribed);
  EXPECT_EQ(ReadPushReply(Push("subscribe", Text("a"), count), true).kind, Kind::kOther);
}

TEST(ReadPushReplyTest, Pattern_OnAnyConnection_HasPatternChannelAndText) {
  for (const bool sharded : {false, true}) {
    const RedisReply message = RedisReply::Array({Text("pmessage"), Text("n*"), Text("news"), Text("hello")});
    const PushReply push = ReadPushReply(message, sharded);
    EXPECT_EQ(push.kind, Kind::kMessage);
    EXPECT_TRUE(push.pattern);
    EXPECT_EQ(push.channel, "n*");
    EXPECT_EQ(push.published, "news");
    EXPECT_EQ(push.text, "hello");
    const RedisReply confirmed = Push("psubscribe", Text("n*"), RedisReply::Integer(1));
    const RedisReply ended = Push("punsubscribe", Text("n*"), RedisReply::Integer(0));
    EXPECT_EQ(ReadPushReply(confirmed, sharded).kind, Kind::kSubscribed);
    EXPECT_TRUE(ReadPushReply(confirmed, sharded).pattern);
    EXPECT_EQ(ReadPushReply(ended, sharded).kind, Kind::kUnsubscribed);
    EXPECT_TRUE(ReadPushReply(ended, sharded).pattern);
  }
  EXPECT_FALSE(ReadPushReply(Push("subscribe", Text("n*"), RedisReply::Integer(1)), false).pattern);
}

TEST(ReadPushReplyTest, Pong_WithAndWithoutSubscriptions_IsPong) {
  EXPECT_EQ(ReadPushReply(RedisReply::Array({Text("pong"), Text("")}), false).kind, Kind::kPong);
  EXPECT_EQ(ReadPushReply(RedisReply::Text(ReplyKind::kStatus, "PONG"), false).kind, Kind::kPong);
}

TEST(ReadPushReplyTest, Error_IsItsText) {
  const RedisReply error = RedisReply::Text(ReplyKind::kError, "MOVED 1 127.0.0.1:7000");
  EXPECT_EQ(ReadPushReply(error, true).kind, Kind::kError);
  EXPECT_EQ(ReadPushReply(error, true).text, "MOVED 1 127.0.0.1:7000");
}

TEST(ReadPushReplyTest, AnythingElse_IsOther) {
  const RedisReply one = RedisReply::Integer(1);
  for (const RedisReply& reply : {
           RedisReply(),
           one,
           Text("message"),
           RedisReply::Text(ReplyKind::kStatus, "OK"),
           RedisReply::Array({}),
           RedisReply::Array({Text("message")}),
           RedisReply::Array({Text("message"), Text("a")}),
           RedisReply::Array({Text("pong"), one}),
           Push("message", Text("a"), one),
           Push("message", one, Text("b")),
           Push("message", RedisReply(), Text("b")),
           Push("message", Text("a"), RedisReply()),
           Push("subscribe", Text("a"), Text("1")),
           Push("subscribe", RedisReply(), one),
           Push("psubscribe", Text("a"), Text("b")),
           Push("pmessage", Text("a"), Text("b")),
           RedisReply::Array({Text("pmessage"), Text("a"), Text("b"), one}),
           RedisReply::Array({Text("pmessage"), Text("a"), one, Text("b")}),
           RedisReply::Array({Text("pmessage"), Text("a"), RedisReply(), Text("b")}),
           RedisReply::Array({one, Text("a"), Text("b")}),
           RedisReply::Array({RedisReply::Array({}), Text("a"), one}),
           RedisReply::Array({Text("message"), Text("a"), Text("b"), Text("c")}),
       }) {
    EXPECT_EQ(ReadPushReply(reply, false).kind, Kind::kOther) << reply.ToString();
  }
}

}  // namespace
}  // namespace stockade::redis_internal

#include "stockade/redis/redis_reply.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace stockade {
namespace {

using Kind = RedisReply::Kind;

TEST(RedisReplyTest, AsInteger_IntegerOrDecimalString_IsIt) {
  EXPECT_EQ(RedisReply::Integer(-3).AsInteger().value(), -3);
  EXPECT_EQ(RedisReply::Text(Kind::kString, "9223372036854775807").AsInteger().value(),
            std::numeric_limits<int64_t>::max());
}

TEST(RedisReplyTest, AsInteger_OtherReply_SaysWhatItIs) {
  EXPECT_EQ(RedisReply::Text(Kind::kString, "3x").AsInteger().status().message(),
            "redis: the reply \"3x\" is not an integer");
  EXPECT_EQ(RedisReply().AsInteger().status().message(), "redis: the reply (nil) is not an integer");
  // What a status says is no data.
  EXPECT_EQ(RedisReply::Text(Kind::kStatus, "3").AsInteger().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(RedisReplyTest, AsText_StringOrStatus_IsIt_NilIsNothing) {
  EXPECT_EQ(RedisReply::Text(Kind::kString, "a").AsText().value(), "a");
  EXPECT_EQ(RedisReply::Text(Kind::kStatus, "OK").AsText().value(), "OK");
  EXPECT_EQ(RedisReply().AsText().value(), std::nullopt);
  EXPECT_EQ(RedisReply::Integer(1).AsText().status().message(), "redis: the reply 1 is not a string");
}

TEST(RedisReplyTest, AsArray_OtherSize_SaysBoth) {
  const RedisReply reply = RedisReply::Array({RedisReply::Integer(1), RedisReply()});
  EXPECT_EQ(reply.AsArray().value().size(), 2);
  EXPECT_EQ(reply.AsArray(2).value()[0].integer(), 1);
  EXPECT_EQ(reply.AsArray(3).status().message(), "redis: the reply [1, (nil)] is not an array of 3");
  EXPECT_EQ(RedisReply::Integer(1).AsArray().status().message(), "redis: the reply 1 is not an array");
}

TEST(RedisReplyTest, ToString_ShowsEveryKind_AndEscapes) {
  EXPECT_EQ(RedisReply::Array({RedisReply(), RedisReply::Integer(3), RedisReply::Text(Kind::kString, "a\n\""),
                               RedisReply::Text(Kind::kStatus, "OK"), RedisReply::Text(Kind::kError, "ERR no"),
                               RedisReply::Array({})})
                .ToString(),
            "[(nil), 3, \"a\\n\\\"\", OK, (error) ERR no, []]");
}

TEST(RedisReplyTest, ToString_LongReply_IsCut) {
  EXPECT_EQ(RedisReply::Text(Kind::kString, std::string(1'000'000, 'x')).ToString().size(), 203);
  EXPECT_EQ(RedisReply::Array(std::vector<RedisReply>(100'000, RedisReply::Integer(7))).ToString().size(), 203);
}

TEST(RedisReplyTest, KindName_IsTheFieldsOwn) {
  EXPECT_EQ(RedisReplyKindName(RedisReply().kind()), "nil");
  EXPECT_EQ(RedisReplyKindName(RedisReply::Array({}).kind()), "array");
}

}  // namespace
}  // namespace stockade

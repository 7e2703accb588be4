#include "reply_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace stockade::redis_internal {
namespace {

constexpr size_t kRoom = 1 << 20;

// All replies in `bytes`, which come in pieces of `piece`; then "error: ..." where it ends with one.
std::vector<std::string> ReadAll(std::string_view bytes, size_t piece, size_t max_reply_bytes = kRoom) {
  ReplyReader reader(max_reply_bytes);
  std::vector<std::string> replies;
  RedisReply reply;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    absl::Status status = reader.Feed(bytes.substr(0, piece));
    while (status.ok()) {
      const absl::StatusOr<bool> next = reader.Next(reply);
      status = next.status();
      if (!status.ok() || !*next) break;
      replies.push_back(reply.ToString());
    }
    if (status.ok()) continue;
    replies.push_back("error: " + std::string(status.message()));
    return replies;
  }
  return replies;
}

TEST(ReplyReaderTest, EveryKind_InPiecesOfAnySize_IsTheSame) {
  const std::string bytes =
      "+OK\r\n-ERR no such\r\n:-42\r\n$5\r\nhe\r\no\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n"
      "*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n-MOVED 1 h:2\r\n";
  const std::vector<std::string> expected = {"OK",
                                             "(error) ERR no such",
                                             "-42",
                                             "\"he\\r\\no\"",
                                             "\"\"",
                                             "(nil)",
                                             "(nil)",
                                             "[]",
                                             "[1, [\"a\", (nil)], (error) MOVED 1 h:2]"};
  for (size_t piece = 1; piece <= bytes.size(); ++piece) EXPECT_EQ(ReadAll(bytes, piece), expected) << piece;
}

TEST(ReplyReaderTest, ReplyAfterAnArray_HasNothingOfIt) {
  EXPECT_EQ(ReadAll("*2\r\n$1\r\na\r\n:5\r\n$-1\r\n:7\r\n", 100),
            (std::vector<std::string>{"[\"a\", 5]", "(nil)", "7"}));
}

// What walks a reply does so by recursion.
TEST(ReplyReaderTest, ArraysInArrays_AreReadDownToEight) {
  const auto nested = [](int arrays) {
    std::string bytes;
    for (int i = 0; i < arrays; ++i) bytes += "*1\r\n";
    return bytes + ":1\r\n";
  };
  EXPECT_EQ(ReadAll(nested(7), 100), std::vector<std::string>{"[[[[[[[1]]]]]]]"});
  EXPECT_EQ(ReadAll(nested(8), 100), std::vector<std::string>{"[[[[[[[[1]]]]]]]]"});
  for (const int arrays : {9, 10, 1'000}) {
    const std::vector<std::string> read = ReadAll(nested(arrays), 100);
    ASSERT_EQ(read.size(), 1U) << arrays;
    EXPECT_TRUE(read[0].starts_with("error: ")) << arrays << ": " << read[0];
  }
}

TEST(ReplyReaderTest, BrokenReplies_AreDataLoss_AndStayIt) {
  for (const std::string_view bytes : {"?\r\n", "*2\r\n!\r\n", "hello", "\r\n"}) {
    ReplyReader reader(kRoom);
    RedisReply reply;
    absl::Status status = reader.Feed(bytes);
    if (status.ok()) status = reader.Next(reply).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    EXPECT_EQ(reader.Feed("+OK\r\n"), status) << bytes;
    EXPECT_EQ(reader.Next(reply).status(), status) << bytes;
  }
}

TEST(ReplyReaderTest, StringOfTheBound_IsRead_LargerIsRefused) {
  const std::string fits(1000, 'x');
  EXPECT_EQ(ReadAll("$1000\r\n" + fits + "\r\n:1\r\n", 64, 1000).size(), 2);
  EXPECT_EQ(ReadAll("$1001\r\n" + fits + "x\r\n", 4096, 1000),
            std::vector<std::string>{"error: redis: a reply is larger than max_reply_bytes (1000)"});
}

TEST(ReplyReaderTest, StringThatOnlyBegins_IsRefusedWithItsLength) {
  const std::vector<std::string> refused = {"error: redis: a reply is larger than max_reply_bytes (1000)"};
  for (const std::string_view bytes : {"$1001\r\n", "$900000000\r\n", "$9223372036854775807\r\n", "*1\r\n$1001\r\n",
                                       "*1\r\n*1\r\n$9223372036854775807\r\n"}) {
    EXPECT_EQ(ReadAll(bytes, 100, 1000), refused) << bytes;
    EXPECT_EQ(ReadAll(bytes, 1, 1000), refused) << bytes;
  }
  // What the strings and elements before it leave of the bound.
  EXPECT_EQ(ReadAll("*2\r\n$500\r\n" + std::string(500, 'x') + "\r\n$400\r\n", 100, 1000), refused);
  EXPECT_TRUE(ReadAll("$1000\r\n", 1, 1000).empty());
  EXPECT_EQ(ReadAll("$99999999999999999999\r\n", 100, 1000).size(), 1);
}

TEST(ReplyReaderTest, ArrayThatOnlyClaimsToBeHuge_TakesNoMemory) {
  EXPECT_EQ(ReadAll("*1000000000\r\n", 100),
            std::vector<std::string>{"error: redis: a reply is larger than max_reply_bytes (1048576)"});
}

TEST(ReplyReaderTest, ManySmallElements_AreCountedTogether) {
  std::string bytes = "*3\r\n";
  for (int i = 0; i < 3; ++i) bytes += "$400\r\n" + std::string(400, 'x') + "\r\n";
  // The elements' own places count as well.
  EXPECT_EQ(ReadAll(bytes, 4096, 1200 + 3 * sizeof(RedisReply)).size(), 1);
  EXPECT_EQ(
      ReadAll(bytes, 4096, 1199 + 3 * sizeof(RedisReply))[0],
      "error: redis: a reply is larger than max_reply_bytes (" + std::to_string(1199 + 3 * sizeof(RedisReply)) + ")");
  // Of one reply, not of all.
  EXPECT_EQ(ReadAll(bytes + bytes + bytes, 4096, 1200 + 3 * sizeof(RedisReply)).size(), 3);
}

TEST(ReplyReaderTest, LineWithoutEnd_IsBroken_BeforeItIsLookedThroughTooOften) {
  EXPECT_EQ(ReadAll("-ERR " + std::string(1 << 20, 'x') + "\r\n", 1 << 21, 1 << 22).size(), 1);
  EXPECT_EQ(ReadAll("-ERR " + std::string(1 << 21, 'x'), 1 << 16, 1 << 22),
            std::vector<std::string>{"error: redis: a broken reply: a line of more than 1048576 bytes"});
  // A string may have as many without one.
  EXPECT_EQ(ReadAll("$2097152\r\n" + std::string(1 << 21, 'x') + "\r\n", 1 << 16, 1 << 22).size(), 1);
}

TEST(ReplyReaderTest, DeepArrays_AreReadOrRefused_NeverACrash) {
  for (const int depth : {5, 100, 100'000}) {
    std::string bytes;
    for (int i = 0; i < depth; ++i) bytes += "*1\r\n";
    EXPECT_EQ(ReadAll(bytes + ":1\r\n", 1 << 20).size(), 1) << depth;
  }
}

}  // namespace
}  // namespace stockade::redis_internal

#include "asking_order.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stockade::redis_internal {
namespace {

RedisEndpoint At(const std::string& host) { return {.host = host}; }

std::string Show(const AskingOrder& order) {
  std::string text;
  for (const RedisEndpoint& server : order.Get()) text += server.host;
  return text;
}

TEST(AskingOrderTest, Given_Repeated_StandOnceInTheirOrder) {
  EXPECT_EQ(Show(AskingOrder({At("b"), At("a"), At("b")})), "ba");
}

TEST(AskingOrderTest, AnsweredAndFailed_AreFirstAndLast) {
  AskingOrder order({At("a"), At("b"), At("c")});
  order.Answered(At("b"), {});
  EXPECT_EQ(Show(order), "bac");
  order.Failed(At("a"));
  EXPECT_EQ(Show(order), "bca");
  order.Prefer(At("a"));
  EXPECT_EQ(Show(order), "abc");
  order.Prefer(At("x"));
  order.Failed(At("x"));
  EXPECT_EQ(Show(order), "abc");
}

TEST(AskingOrderTest, Others_LearntAndNamedNoMore_ComeAndGo) {
  AskingOrder order({At("a"), At("b")});
  order.Answered(At("b"), std::vector{At("x"), At("a"), At("y")});
  EXPECT_EQ(Show(order), "baxy");
  order.Answered(At("x"), std::vector{At("z")});
  EXPECT_EQ(Show(order), "xbaz");
  order.Answered(At("a"), {});
  EXPECT_EQ(Show(order), "ab");
}

TEST(AskingOrderTest, Others_TooMany_AreCut) {
  AskingOrder order({At("a")});
  std::vector<RedisEndpoint> others;
  for (int i = 0; i < 1000; ++i) others.push_back(At(std::to_string(i)));
  order.Answered(At("x"), others);
  EXPECT_EQ(order.Get().size(), AskingOrder::kMaxLearnt + 1);
}

TEST(EndOfTurnTest, OfThree_LeavesTimeForEachAndForWhatFollows) {
  const Instant now = Instant::FromNanoseconds(0);
  const Instant deadline = now + absl::Milliseconds(1000);
  EXPECT_EQ(EndOfTurn(now, deadline, 1), now + absl::Milliseconds(500));
  EXPECT_EQ(EndOfTurn(now, deadline, 3), now + absl::Milliseconds(250));
  EXPECT_EQ(EndOfTurn(now, deadline, 64), now + absl::Milliseconds(250));
  EXPECT_EQ(EndOfTurn(deadline, deadline, 3), deadline);
}

}  // namespace
}  // namespace stockade::redis_internal

#include "referee.h"

#include <gtest/gtest.h>

#include "stockade/base/manual_clock.h"

namespace flash_sale {
namespace {

using Answer = Referee::Answer;

class RefereeTest : public ::testing::Test {
 protected:
  void Answered(Referee& referee, Answer answer) {
    const uint64_t begun = referee.Begin();
    clock_.Advance(absl::Milliseconds(1));
    referee.End(begun, answer);
  }

  stockade::ManualClock clock_;
};

TEST_F(RefereeTest, Refusal_WhenAllAreOut_IsRight) {
  Referee referee(1, &clock_);
  Answered(referee, Answer::kOrder);
  Answered(referee, Answer::kRefused);
  EXPECT_EQ(referee.Figures().orders, 1);
  EXPECT_EQ(referee.Figures().refusals, 1);
  EXPECT_EQ(referee.Figures().wrong_refusals, 0);
}

TEST_F(RefereeTest, Refusal_WhileAUnitIsThere_IsWrong) {
  Referee referee(2, &clock_);
  Answered(referee, Answer::kOrder);
  Answered(referee, Answer::kRefused);
  EXPECT_EQ(referee.Figures().wrong_refusals, 1);
}

TEST_F(RefereeTest, Refusal_WhileAnotherRequestMayHaveTheLastUnit_IsNotCalledWrong) {
  Referee referee(1, &clock_);
  const uint64_t first = referee.Begin();
  Answered(referee, Answer::kRefused);
  referee.End(first, Answer::kOther);
  EXPECT_EQ(referee.Figures().wrong_refusals, 0);
}

TEST_F(RefereeTest, Refusal_ShortAtItsStartOnly_IsNotCalledWrong) {
  Referee referee(1, &clock_);
  Answered(referee, Answer::kOrder);
  const uint64_t begun = referee.Begin();
  referee.Returned();
  referee.End(begun, Answer::kRefused);
  EXPECT_EQ(referee.Figures().wrong_refusals, 0);
}

TEST_F(RefereeTest, Refusal_AfterAUnitCameBack_IsWrong) {
  Referee referee(1, &clock_);
  Answered(referee, Answer::kOrder);
  referee.Returned();
  Answered(referee, Answer::kRefused);
  EXPECT_EQ(referee.Figures().wrong_refusals, 1);
}

TEST_F(RefereeTest, Refusal_AfterAnAbandonedReservationRanOut_IsWrong) {
  Referee referee(1, &clock_);
  Answered(referee, Answer::kOrder);
  referee.Abandoned(absl::Seconds(1));
  clock_.Advance(absl::Milliseconds(900));
  Answered(referee, Answer::kRefused);
  EXPECT_EQ(referee.Figures().wrong_refusals, 0);
  clock_.Advance(absl::Seconds(1));
  Answered(referee, Answer::kRefused);
  EXPECT_EQ(referee.Figures().wrong_refusals, 1);
}

TEST_F(RefereeTest, OrdersPerSecond_CountsUntilTheFirstRefusal) {
  Referee referee(3, &clock_);
  for (int i = 0; i < 3; ++i) Answered(referee, Answer::kOrder);
  Answered(referee, Answer::kRefused);
  clock_.Advance(absl::Hours(1));
  referee.Returned();
  Answered(referee, Answer::kOrder);
  EXPECT_NEAR(referee.Figures().orders_per_second, 1000, 1e-6);
  EXPECT_EQ(referee.Figures().orders, 4);
}

}  // namespace
}  // namespace flash_sale

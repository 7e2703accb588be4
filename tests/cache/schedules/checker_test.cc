#include "cache/schedules/checker.h"

#include <gtest/gtest.h>

#include "cache/schedules/script.h"

namespace stockade::testing {
namespace {

using Kind = Outcome::Kind;

constexpr Outcome kNothing{Kind::kNothing, 0};
constexpr Outcome kCircle{Kind::kCircle, 0};
constexpr Outcome Value(int64_t id) { return {Kind::kValue, id}; }
constexpr Outcome Absent(int64_t id) { return {Kind::kAbsent, id}; }
constexpr Outcome Error(int64_t id) { return {Kind::kError, id}; }

// Each test: a history that breaks one rule is refused, and its like that keeps it is not.

TEST(CheckerTest, Get_ValueThatWasNeverStored_Refused) {
  EXPECT_FALSE(Script().LoadingGet(1, Value(1)).Get(11, 12, Value(2)).Right());
  EXPECT_TRUE(Script().LoadingGet(1, Value(1)).Get(11, 12, Value(1)).Right());
}

TEST(CheckerTest, Get_BegunAfterTheInvalidation_OldValueRefused) {
  EXPECT_FALSE(Script().LoadingGet(1, Value(1)).Invalidate(11, 12).Get(13, 14, Value(1)).Right());
  EXPECT_TRUE(Script().LoadingGet(1, Value(1)).Invalidate(11, 14).Get(13, 15, Value(1)).Right());
}

TEST(CheckerTest, Load_InvalidatedMeanwhile_StoredRefused) {
  const auto script = [](int64_t invalidated) {
    return Script().Load({1, 2, 6, 8}, Value(1)).Get(1, 8, Value(1)).Invalidate(invalidated, invalidated + 1);
  };
  EXPECT_FALSE(script(4).Get(11, 12, Value(1)).Right());
  EXPECT_FALSE(script(4).Get(7, 12, Value(1)).Right());
  EXPECT_TRUE(script(4).Get(3, 12, Value(1)).Right());
  EXPECT_TRUE(script(4).GetIfPresent(11, 12, kNothing).Right());
  EXPECT_TRUE(script(14).Get(11, 12, Value(1)).Right());
}

TEST(CheckerTest, Put_DuringALoad_LoadedValueRefused) {
  const auto script = [] { return Script().Load({1, 2, 6, 8}, Value(1)).Put(4, 5, 2); };
  EXPECT_FALSE(script().Get(11, 12, Value(1)).Right());
  EXPECT_TRUE(script().Get(11, 12, Value(2)).Right());
}

TEST(CheckerTest, Put_WithCallsThatWait_LoadedValueForOneOfThemRefused) {
  // Both joined before the Put, since the third call is over by then.
  const auto script = [](Outcome answer) {
    return Script().Load({1, 2, 8, 9}, Value(1)).Put(6, 7, 2).Get(1, 9, answer);
  };
  EXPECT_FALSE(script(Value(1)).Get(3, 10, Value(2)).Get(11, 12, Value(1)).Right());
  EXPECT_FALSE(script(Value(1)).Right());
  EXPECT_TRUE(script(Value(2)).Right());
}

TEST(CheckerTest, Get_ValueThatHasExpired_Refused) {
  const Rules rules{.ttl = 10};
  EXPECT_FALSE(Script().LoadingGet(1, Value(1)).At(1'010).Get(11, 12, Value(1)).Right(rules));
  EXPECT_TRUE(Script().LoadingGet(1, Value(1)).At(1'009).Get(11, 12, Value(1)).Right(rules));
}

TEST(CheckerTest, Get_AbsenceThatHasExpired_Refused) {
  const Rules rules{.negative_ttl = 10, .stale_if_error = 100};
  EXPECT_FALSE(Script().LoadingGet(1, Absent(1)).At(1'010).Get(11, 12, Absent(1)).Right(rules));
  EXPECT_TRUE(Script().LoadingGet(1, Absent(1)).At(1'009).Get(11, 12, Absent(1)).Right(rules));
}

TEST(CheckerTest, Load_WhileAFreshValueIsStored_Refused) {
  const auto script = [] { return Script().LoadingGet(1, Value(1)).LoadingGet(11, Value(2)); };
  EXPECT_FALSE(script().Right());
  EXPECT_TRUE(script().Right({.ttl = 0}));
  EXPECT_TRUE(script().Invalidate(6, 7).Right());
}

TEST(CheckerTest, Load_WhileAnotherIsCurrent_Refused) {
  const auto script = [] { return Script().Load({1, 2, 8, 9}, Value(1)).Load({3, 4, 8, 9}, Value(2)); };
  EXPECT_FALSE(script().Right({.ttl = 0}));
  EXPECT_TRUE(script().Invalidate(2, 3).Right({.ttl = 0}));
}

TEST(CheckerTest, Load_BeforeItIsDue_RefreshRefused) {
  const Rules rules{.ttl = 10, .refresh_ahead = 0.5};
  const auto script = [](int64_t at, bool refresh) {
    return Script().LoadingGet(1, Value(1)).At(at).Load({11, 12, 13, 14}, Value(2), refresh);
  };
  EXPECT_FALSE(script(1'003, true).Right(rules));
  EXPECT_FALSE(script(1'006, false).Right(rules));
  EXPECT_TRUE(script(1'006, true).Right(rules));
}

TEST(CheckerTest, Get_ErrorOfNoLoadThatItJoined_Refused) {
  EXPECT_FALSE(Script().LoadingGet(1, Error(1)).Get(11, 12, Error(1)).Right());
  EXPECT_TRUE(Script().LoadingGet(1, Error(1)).Get(2, 12, Error(1)).Right());
}

TEST(CheckerTest, Get_ErrorWhileAFreshValueIsStored_Refused) {
  const Rules rules{.ttl = 10, .refresh_ahead = 0.5};
  const auto script = [](Outcome answer) {
    return Script().LoadingGet(1, Value(1)).At(1'006).Load({11, 12, 13, 14}, Error(2), true).Get(12, 15, answer);
  };
  EXPECT_FALSE(script(Error(2)).Right(rules));
  EXPECT_TRUE(script(Value(1)).Right(rules));
}

TEST(CheckerTest, Get_StaleBeyondItsAgeOrWithoutAFailedLoad_Refused) {
  const Rules rules{.ttl = 10, .stale_if_error = 10, .retry_backoff = 5};
  const auto script = [](int64_t at) { return Script().LoadingGet(1, Value(1)).At(at); };
  EXPECT_FALSE(script(1'012).Get(11, 12, Value(1)).Right(rules));
  EXPECT_FALSE(script(1'012).LoadingGet(11, Error(2)).Right(rules));
  EXPECT_TRUE(script(1'012).LoadingGet(11, Error(2), Value(1)).Get(21, 22, Value(1)).Right(rules));
  EXPECT_FALSE(script(1'020).LoadingGet(11, Error(2), Value(1)).Right(rules));
  EXPECT_TRUE(script(1'020).LoadingGet(11, Error(2)).Right(rules));
}

TEST(CheckerTest, Get_TwoAnswersOfOneLoad_Refused) {
  const Rules rules{.ttl = 10, .stale_if_error = 10};
  const auto script = [](Outcome answer) {
    return Script().LoadingGet(1, Value(1)).At(1'012).LoadingGet(11, Error(2), Value(1)).Get(12, 15, answer);
  };
  EXPECT_FALSE(script(Error(2)).Right(rules));
  EXPECT_TRUE(script(Value(1)).Right(rules));
}

TEST(CheckerTest, Load_WithinTheBackOff_Refused) {
  const Rules rules{.ttl = 10, .stale_if_error = 100, .retry_backoff = 5};
  const auto script = [](int64_t at) {
    return Script()
        .LoadingGet(1, Value(1))
        .At(1'012)
        .LoadingGet(11, Error(2), Value(1))
        .At(at)
        .LoadingGet(21, Value(3));
  };
  EXPECT_FALSE(script(1'016).Right(rules));
  EXPECT_TRUE(script(1'017).Right(rules));
}

TEST(CheckerTest, Get_TimeOutThatHasNotPassedOrOverAFreshValue_Refused) {
  EXPECT_FALSE(Script().Load({1, 2, 8, 9}, Value(1)).At(1'004).TimedGet(3, 5, 1'000, 5).Right());
  EXPECT_TRUE(Script().Load({1, 2, 8, 9}, Value(1)).At(1'005).TimedGet(3, 5, 1'000, 5).Right());
  EXPECT_FALSE(Script().LoadingGet(1, Value(1)).TimedGet(11, 12, 1'000, 0).Right());
}

TEST(CheckerTest, Get_CircleWithoutALoader_Refused) {
  EXPECT_FALSE(Script().Get(1, 2, kCircle).Right());
  Script own = Script().Load({1, 2, 8, 9}, Value(1)).Get(3, 4, kCircle);
  own.last().in_own_loader = true;
  EXPECT_TRUE(own.Right());
}

TEST(CheckerTest, GetIfPresent_NothingWhileAFreshValueIsStored_Refused) {
  const auto script = [](int64_t put) {
    return Script().LoadingGet(1, Value(1)).Put(put, put + 1, 2).GetIfPresent(21, 22, kNothing);
  };
  EXPECT_FALSE(script(11).Right());
  // Stored, and evicted by what else its caller stored at the same time.
  EXPECT_TRUE(script(11).Right({.evicts = true}));
  EXPECT_FALSE(
      Script().LoadingGet(1, Value(1)).Get(11, 12, Value(1)).GetIfPresent(21, 22, kNothing).Right({.evicts = true}));
}

TEST(CheckerTest, Get_StaleBeyondItsRevalidation_Refused) {
  const Rules rules{.ttl = 10, .stale_while_revalidate = 10};
  const auto script = [](int64_t at) { return Script().LoadingGet(1, Value(1)).At(at); };
  EXPECT_FALSE(script(1'020).Get(11, 12, Value(1)).Right(rules));
  EXPECT_TRUE(script(1'019).Get(11, 12, Value(1)).Right(rules));
  // Nobody waits for a load meanwhile.
  EXPECT_FALSE(script(1'019).LoadingGet(11, Value(2)).Right(rules));
  EXPECT_TRUE(script(1'019).Load({11, 12, 13, 14}, Value(2), true).Right(rules));
}

TEST(CheckerTest, Load_InTheBackgroundThatNobodyAskedFor_Refused) {
  const auto script = [] { return Script().LoadingGet(1, Value(1)).Load({11, 12, 13, 14}, Value(2), true); };
  EXPECT_FALSE(script().Right());
  EXPECT_TRUE(script().Refresh(8, 9).Right());
  // One call, one load.
  EXPECT_FALSE(script().Refresh(8, 9).Load({21, 22, 23, 24}, Value(3), true).Right());
}

TEST(CheckerTest, InvalidateTag_OfWhatIsStored_OldValueRefused) {
  const auto script = [](unsigned tag) { return Script().Put(1, 2, 1).Tagged(1).InvalidateTag(3, 4, tag); };
  EXPECT_FALSE(script(1).Get(11, 12, Value(1)).Right());
  EXPECT_TRUE(script(2).Get(11, 12, Value(1)).Right());
}

TEST(CheckerTest, InvalidateTag_DuringALoadOfIt_ResultRefusedToLaterCalls) {
  const auto script = [](unsigned tag) {
    return Script().Load({1, 2, 8, 9}, Value(1)).TaggedLoad(1).Get(1, 9, Value(1)).InvalidateTag(4, 5, tag);
  };
  EXPECT_FALSE(script(1).Get(6, 10, Value(1)).Right());
  EXPECT_FALSE(script(1).Get(11, 12, Value(1)).Right());
  EXPECT_TRUE(script(1).Get(3, 10, Value(1)).Right());
  EXPECT_TRUE(script(2).Get(6, 10, Value(1)).Get(11, 12, Value(1)).Right());
  // The load still counts: none begins beside it.
  EXPECT_FALSE(script(1).Load({6, 7, 18, 19}, Value(2)).Right());
  EXPECT_TRUE(script(1).Load({6, 11, 18, 19}, Value(2)).Right());
}

TEST(CheckerTest, Load_PastItsHardTimeout_ResultRefused) {
  const Rules rules{.load_hard_timeout = 5};
  const auto script = [](int64_t returned) {
    return Script().Load({1, 2, 8, 9}, Value(1)).LoadReturnsAt(returned).At(returned);
  };
  EXPECT_FALSE(script(1'005).Get(11, 12, Value(1)).Right(rules));
  EXPECT_TRUE(script(1'004).Get(11, 12, Value(1)).Right(rules));
  // The key is free for the next load before the late one has ended.
  EXPECT_TRUE(script(1'005).Load({3, 4, 10, 11}, Value(2)).Get(12, 13, Value(2)).Right(rules));
  EXPECT_FALSE(script(1'004).Load({3, 4, 10, 11}, Value(2)).Right(rules));
}

TEST(FindCirclesTest, Get_OfAKeyWhoseLoadIsWithinAGet_MayBeRefused) {
  // Key 1 is loaded, which asks for key 0; key 0 is loaded, which asks for key 1.
  const auto history = [](int64_t asks_from) {
    History made;
    made.loads.push_back(
        {.key = 1, .cause = {1, 0}, .begin = {2, 0}, .end = {20, 0}, .ended = {21, 0}, .outcome = {}, .ttl = {}});
    made.loads.push_back(
        {.key = 0, .cause = {1, 0}, .begin = {3, 0}, .end = {20, 0}, .ended = {21, 0}, .outcome = {}, .ttl = {}});
    made.calls.push_back(
        {.key = 0, .begin = {5, 0}, .end = {15, 0}, .outcome = Value(1), .ttl = {}, .in_loader = true});
    made.calls.push_back({.key = 1,
                          .begin = {asks_from, 0},
                          .end = {asks_from + 1, 0},
                          .outcome = kCircle,
                          .ttl = {},
                          .in_loader = true});
    FindCircles(made);
    return made;
  };
  EXPECT_TRUE(history(8).calls.back().circle_possible);
  EXPECT_FALSE(history(17).calls.back().circle_possible);
}

}  // namespace
}  // namespace stockade::testing

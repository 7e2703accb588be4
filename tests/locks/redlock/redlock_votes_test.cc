#include "redlock_votes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "redlock_watch.h"

namespace stockade::locks_internal {
namespace {

enum class Answer { kRefused, kFailed, kFirst, kSecond, kThird };  // Granted: with that count.
constexpr int kAnswers = 5;

void Give(TryVotes& votes, Answer answer) {
  switch (answer) {
    case Answer::kRefused: return votes.CountRefusal(absl::Seconds(1));
    case Answer::kFailed: return votes.CountFailure();
    default: return votes.CountGrant(static_cast<int>(answer) - static_cast<int>(Answer::kFirst) + 1);
  }
}

TryVotes After(size_t nodes, const std::vector<Answer>& answers) {
  TryVotes votes(nodes);
  for (const Answer answer : answers) Give(votes, answer);
  return votes;
}

// What they mean, told from the whole of them.
struct Meaning {
  TryVotes::Outcome outcome;
  int64_t hold_count = 0;
  friend bool operator==(const Meaning&, const Meaning&) = default;
};

Meaning MeaningOf(const std::vector<Answer>& all) {
  const size_t majority = MajorityOf(all.size());
  size_t granted = 0, answered = 0;
  for (const Answer answer : all) {
    granted += answer >= Answer::kFirst ? 1 : 0;
    answered += answer != Answer::kFailed ? 1 : 0;
  }
  if (answered < majority) return {TryVotes::Outcome::kUnreachable};
  if (granted < majority) return {TryVotes::Outcome::kBusy};
  for (int64_t count = 3;; --count) {
    size_t have = 0;
    for (const Answer answer : all) have += static_cast<int>(answer) - static_cast<int>(Answer::kFirst) + 1 >= count;
    if (have >= majority) return {TryVotes::Outcome::kAcquired, count};
  }
}

// All answers of `nodes` that begin with `given`; each in `means`.
void Complete(size_t nodes, std::vector<Answer>& given, std::vector<Meaning>& means) {
  if (given.size() == nodes) return means.push_back(MeaningOf(given));
  for (int answer = 0; answer < kAnswers; ++answer) {
    given.push_back(static_cast<Answer>(answer));
    Complete(nodes, given, means);
    given.pop_back();
  }
}

// Every sequence of answers: it is decided as soon as, and not before, what is missing cannot change it, unless it
// could only change what a failure is called.
void CheckAll(size_t nodes, std::vector<Answer>& given) {
  std::vector<Meaning> means;
  Complete(nodes, given, means);
  const bool same = std::all_of(means.begin(), means.end(), [&](const Meaning& m) { return m == means.front(); });
  const TryVotes votes = After(nodes, given);
  ASSERT_EQ(votes.Decided().has_value(), same) << given.size() << " answers of " << nodes;
  if (same) {
    ASSERT_EQ(*votes.Decided(), means.front().outcome);
    const bool acquired = means.front().outcome == TryVotes::Outcome::kAcquired;
    ASSERT_EQ(acquired ? votes.hold_count() : 0, means.front().hold_count);
  }
  if (given.size() == nodes) return;
  for (int answer = 0; answer < kAnswers && !::testing::Test::HasFatalFailure(); ++answer) {
    given.push_back(static_cast<Answer>(answer));
    CheckAll(nodes, given);
    given.pop_back();
  }
}

TEST(TryVotesTest, AllAnswersOfThree_DecidedWhenTheRestCannotChangeIt) {
  std::vector<Answer> none;
  CheckAll(3, none);
}

TEST(TryVotesTest, AllAnswersOfFive_DecidedWhenTheRestCannotChangeIt) {
  std::vector<Answer> none;
  CheckAll(5, none);
}

TEST(TryVotesTest, TakenBack_LeavesTheCountOfBefore) {
  TryVotes votes(5);
  EXPECT_EQ(votes.count_before(), 0);
  votes.CountGrant(1);
  EXPECT_EQ(votes.count_before(), 0);
  votes.CountGrant(3);
  EXPECT_EQ(votes.count_before(), 2);
}

TEST(TryVotesTest, Refused_LapsesWithTheFirst) {
  TryVotes votes(3);
  EXPECT_EQ(votes.lapses_after(), absl::InfiniteDuration());
  votes.CountRefusal(absl::Seconds(3));
  votes.CountRefusal(absl::Seconds(2));
  EXPECT_EQ(votes.lapses_after(), absl::Seconds(2));
}

HoldVotes Held(size_t held, size_t lost, size_t failed) {
  HoldVotes votes(5);
  for (size_t i = 0; i < held; ++i) votes.CountAnswer(true);
  for (size_t i = 0; i < lost; ++i) votes.CountAnswer(false);
  for (size_t i = 0; i < failed; ++i) votes.CountFailure();
  return votes;
}

TEST(HoldVotesTest, MajorityDecides_FewerDoNot) {
  EXPECT_EQ(Held(3, 0, 0).Decided(), HoldVotes::Outcome::kHeld);
  EXPECT_EQ(Held(0, 3, 0).Decided(), HoldVotes::Outcome::kLost);
  EXPECT_EQ(Held(2, 2, 0).Decided(), std::nullopt);
  EXPECT_EQ(Held(2, 2, 1).Decided(), HoldVotes::Outcome::kUnknown);
  EXPECT_EQ(Held(2, 0, 3).Decided(), HoldVotes::Outcome::kUnknown);
  EXPECT_EQ(Held(3, 2, 0).Decided(), HoldVotes::Outcome::kHeld);
}

TEST(QuorumHintsTest, OneReleaseToldByAll_IsOneHint) {
  QuorumHints hints(5);
  for (int release = 0; release < 3; ++release) {
    int made = 0;
    for (size_t node = 0; node < 5; ++node) {
      made += hints.Released(node);
      EXPECT_EQ(made, node >= 2 ? 1 : 0);
    }
  }
}

TEST(QuorumHintsTest, Listening_IsAHintOnceAMajorityDoes) {
  QuorumHints hints(5);
  for (size_t node = 0; node < 5; ++node) EXPECT_EQ(hints.Listens(node), node == 2) << node;
  EXPECT_TRUE(hints.Listens(4));  // Again: after a gap.
}

TEST(QuorumHintsTest, OneThatHadAGap_CountsAgain) {
  QuorumHints hints(3);
  for (int release = 0; release < 10; ++release) {
    hints.Released(0);
    hints.Released(1);
  }
  hints.Listens(2);
  EXPECT_FALSE(hints.Released(2));
  EXPECT_TRUE(hints.Released(0));
}

}  // namespace
}  // namespace stockade::locks_internal

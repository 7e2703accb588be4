#include "mutator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace stockade::testing {
namespace {

TEST(MutatorTest, FirstInputs_AreTheCorpus) {
  const Mutator mutator({"redis://a", ""}, 7);
  EXPECT_EQ(mutator.Input(0), "redis://a");
  EXPECT_EQ(mutator.Input(1), "");
}

TEST(MutatorTest, SameSeedAndIndex_GiveTheSameInput) {
  const Mutator mutator({"redis://a", "unix:///b"}, 7);
  const Mutator another({"redis://a", "unix:///b"}, 7);
  for (uint64_t index = 0; index < 100; ++index) EXPECT_EQ(mutator.Input(index), another.Input(index)) << index;
}

TEST(MutatorTest, OtherSeedOrIndex_GivesOtherInputs) {
  const Mutator mutator({"redis://a", "unix:///b"}, 7);
  const Mutator another({"redis://a", "unix:///b"}, uint64_t{7} << 32);
  std::set<std::string> seen;
  for (uint64_t index = 2; index < 102; ++index) {
    seen.insert(mutator.Input(index));
    seen.insert(another.Input(index));
  }
  EXPECT_GT(seen.size(), 150);
}

TEST(MutatorTest, EmptyCorpusFile_IsMutatedToo) {
  const Mutator mutator({""}, 7);
  std::set<std::string> seen;
  for (uint64_t index = 1; index < 101; ++index) seen.insert(mutator.Input(index));
  EXPECT_GT(seen.size(), 20);
}

TEST(MutatorTest, Inputs_StayBounded) {
  const Mutator mutator({std::string(200'000, 'a')}, 7);
  for (uint64_t index = 1; index < 51; ++index) EXPECT_LE(mutator.Input(index).size(), size_t{1} << 16);
}

}  // namespace
}  // namespace stockade::testing

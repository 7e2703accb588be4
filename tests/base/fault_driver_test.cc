#include "support/fault_driver.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

namespace stockade::testing {
namespace {

class FaultDriverTest : public ::testing::Test {
 protected:
  FaultDriver::Kind Note(std::string name, std::vector<int64_t> limits, int weight = 1) {
    return {name, std::move(limits),
            [this, name](std::span<const int64_t> numbers) {
              made_.push_back({.after = passed_, .kind = name, .numbers = {numbers.begin(), numbers.end()}});
            },
            weight};
  }

  std::vector<Fault> made_;
  int64_t passed_ = 0;
  const FaultDriver driver_{{Note("kill", {3}), Note("cut", {4, 50}, 6), Note("heal", {}, 3)},
                            [this](int64_t amount) { passed_ = amount; }};
};

TEST_F(FaultDriverTest, Draw_TheSameSeed_IsTheSameSchedule) {
  EXPECT_EQ(driver_.Draw(7, 100, 30), driver_.Draw(7, 100, 30));
  EXPECT_NE(driver_.Draw(7, 100, 30), driver_.Draw(8, 100, 30));
}

TEST_F(FaultDriverTest, Draw_Many_EachIsWithinItsLimitsAndComesByItsWeight) {
  int cuts = 0;
  for (const Fault& fault : driver_.Draw(1, 10'000, 30)) {
    EXPECT_LT(fault.after, 30);
    if (fault.kind != "cut") continue;
    ++cuts;
    ASSERT_EQ(fault.numbers.size(), 2u);
    EXPECT_LT(fault.numbers[0], 4);
    EXPECT_LT(fault.numbers[1], 50);
  }
  EXPECT_NEAR(cuts, 6'000, 300);
}

TEST_F(FaultDriverTest, Text_IsReadAgain_IsTheSame) {
  const std::vector<Fault> schedule = driver_.Draw(3, 50, 30);
  EXPECT_EQ(ParseFaults(ToText(schedule)), schedule);
  EXPECT_EQ(ToText(ParseFaults(" 5 kill 2;0  heal ; ")), "5 kill 2; 0 heal");
  EXPECT_TRUE(ParseFaults("").empty());
}

TEST_F(FaultDriverTest, MakeAll_MakesThemInOrderAfterTheirPauses) {
  const std::vector<Fault> schedule = driver_.Draw(3, 50, 30);
  driver_.MakeAll(schedule);
  EXPECT_EQ(made_, schedule);
}

TEST_F(FaultDriverTest, FaultsToRun_TheEnvironmentNamesOthers_TheseAreRun) {
  EXPECT_EQ(ToText(FaultsToRun({{.after = 1, .kind = "heal"}})), "1 heal");
  setenv("STOCKADE_TEST_FAULTS", "2 kill 1", 1);
  EXPECT_EQ(ToText(FaultsToRun({{.after = 1, .kind = "heal"}})), "2 kill 1");
  unsetenv("STOCKADE_TEST_FAULTS");
}

TEST_F(FaultDriverTest, NoSuchFault_AbortsWithIt) {
  EXPECT_DEATH(ParseFaults("kill 1"), "no fault: 'kill 1'");
  EXPECT_DEATH(ParseFaults("1 kill x"), "no fault: '1 kill x'");
  EXPECT_DEATH(driver_.Make({.kind = "burn"}), "makes no fault '0 burn'");
  EXPECT_DEATH(driver_.Make({.kind = "kill", .numbers = {3}}), "makes no fault '0 kill 3'");
  EXPECT_DEATH(driver_.Make({.kind = "kill", .numbers = {-1}}), "makes no fault '0 kill -1'");
  EXPECT_DEATH(driver_.Make({.kind = "kill"}), "makes no fault '0 kill'");
}

}  // namespace
}  // namespace stockade::testing

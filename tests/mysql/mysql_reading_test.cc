#include "stockade/mysql/internal/mysql_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace stockade::mysql_internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(MySqlReadingTest, WhatWasAskedFor_IsTaken) {
  std::vector<std::tuple<uint64_t, std::string>> names;
  std::vector<int64_t> numbers = {7};
  std::tuple<bool, std::array<uint8_t, 2>> one;
  const auto sinks = MySqlInto(names, numbers, one);
  MySqlReading reading("SELECT a;UPDATE b;SELECT c;\nSELECT d;\n ", sinks);
  ASSERT_TRUE(reading.TakeStatement() && reading.BeginRows(2));
  EXPECT_TRUE(reading.TakeRow(std::vector<MySqlCell>{"18446744073709551615", "x\0y"}));
  EXPECT_TRUE(reading.TakeRow(std::vector<MySqlCell>{"0", ""}));
  ASSERT_TRUE(reading.EndRows() && reading.TakeStatement() && reading.TakeStatement() && reading.BeginRows(1));
  ASSERT_TRUE(reading.EndRows() && reading.TakeStatement() && reading.BeginRows(2));
  EXPECT_TRUE(reading.TakeRow(std::vector<MySqlCell>{"-2", "\1\2"}));
  ASSERT_TRUE(reading.EndRows() && reading.End()) << reading.what();
  EXPECT_THAT(names, ElementsAre(std::tuple(std::numeric_limits<uint64_t>::max(), "x"), std::tuple(0U, "")));
  EXPECT_THAT(numbers, IsEmpty());
  EXPECT_TRUE(std::get<0>(one));
  EXPECT_THAT(std::get<1>(one), ElementsAre(1, 2));
}

TEST(MySqlReadingTest, ColumnsThatAreNullTogether_AreOneValue) {
  std::vector<std::tuple<int64_t, std::optional<std::tuple<int64_t, std::string>>>> rows;
  const auto sinks = MySqlInto(rows);
  MySqlReading reading("SELECT a", sinks);
  ASSERT_TRUE(reading.TakeStatement() && reading.BeginRows(3));
  EXPECT_TRUE(reading.TakeRow(std::vector<MySqlCell>{"1", std::nullopt, std::nullopt}));
  EXPECT_TRUE(reading.TakeRow(std::vector<MySqlCell>{"2", "3", "x"}));
  EXPECT_FALSE(reading.TakeRow(std::vector<MySqlCell>{"4", "5", std::nullopt}));
  EXPECT_THAT(reading.what(), HasSubstr("result 1 has NULL in column 3, which is not of its type"));
  EXPECT_FALSE(std::get<1>(rows[0]).has_value());
  EXPECT_EQ(std::get<1>(rows[1]), std::tuple(3, "x"));
}

// Takes a row of one column of T with this value.
template <typename T>
bool Takes(const MySqlCell& cell) {
  T into = {};
  const auto sinks = MySqlInto(into);
  MySqlReading reading("SELECT a", sinks);
  return reading.TakeStatement() && reading.BeginRows(1) && reading.TakeRow({&cell, 1}) && reading.EndRows() &&
         reading.End();
}

TEST(MySqlReadingTest, Values_AreTakenUpToTheBoundsOfTheirTypes) {
  EXPECT_TRUE(Takes<int32_t>("2147483647"));
  EXPECT_FALSE(Takes<int32_t>("2147483648"));
  EXPECT_TRUE(Takes<int64_t>("-9223372036854775808"));
  EXPECT_FALSE(Takes<int64_t>("-9223372036854775809"));
  EXPECT_TRUE(Takes<uint64_t>("18446744073709551615"));
  EXPECT_FALSE(Takes<uint64_t>("18446744073709551616"));
  EXPECT_FALSE(Takes<uint64_t>("-1"));
  for (const char* const text : {"", "1x", "1.0", "0x10", "one"}) EXPECT_FALSE(Takes<int64_t>(text)) << text;
  EXPECT_FALSE(Takes<int64_t>(std::nullopt));
  EXPECT_FALSE(Takes<bool>("yes"));
  EXPECT_FALSE(Takes<std::string>(std::nullopt));
  EXPECT_TRUE(Takes<std::optional<std::string>>(std::nullopt));
  using Hash = std::array<uint8_t, 4>;
  EXPECT_FALSE(Takes<Hash>("abc"));
  EXPECT_TRUE(Takes<Hash>("abcd"));
  EXPECT_FALSE(Takes<Hash>("abcde"));
}

class MySqlReadingShapeTest : public ::testing::Test {
 protected:
  void ExpectWrong(const std::string& what) const { EXPECT_THAT(reading_.what(), HasSubstr(what)); }
  bool TakeRow(const MySqlCell& cell) { return reading_.TakeRow({&cell, 1}); }

  std::vector<int64_t> many_;
  int64_t one_ = 0;
  const std::array<MySqlSink, 2> sinks_ = MySqlInto(many_, one_);
  MySqlReading reading_{"UPDATE a;SELECT b;SELECT c", sinks_};
};

TEST_F(MySqlReadingShapeTest, FewerStatements_AreRefused) {
  ASSERT_TRUE(reading_.TakeStatement() && reading_.TakeStatement());
  EXPECT_FALSE(reading_.End());
  ExpectWrong("it has 2 results instead of 3");
}

TEST_F(MySqlReadingShapeTest, MoreStatements_AreRefused) {
  ASSERT_TRUE(reading_.TakeStatement() && reading_.TakeStatement() && reading_.TakeStatement());
  EXPECT_FALSE(reading_.TakeStatement());
  ExpectWrong("it has more than 3 results");
}

TEST_F(MySqlReadingShapeTest, FewerResultsWithRows_AreRefused) {
  ASSERT_TRUE(reading_.TakeStatement() && reading_.TakeStatement() && reading_.TakeStatement());
  EXPECT_FALSE(reading_.End());
  ExpectWrong("it has 0 results with rows instead of 2");
}

TEST_F(MySqlReadingShapeTest, MoreResultsWithRows_AreRefused) {
  ASSERT_TRUE(reading_.TakeStatement() && reading_.BeginRows(1) && reading_.EndRows());
  ASSERT_TRUE(reading_.TakeStatement() && reading_.BeginRows(1) && TakeRow("1") && reading_.EndRows());
  ASSERT_TRUE(reading_.TakeStatement());
  EXPECT_FALSE(reading_.BeginRows(1));
  ExpectWrong("it has more than 2 results with rows");
}

TEST_F(MySqlReadingShapeTest, OtherColumns_AreRefused) {
  ASSERT_TRUE(reading_.TakeStatement());
  EXPECT_FALSE(reading_.BeginRows(2));
  ExpectWrong("result 1 has 2 columns instead of 1");
}

TEST_F(MySqlReadingShapeTest, ResultOfOneRow_HasExactlyOne) {
  ASSERT_TRUE(reading_.TakeStatement() && reading_.BeginRows(1) && reading_.EndRows());
  ASSERT_TRUE(reading_.TakeStatement() && reading_.BeginRows(1));
  EXPECT_FALSE(reading_.EndRows());
  ExpectWrong("result 2 has no row");
  ASSERT_TRUE(TakeRow("1"));
  EXPECT_FALSE(TakeRow("1"));
  ExpectWrong("result 2 has more than one row");
}

TEST_F(MySqlReadingShapeTest, Value_IsShownInPart) {
  ASSERT_TRUE(reading_.TakeStatement() && reading_.BeginRows(1));
  EXPECT_FALSE(TakeRow("a\nb" + std::string(1000, 'x')));
  ExpectWrong("result 1 has 'a\\nbxxx");
  EXPECT_LT(reading_.what().size(), 300U);
}

TEST(MySqlReadingSizeTest, ReplyOfMoreBytesThanTheBound_IsRefused) {
  const MySqlSink forgetting = {.into = nullptr,
                                .columns = 1,
                                .is_one_row = false,
                                .clear = [](void*) {},
                                .take = [](void*, std::span<const MySqlCell>) { return size_t{1}; }};
  MySqlReading reading("SELECT a", {&forgetting, 1});
  ASSERT_TRUE(reading.TakeStatement() && reading.BeginRows(1));
  const std::string large((size_t{1} << 20) - 16, '0');
  const MySqlCell cell = large;
  for (size_t row = 0; row < MySqlReading::kMaxBytes >> 20; ++row) ASSERT_TRUE(reading.TakeRow({&cell, 1}));
  const MySqlCell null;
  EXPECT_FALSE(reading.TakeRow({&null, 1}));
  EXPECT_THAT(reading.what(), HasSubstr("it has more than 536870912 bytes"));
}

}  // namespace
}  // namespace stockade::mysql_internal

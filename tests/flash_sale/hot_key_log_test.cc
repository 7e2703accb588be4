#include "hot_key_log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "stockade/base/manual_clock.h"

namespace flash_sale {
namespace {

constexpr absl::Duration kTtl = absl::Milliseconds(500);

class HotKeyLogTest : public ::testing::Test {
 protected:
  void Advance(int64_t ms) { clock_.Advance(absl::Milliseconds(ms)); }

  // A view that finds the page.
  void Hit() { const HotKeyLog::View view(log_); }

  // A view that runs a query, which takes 2 ms.
  void Miss() {
    const HotKeyLog::View view(log_);
    const size_t query = log_.BeginQuery();
    Advance(2);
    log_.EndQuery(query);
  }

  // `views` that miss at the same moment.
  void Stampede(int views) {
    // A thread each, but in turn, so that times are the test's. All queries begin before one ends.
    std::vector<size_t> queries;
    for (int i = 0; i < views; ++i) {
      std::thread([&] {
        const HotKeyLog::View view(log_);
        queries.push_back(log_.BeginQuery());
      }).join();
    }
    Advance(2);
    for (const size_t query : queries) log_.EndQuery(query);
  }

  void Expect(int64_t queries, int64_t expiries) {
    EXPECT_EQ(log_.Figures().queries, queries);
    EXPECT_EQ(log_.Figures().expiries, expiries);
  }

  stockade::ManualClock clock_;
  HotKeyLog log_{kTtl, &clock_};
};

TEST_F(HotKeyLogTest, NoView_CountsNothing) {
  Expect(0, 0);
  EXPECT_EQ(log_.Figures().LoadsPerExpiry(), 0);
}

TEST_F(HotKeyLogTest, OneLoadAnExpiry_IsExactlyOne) {
  for (int i = 0; i < 5; ++i) {
    Miss();
    for (int hits = 0; hits < 9; ++hits) {
      Advance(50);
      Hit();
    }
    Advance(60);
  }
  Expect(5, 4);
  EXPECT_TRUE(log_.Figures().Exact());
  EXPECT_EQ(log_.Figures().LoadsPerExpiry(), 1.0);
}

TEST_F(HotKeyLogTest, ExpiryThatNoViewFollowed_IsNotCounted) {
  Miss();
  Advance(10'000);
  Expect(1, 0);
  Miss();
  Expect(2, 1);
}

TEST_F(HotKeyLogTest, Stampede_CountsEachQueryAndOneExpiry) {
  Stampede(8);
  Advance(520);
  Stampede(4);
  Expect(12, 1);
  EXPECT_FALSE(log_.Figures().Exact());
  EXPECT_EQ(log_.Figures().LoadsPerExpiry(), 6.0);
}

TEST_F(HotKeyLogTest, SecondQueryWithinTheTtl_IsExcess) {
  Miss();
  Advance(300);
  Miss();
  Expect(2, 0);
  EXPECT_FALSE(log_.Figures().Exact());
}

TEST_F(HotKeyLogTest, ValueServedLongAfterItsExpiry_IsAnExpiryWithoutALoad) {
  Miss();
  Advance(700);
  Hit();
  Expect(1, 1);
  EXPECT_FALSE(log_.Figures().Exact());
  EXPECT_EQ(log_.Figures().LoadsPerExpiry(), 0.5);
}

TEST_F(HotKeyLogTest, ViewThatWaitedLongAfterItsQuery_MovesTheLatestExpiry) {
  {
    const HotKeyLog::View view(log_);
    log_.EndQuery(log_.BeginQuery());
    Advance(400);  // The value may be stored now only.
  }
  Advance(450);
  Hit();
  Expect(1, 0);
}

}  // namespace
}  // namespace flash_sale

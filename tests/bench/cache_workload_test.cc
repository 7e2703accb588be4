#include "peers/cache_workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace stockade::bench {
namespace {

constexpr int kDraws = 1 << 18;

std::vector<int> Counts(const CacheWorkload& workload, const CacheDraws::Zipf* zipf) {
  std::vector<int> counts(workload.keys);
  CacheDraws draws(workload, zipf, 0);
  for (int i = 0; i < kDraws; ++i) ++counts.at(draws.NextKey());
  return counts;
}

TEST(CacheDrawsTest, NextKey_Uniform_IsTheGeneratorOfTheHitRows) {
  CacheDraws draws({.keys = 1 << 20}, nullptr, 1);
  uint64_t state = 2 * 0x9E3779B97F4A7C15u;
  for (int i = 0; i < 1000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    EXPECT_EQ(draws.NextKey(), (state >> 33) & ((1 << 20) - 1));
  }
}

TEST(CacheDrawsTest, NextKey_Uniform_DrawsAllKeysAboutAsOften) {
  const std::vector<int> counts = Counts({.keys = 1024}, nullptr);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_GT(*least, kDraws / 1024 / 2);
  EXPECT_LT(*most, kDraws / 1024 * 2);
}

TEST(CacheDrawsTest, NextKey_Zipf_DrawsRanksAsOftenAsItsExponentSays) {
  const CacheDraws::Zipf zipf = CacheDraws::DrawZipf(1024);
  std::vector<int> counts = Counts({.keys = 1024}, &zipf);
  std::sort(counts.rbegin(), counts.rend());
  // The sum of rank^-0.99 over 1,024 ranks is 7.74.
  EXPECT_NEAR(counts[0], kDraws / 7.74, kDraws * 0.01);
  EXPECT_NEAR(counts[1], kDraws / 7.74 / 1.986, kDraws * 0.01);
  EXPECT_NEAR(counts[9], kDraws / 7.74 / 9.77, kDraws * 0.003);
}

TEST(CacheDrawsTest, IsWrite_TenPercent_IsTrueOfATenthWhateverTheKey) {
  CacheDraws draws({.keys = 2, .writes_percent = 10}, nullptr, 0);
  int writes[2] = {};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t key = draws.NextKey();
    writes[key] += draws.IsWrite() ? 1 : 0;
  }
  EXPECT_NEAR(writes[0], kDraws * 0.05, kDraws * 0.002);
  EXPECT_NEAR(writes[1], kDraws * 0.05, kDraws * 0.002);
}

TEST(CacheDrawsTest, Checksum_OtherKeysOrWrites_Differs) {
  const CacheWorkload workload = {.keys = 1024};
  CacheWorkload other = workload;
  EXPECT_EQ(CacheDraws::Checksum(workload, 1000), CacheDraws::Checksum(other, 1000));
  other.writes_percent = 1;
  EXPECT_NE(CacheDraws::Checksum(workload, 1000), CacheDraws::Checksum(other, 1000));
  other = workload;
  other.keys = 2048;
  EXPECT_NE(CacheDraws::Checksum(workload, 1000), CacheDraws::Checksum(other, 1000));
  other = workload;
  other.distribution = Distribution::kZipf;
  EXPECT_NE(CacheDraws::Checksum(workload, 1000), CacheDraws::Checksum(other, 1000));
}

}  // namespace
}  // namespace stockade::bench

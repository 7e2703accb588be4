#include "peers/cache_workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
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

TEST(CacheDrawsTest, NextKey_HotKey_IsAlwaysTheSame) {
  CacheDraws draws({.distribution = Distribution::kHotKey}, nullptr, 1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(draws.NextKey(), 0);
}

TEST(CacheDrawsTest, NextKey_Random_IsTheKeyOfTheDrawnNumber) {
  for (const Distribution distribution : {Distribution::kUniform, Distribution::kZipf, Distribution::kHotKey}) {
    const CacheWorkload dense = {.distribution = distribution};
    CacheWorkload random = dense;
    random.key_kind = KeyKind::kRandom;
    const CacheDraws::Zipf zipf = CacheDraws::DrawZipf(dense.keys);
    const auto* const table = distribution == Distribution::kZipf ? &zipf : nullptr;
    CacheDraws numbers(dense, table, 0);
    CacheDraws keys(random, table, 0);
    for (int i = 0; i < 1000; ++i) EXPECT_EQ(keys.NextKey(), random.KeyOf(numbers.NextKey()));
  }
}

TEST(CacheWorkloadTest, KeyOf_Random_IsUniqueAndNotEvenlySpreadByAMultiplicativeHash) {
  const CacheWorkload workload = {.key_kind = KeyKind::kRandom};
  std::set<uint64_t> keys;
  std::set<uint64_t> buckets;
  for (uint64_t number = 0; number < workload.keys; ++number) {
    keys.insert(workload.KeyOf(number));
    buckets.insert(workload.KeyOf(number) * 0x9E3779B97F4A7C15u >> 54);
  }
  EXPECT_EQ(keys.size(), 1024);
  // Of 1,024 buckets, 1,024 keys that are drawn independently leave 1 in e empty. The keys 0 to 1,023 leave fewer.
  EXPECT_NEAR(static_cast<double>(buckets.size()), 1024 * (1 - 1 / 2.718), 50);
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
  other = workload;
  other.key_kind = KeyKind::kRandom;
  EXPECT_NE(CacheDraws::Checksum(workload, 1000), CacheDraws::Checksum(other, 1000));
}

}  // namespace
}  // namespace stockade::bench

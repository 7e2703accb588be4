// The sums of the journal, by which a heartbeat confirms messages: whatever happens to them, to the messages and to the
// journal, each invalidation is reported once and in order.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/redis/tier_node.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

class TierSumsTest : public RedisTierTest {
 protected:
  uint64_t InvalidateWithoutSum(const std::string& key, bool sends) {
    return std::stoull(server.Call({"EVAL", kInvalidateWithoutSum, "2", kState, kJournal, key, sends ? key : ""}).text);
  }
};

constexpr uint64_t kInFirstReign = uint64_t{1} << 40;

TEST_F(TierSumsTest, SumsHaveForeignValues_EachInvalidationIsReportedOnce) {
  auto [a, b] = TwoNodes(server.url());
  AwaitSubscribed(a);
  std::string old_sums;
  size_t count = 0;
  uint64_t last = 0;
  const auto invalidate = [&] { last = b.InvalidateKey(std::to_string(count++)).position; };
  const auto check = [&](const std::string& sums) {
    ASSERT_TRUE(a.ear->AwaitPosition(last));
    ASSERT_EQ(a.ear->lines(), NumberedKeys(count)) << sums.substr(0, 100);
  };
  invalidate();
  const std::string right = server.Call({"HGET", kState, "m"}).text;
  for (const std::string& sums :
       {std::string(), std::string(" "), std::string("="), std::string(" = "), std::string(" 2= "), std::string(" =f "),
        std::string(" 99999999999999999999999999=00 "), std::string(" 1e3=00 "), right, right + right,
        right.substr(0, right.size() - 1), " 9007199254740993=" + std::string(20, 'a') + " ",
        " 3=" + std::string(1'000'000, 'f') + " ", std::string(1'000'000, ' '), std::string(5000, '\0'),
        std::string("\xff\xfe %s%d%%"), std::string(" 2=g ")}) {
    server.Call({"HSET", kState, "m", sums});
    for (int n = 0; n < 3; ++n) invalidate();
    check(sums);
    EXPECT_LE(server.Call({"HGET", kState, "m"}).text.size(), 1100u);
  }
}

// Between two heartbeats there are more invalidations than sums.
TEST_F(TierSumsTest, MoreInvalidationsThanSums_AreReportedOnceAndInOrder) {
  RedisCacheTierOptions options = PatientTier();
  options.heartbeat = absl::Seconds(2);  // Between two of them there is time for many messages.
  auto [a, b] = TwoNodes(server.url(), options, PatientTier());
  AwaitSubscribed(a);
  std::mutex blocking;
  a.ear->during = [&] { const std::lock_guard lock(blocking); };
  size_t count = 0;
  for (const bool loses_messages : {false, true, false}) {
    uint64_t last = 0;
    {
      const std::lock_guard lock(blocking);
      for (int n = 0; n < 300; ++n) {
        last = b.InvalidateKey(std::to_string(count++)).position;
        if (loses_messages && n == 150) server.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
      }
    }
    ASSERT_TRUE(a.ear->AwaitPosition(last));
    AwaitSubscribed(a);
  }
  Await("a heartbeat", [&] { return a.tier->Stats().caches[0].invalidations_applied == count; });
  EXPECT_EQ(a.ear->lines(), NumberedKeys(count));
  EXPECT_GT(a.tier->Stats().invalidation_messages, 100u);
}

// Processes with and without sums and messages invalidate at once, while somebody destroys the sums, the journal and
// the subscriptions.
TEST_F(TierSumsTest, AnythingIsLost_NothingIsReportedTwiceOrOutOfOrder) {
  const RedisCacheTierOptions silent = PatientTier([](auto& o) { o.pubsub = false; });
  std::vector<std::unique_ptr<TierNode>> nodes;
  for (int n = 0; n < 4; ++n) {
    nodes.push_back(std::make_unique<TierNode>(server.url(), n == 3 ? silent : PatientTier()));
  }
  std::mutex mutex;
  std::map<uint64_t, std::string> journal;
  const auto note = [&](uint64_t position, const std::string& key) {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(journal.emplace(position, key).second) << position;
  };
  const int64_t rounds = Scaled(400, 20'000);
  {
    std::vector<std::jthread> threads;
    for (size_t n = 0; n < nodes.size(); ++n) {
      threads.emplace_back([&, n] {
        for (int64_t round = 0; round < rounds; ++round) {
          const std::string key = std::to_string(n) + "-" + std::to_string(round);
          const TierInvalidated done = nodes[n]->InvalidateKey(key);
          EXPECT_TRUE(done.accepted);
          note(done.position, key);
        }
      });
    }
    std::mt19937_64 random(Seed());
    std::string old_sums;
    for (int64_t round = 0; round < rounds; ++round) {
      const std::string key = "older-" + std::to_string(round);
      switch (random() % 12) {
        case 0: server.Call({"HDEL", kState, "m"}); break;
        case 1: server.Call({"HSET", kState, "m", old_sums}); break;
        case 2: old_sums = server.Call({"HGET", kState, "m"}).text; break;
        case 3:
          if (random() % 8 == 0) server.Call({"CLIENT", "KILL", "TYPE", "pubsub"});
          break;
        case 4:
          if (random() % 16 == 0) server.Call({"DEL", kJournal});
          break;
        default: note(kInFirstReign + InvalidateWithoutSum(key, random() % 2 == 0), key);
      }
    }
  }
  for (const auto& node : nodes) {
    // A heartbeat that finds a gap drops everything, and reports nothing up to then.
    uint64_t last = 0;
    Await("an invalidation without a gap", [&] {
      const int resets = node->ear->resets();
      last = nodes[0]->InvalidateKey("last").position;
      note(last, "last");
      const auto is_reported = [&] {
        const std::vector<TierEar::Heard> heard = node->ear->heard();
        return !heard.empty() && heard.back().position == last;
      };
      Await("the report or a gap", [&] { return is_reported() || node->ear->resets() > resets; });
      return is_reported();
    });
    uint64_t before = kInFirstReign + 1;
    for (const TierEar::Heard& one : node->ear->heard()) {
      if (one.position > 0) {
        if (before > 0) {
          ASSERT_EQ(one.position, before + 1);
        }
        ASSERT_EQ(one.text, journal[one.position]) << one.position;
      }
      before = one.position;  // 0: what follows is later than what was lost.
    }
    EXPECT_EQ(before, last);
    EXPECT_TRUE(node->trusted());
  }
}

}  // namespace
}  // namespace stockade::testing

// Many threads of several processes over a versioned database, while connections are cut and keys are lost.
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

constexpr size_t kStressKeys = 8;

// Each write gives the key a new version, and then invalidates it: by the key, its tag, all, or a put. A question that
// begins after that must not be answered by an older version.
TEST(TierStressTest, CallsWritesAndFaults_NoAnswerIsOlderThanItsLastInvalidation) {
  STOCKADE_NEEDS_REDIS();
  RedisServer server;
  TcpProxy proxy(server.port());
  RedisCacheTierOptions options = PatientTier();
  options.heartbeat = absl::Milliseconds(5);
  options.timeout = absl::Seconds(2);
  options.lease = absl::Milliseconds(300);
  options.journal_length = 100;
  options.redis.max_backoff = absl::Milliseconds(20);
  const TierNode direct(server.url(), options);
  std::vector<std::unique_ptr<TierNode>> nodes;
  for (int n = 0; n < 4; ++n) {
    nodes.push_back(std::make_unique<TierNode>(n % 2 == 0 ? server.url() : RedisUrl(proxy.port()), options));
  }
  std::array<std::atomic<int>, kStressKeys> database{};
  std::array<std::atomic<int>, kStressKeys> floor{};  // What an accepted invalidation has made certain.
  std::atomic<int64_t> hits{0};
  std::atomic<int64_t> stored{0};
  std::atomic<int64_t> unaccepted{0};
  std::atomic<bool> stop{false};
  const int64_t calls = Scaled(3'000, 300'000);

  std::thread faults([&] {
    std::mt19937_64 random(Seed());
    while (!stop) {
      switch (random() % 12) {
        case 0: server.Call({"FLUSHALL"}); break;
        case 1: server.Call({"DEL", kJournal}); break;
        case 2: server.Call({"DEL", kState}); break;
        case 3: server.KillConnections(); break;
        default: proxy.CutReplyAfter(random() % 40);
      }
      poll(nullptr, 0, 20);
    }
  });
  RunThreads(8, [&](int thread) {
    TierNode& node = *nodes[static_cast<size_t>(thread) % nodes.size()];
    std::mt19937_64 random(Seed() + static_cast<uint64_t>(thread) + 1);
    for (int64_t call = 0; call < calls; ++call) {
      const size_t at = random() % kStressKeys;
      const std::string key = "k" + std::to_string(at);
      const std::string tag = "t" + std::to_string(at);
      const auto fill = [&](const TierLease& lease, int version) {
        if (node.Fill(key, lease, {.bytes = std::to_string(version), .tags = {tag}}).kind == Filled::kStored) {
          ++stored;
        }
      };
      if (random() % 8 != 0) {
        const int least = floor[at];
        const TierAnswer answer = node.Ask(key);
        if (answer.kind == Answer::kHit) {
          ASSERT_GE(std::stoi(answer.record->bytes), least) << key;
          ++hits;
        } else if (answer.kind == Answer::kGranted) {
          if (random() % 8 == 0) {
            node.cache->Fail(key, answer.lease);
          } else {
            fill(answer.lease, database[at]);
          }
        }
        continue;
      }
      const int version = ++database[at];
      const size_t kind = random() % 20;
      const TierTarget target = kind < 10   ? TierTarget{Target::kKey, key}
                                : kind < 19 ? TierTarget{Target::kTag, tag}
                                            : TierTarget{};
      const TierInvalidated done = node.cache->Await(node.cache->Queue(target), kind < 5);
      if (!done.accepted) {
        ++unaccepted;
        continue;
      }
      int least = floor[at];
      while (least < version && !floor[at].compare_exchange_weak(least, version)) {
      }
      if (!done.lease.token.empty()) fill(done.lease, database[at]);
    }
  });
  stop = true;
  faults.join();
  for (const auto& node : nodes) EXPECT_TRUE(node->AwaitAccepted());
  EXPECT_GT(hits, calls / 10);
  EXPECT_GT(stored, calls / 100);
  // Everything is accepted by now: one more pass over all keys.
  for (size_t at = 0; at < kStressKeys; ++at) {
    for (const auto& node : nodes) {
      TierAnswer answer;
      Await("an answer", [&] { return (answer = node->Ask("k" + std::to_string(at))).kind != Answer::kAway; });
      EXPECT_TRUE(answer.kind != Answer::kHit || std::stoi(answer.record->bytes) == database[at]);
    }
  }
  RecordProperty("hits", std::to_string(hits));
  RecordProperty("unaccepted", std::to_string(unaccepted));
}

}  // namespace
}  // namespace stockade::testing

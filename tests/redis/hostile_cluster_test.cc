// Clients of a cluster whose node lies, damages its replies and falls silent, by a seed: see HostileNode.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "redis/support/hostile_node.h"
#include "redis/support/hostile_run.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::EndsInTime;
using testing::HostileNode;
using testing::HostileRun;
using testing::Scaled;

// One thread's calls, of all forms.
class HostileCaller {
 public:
  HostileCaller(RedisClient& client, uint64_t seed) : client_(client), random_(seed) {}

  void Call() {
    const absl::Duration timeout = absl::Milliseconds(1 + static_cast<int64_t>(random_() % 150));
    const RedisCallOptions options = {.timeout = timeout};
    EndsInTime(timeout, [&] {
      switch (random_() % 8) {
        case 0: (void)client_.Run(Command(), options); return;
        case 1: (void)client_.Run(Command().Idempotent(), options); return;
        case 2: (void)client_.RunFuture(Command(), options).get(); return;
        case 3: (void)client_.RunMany(Commands(), options); return;
        case 4: (void)client_.RunTransaction(std::vector<RedisCommand>(1 + random_() % 3, Command()), options); return;
        case 5:
          (void)client_.Run(RedisCommand("GET").Key(Key()), {.timeout = timeout, .read_from = RedisReadFrom::kReplica});
          return;
        case 6: (void)client_.ServerOf(Key(), timeout); return;
        default: Listen(timeout); return;
      }
    });
  }

 private:
  std::string Key() { return Concat("k", random_() % 1000); }
  RedisCommand Command() {
    switch (random_() % 4) {
      case 0: return RedisCommand("SET").Key(Key()).Arg(1);
      case 1: return RedisCommand(script_, {Key()});
      case 2: return RedisCommand("PUBLISH").Arg("x").Arg("y");
      default: return RedisCommand("GET").Key(Key());
    }
  }
  std::vector<RedisCommand> Commands() {
    std::vector<RedisCommand> commands;
    for (uint64_t i = random_() % 20; i > 0; --i) commands.push_back(Command());
    return commands;
  }
  void Listen(absl::Duration timeout) {
    std::vector<RedisSubscription> subscriptions;
    for (int i = 0; i < 5; ++i) {
      auto subscription = client_.Subscribe(Key(), {.on_message = [](std::string_view) {}});
      if (subscription.ok()) subscriptions.push_back(*std::move(subscription));
    }
    if (!subscriptions.empty()) (void)subscriptions.front().AwaitSubscribed(timeout);
  }

  RedisClient& client_;
  std::mt19937_64 random_;
  const RedisScript script_{"return redis.call('GET', KEYS[1])"};
};

TEST(HostileClusterTest, AnySeed_CallsEndInTime_AndThreadsAndDescriptorsHaveABound) {
  constexpr int kCallers = 8;
  HostileRun(Scaled(6, 30), /*clients=*/1, kCallers, [](const HostileNode& node, uint64_t seed) {
    auto client = RedisClient::Connect(node.url(), {.connect_timeout = absl::Milliseconds(100),
                                                    .wait_for_connection = false,
                                                    .command_timeout = absl::Milliseconds(150),
                                                    .max_backoff = absl::Milliseconds(50),
                                                    .max_reply_bytes = size_t{4} << 20,
                                                    .max_nodes = testing::kHostileMaxNodes});
    ASSERT_TRUE(client.ok()) << client.status();
    testing::RunThreads(kCallers, [&](int i) {
      HostileCaller caller(**client, seed * kCallers + static_cast<uint64_t>(i));
      for (int call = 0; call < 15; ++call) caller.Call();
    });
  });
}

}  // namespace
}  // namespace stockade

// Redis stands still while an event loop gets, acquires and releases: the loop goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coroutine/coroutines.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/cache/coroutine.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/locks/coroutine.h"
#include "stockade/locks/redis_lock_service.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using TextCache = LoadingCache<std::string, std::string>;

class StoppedRedisTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_.emplace();
    locks_ = RedisLockService::Connect(server_->url(), {.service = {.metrics = nullptr}}).value();
    LoadingCacheOptions options = {.name = "pages", .metrics = nullptr};
    options.tier = RedisCacheTier::Connect(server_->url(), {.prefix = "loop",
                                                            .timeout = absl::Seconds(30),
                                                            .metrics = nullptr,
                                                            .redis = {.connect_timeout = absl::Seconds(30)}})
                       .value();
    const auto copy = [](const std::string& value, std::string* bytes) {
      *bytes = value;
      return absl::OkStatus();
    };
    cache_ = TextCache::Create(
                 options, {.load = [](const std::string& key) -> absl::StatusOr<std::string> { return "of " + key; },
                           .codec = {.id = "text/1",
                                     .encode_value = copy,
                                     .decode_value = [](std::string_view bytes) -> absl::StatusOr<std::string> {
                                       return std::string(bytes);
                                     }}})
                 .value();
  }

  // On the loop. It ends only when the loop is free.
  template <typename Task>
  void RunOnLoop(Task task) {
    std::promise<void> done;
    loop_.Schedule([&] {
      task();
      done.set_value();
    });
    done.get_future().get();
  }

  std::optional<RedisServer> server_;
  ThreadPool loop_{1};
  std::unique_ptr<LockService> locks_;
  std::unique_ptr<TextCache> cache_;
};

Detached Gets(TextCache& cache, AwaitOn on, absl::Status& status, std::atomic<int>& answers) {
  const absl::StatusOr<CacheHandle<std::string>> got = co_await GetAwait(cache, "cold", on);
  status = got.status();
  ++answers;
}
Detached Acquires(LockService& locks, AwaitOn on, absl::Status& status, std::atomic<int>& answers) {
  const absl::StatusOr<LockLease> lease = co_await AcquireAwait(locks, "other", on);
  status = lease.status();
  ++answers;
}
Detached Releases(LockLease lease, AwaitOn on, absl::Status& status, std::atomic<int>& answers) {
  status = co_await ReleaseAwait(std::move(lease), on);
  ++answers;
}
Detached Holds(LockService& locks, AwaitOn on, std::promise<LockLease>& held) {
  held.set_value((co_await AcquireAwait(locks, "held", on)).value());
}

TEST_F(StoppedRedisTest, EachCallIsAnsweredWhileRedisStandsStill_AndNothingIsHeldAfterwards) {
  const AwaitOn on(loop_);
  std::promise<LockLease> promised;
  Holds(*locks_, on, promised);
  LockLease held = promised.get_future().get();
  LockLease released = locks_->Acquire("released", {.owner = LockOwner::New()}).value();
  server_->Pause();
  const AwaitOn soon = on.By(Clock::System()->Now() + absl::Milliseconds(50));
  absl::Status got, acquired, freed;
  std::atomic<int> answers = 0;
  // The loop begins all of it, destroys a lease, and is free again.
  RunOnLoop([&] {
    Gets(*cache_, soon, got, answers);
    Acquires(*locks_, soon, acquired, answers);
    Releases(std::move(released), soon, freed, answers);
    held = LockLease();
  });
  Await("the answers", [&] { return answers == 3; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(got)) << got;
  EXPECT_TRUE(absl::IsDeadlineExceeded(acquired)) << acquired;
  EXPECT_TRUE(absl::IsUnavailable(freed)) << freed;
  server_->Resume();
  for (const char* const name : {"held", "released", "other"}) {
    Await("a free lock",
          [&] { return locks_->Acquire(name, {.wait = absl::Seconds(1), .owner = LockOwner::New()}).ok(); });
  }
  EXPECT_EQ(**cache_->Get("cold"), "of cold");
}

}  // namespace
}  // namespace stockade::testing

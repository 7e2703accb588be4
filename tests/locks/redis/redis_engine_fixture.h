#ifndef STOCKADE_TESTS_LOCKS_REDIS_REDIS_ENGINE_FIXTURE_H_
#define STOCKADE_TESTS_LOCKS_REDIS_REDIS_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "locks/holder.h"
#include "redis/support/ear.h"
#include "redis/support/redis_server.h"
#include "redis_lock_engine.h"
#include "redis_lock_keys.h"

namespace stockade::testing {

// Null, and a failure that says why, where it cannot be had.
inline std::unique_ptr<locks_internal::RedisLockEngine> EngineOn(const std::string& url,
                                                                 RedisLockOptions options = {}) {
  absl::StatusOr<std::unique_ptr<locks_internal::RedisLockEngine>> engine =
      locks_internal::RedisLockEngine::Connect(url, std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// Each hint is a message to the ear.
inline std::function<void()> HintTo(Ear& ear) {
  return [hint = ear.subscriber().on_message] { hint("hint"); };
}

// A server, an engine on it, and a look behind the engine's back.
class RedisEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    engine_ = EngineOn(server_->url());
    ASSERT_NE(engine_, nullptr);
  }

  std::string FieldOf(const Holder& holder) const {
    return locks_internal::LockHolder(engine_->client_id(), holder.hold());
  }
  std::string RecordOf(const Holder& holder) const {
    return locks_internal::LockRecordKey(holder.hold().name, FieldOf(holder));
  }
  RawReply Call(const std::vector<std::string>& command) const { return server_->Call(command); }
  int64_t Number(const std::vector<std::string>& command) const {
    const RawReply reply = Call(command);
    EXPECT_EQ(reply.type, ':') << reply;
    return reply.type == ':' ? std::stoll(reply.text) : 0;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<locks_internal::RedisLockEngine> engine_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_REDIS_REDIS_ENGINE_FIXTURE_H_

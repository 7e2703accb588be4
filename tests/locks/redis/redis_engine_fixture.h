#ifndef STOCKADE_TESTS_LOCKS_REDIS_REDIS_ENGINE_FIXTURE_H_
#define STOCKADE_TESTS_LOCKS_REDIS_REDIS_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "redis/support/ear.h"
#include "redis/support/redis_server.h"
#include "redis_lock_engine.h"
#include "redis_lock_keys.h"

namespace stockade::testing {

// Null, and a failure that says why, where it cannot be had.
inline std::unique_ptr<internal::RedisLockEngine> EngineOn(const std::string& url, RedisLockOptions options = {}) {
  absl::StatusOr<std::unique_ptr<internal::RedisLockEngine>> engine =
      internal::RedisLockEngine::Connect(url, std::move(options));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

// One owner of locks of an engine, whose steps are numbered as the engine wants them.
class Holder {
 public:
  Holder(LockEngine& engine, std::string name, LockKind kind = LockKind::kReentrant, LockOwner owner = LockOwner::New())
      : engine_(engine), hold_{.name = std::move(name), .kind = kind, .owner = owner.id()} {}

  LockTry Try(absl::Duration lease = absl::Seconds(30), bool queue = false) {
    ++sequence_;
    return TryAgain(lease, queue);
  }
  // The newest step once more.
  LockTry TryAgain(absl::Duration lease = absl::Seconds(30), bool queue = false) {
    LockTry step = {.hold = hold_, .lease = lease, .sequence = sequence_, .queue = queue, .timeout = absl::Seconds(20)};
    engine_.TryMany({&step, 1});
    return step;
  }
  LockTry Queue(absl::Duration lease = absl::Seconds(30)) { return Try(lease, true); }

  LockRelease Release(int64_t keep = 0, bool repeated = false) {
    return Send({.hold = hold_, .keep = keep, .sequence = ++sequence_, .repeated = repeated});
  }
  LockRelease ReleaseAgain(int64_t keep = 0) {
    return Send({.hold = hold_, .keep = keep, .sequence = sequence_, .repeated = true, .resent = true});
  }
  LockRelease GiveUp(int64_t keep = 0) {
    return Send({.hold = hold_, .keep = keep, .sequence = ++sequence_, .gives_up = true});
  }

  LockRenewal Renew(absl::Duration lease) {
    LockRenewal renewal = {.hold = hold_, .lease = lease};
    engine_.RenewMany({&renewal, 1}, absl::Seconds(20));
    EXPECT_TRUE(renewal.status.ok()) << renewal.status;
    return renewal;
  }

  LockState Inspect() {
    const absl::StatusOr<LockState> state = engine_.Inspect(hold_, absl::Seconds(20));
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? *state : LockState();
  }

  // Each hint is a message to the ear.
  std::unique_ptr<LockWatch> Hear(Ear& ear) {
    return engine_.Watch(hold_, [hint = ear.subscriber().on_message] { hint("hint"); });
  }

  const HoldKey& hold() const { return hold_; }
  uint64_t sequence() const { return sequence_; }
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }

 private:
  LockRelease Send(LockRelease step) {
    step.timeout = absl::Seconds(20);
    engine_.Release(step);
    return step;
  }

  LockEngine& engine_;
  const HoldKey hold_;
  uint64_t sequence_ = 0;
};

// A server, an engine on it, and a look behind the engine's back.
class RedisEngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    server_ = std::make_unique<RedisServer>();
    engine_ = EngineOn(server_->url());
    ASSERT_NE(engine_, nullptr);
  }

  std::string FieldOf(const Holder& holder) const { return internal::LockHolder(engine_->client_id(), holder.hold()); }
  std::string RecordOf(const Holder& holder) const {
    return internal::LockRecordKey(holder.hold().name, FieldOf(holder));
  }
  RawReply Call(const std::vector<std::string>& command) const { return server_->Call(command); }
  int64_t Number(const std::vector<std::string>& command) const {
    const RawReply reply = Call(command);
    EXPECT_EQ(reply.type, ':') << reply;
    return reply.type == ':' ? std::stoll(reply.text) : 0;
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<internal::RedisLockEngine> engine_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_REDIS_REDIS_ENGINE_FIXTURE_H_

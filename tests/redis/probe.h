#ifndef STOCKADE_TESTS_REDIS_PROBE_H_
#define STOCKADE_TESTS_REDIS_PROBE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "stockade/redis/redis_client.h"

namespace stockade::testing {

// A command whose reply no other command's reply can be taken for.
struct Probe {
  RedisCommand command;
  std::string reply = {};       // As RedisReply::ToString() has it; or
  std::string error_code = {};  // the code of the error that it is answered with.

  // Fails the test where the reply is another command's. False: there was none, and the status says so.
  bool Answered(const absl::StatusOr<RedisReply>& result) const {
    const std::string code = RedisErrorCode(result.status());
    if (!result.ok() && code.empty()) return false;
    EXPECT_EQ(code, error_code) << result.status();
    if (result.ok() && error_code.empty()) {
      if (result->kind() == RedisReply::Kind::kString) {
        EXPECT_TRUE(result->text() == reply) << result->ToString();
      } else {
        EXPECT_EQ(result->ToString(), reply);
      }
    }
    return true;
  }
};

// Makes probes at random, of the commands that locks, inventory and cache send most. For one thread.
class ProbeMaker {
 public:
  static constexpr int kPlaces = 64;

  // Puts what MGET and the errors need.
  static void Prepare(RedisClient& redis) {
    for (int i = 0; i < kPlaces; ++i) {
      const std::string at = Place(i);
      const absl::StatusOr<RedisReply> set =
          redis.Run(RedisCommand("MSET").Key(at + "a").Arg(i).Key(at + "b").Arg(-i).Idempotent());
      ASSERT_TRUE(set.ok()) << set.status();
    }
  }

  // `owner`: no other maker's.
  ProbeMaker(std::string owner, uint64_t seed) : owner_(std::move(owner)), random_(seed) {}

  Probe Next() {
    std::string unique = owner_ + ":" + std::to_string(next_++);
    const int place = static_cast<int>(random_() % kPlaces);
    const std::string key = Place(place);
    switch (random_() % 8) {
      case 0: return {.command = RedisCommand("LPUSH").Key(key + "a").Arg(unique), .error_code = "WRONGTYPE"};
      case 1:
        return {.command = RedisCommand("MGET").Key(key + "a").Key(key + "b").Key(key + "c"),
                .reply = "[\"" + std::to_string(place) + "\", \"" + std::to_string(-place) + "\", (nil)]"};
      case 2:
      case 3:
        return {.command = RedisCommand(script_, {key + "a", key + "b"}).Arg(unique),
                .reply = "[\"" + key + "a\", \"" + key + "b\", \"" + unique + "\", " + std::to_string(place) + "]"};
      case 4: unique.append(random_() % 20'000, 'x'); [[fallthrough]];
      default: return {.command = RedisCommand("ECHO").Arg(unique), .reply = unique};
    }
  }

 private:
  // What stands before the keys of a place, which are of one slot.
  static std::string Place(int i) { return "place{" + std::to_string(i) + "}"; }

  const std::string owner_;
  std::mt19937_64 random_;
  uint64_t next_ = 0;
  const RedisScript script_{"return {KEYS[1], KEYS[2], ARGV[1], tonumber(redis.call('GET', KEYS[1]))}"};
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_PROBE_H_

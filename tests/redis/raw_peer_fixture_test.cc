#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "redis/support/raw_peer.h"
#include "redis/support/raw_redis.h"

namespace stockade::testing {
namespace {

TEST(RawPeerFixtureTest, SendTo_OneThatDoesNotRead_OthersAreAnswered) {
  RawPeer peer([](size_t, const std::string&) { return "+OK\r\n"; });
  std::optional<RawRedis> deaf(peer.port());
  ASSERT_EQ(deaf->Call({"PING"}), "OK");
  std::atomic<bool> ended = false;
  std::thread flood([&] {
    const std::string bytes(1 << 20, 'x');
    while (peer.SendTo(0, bytes)) {
    }
    ended = true;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(CallRedis(peer.port(), {"PING"}), "OK");
  EXPECT_FALSE(ended);
  deaf.reset();
  flood.join();
}

}  // namespace
}  // namespace stockade::testing

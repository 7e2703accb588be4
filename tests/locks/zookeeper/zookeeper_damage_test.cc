// Servers whose replies lack what they should have. A reply with a null path of a created node is not among them: the
// client of ZooKeeper frees memory there that it has not set.
#include <atomic>
#include <cstdint>
#include <string>

#include "locks/zookeeper/zookeeper_engine_fixture.h"
#include "support/tcp_proxy.h"

namespace stockade {
namespace {

using testing::Holder;
using ::testing::SizeIs;
using testing::ZooKeeperEngineOn;
using testing::ZooKeeperEngineTest;
using testing::ZooKeeperUrl;

uint32_t NumberAt(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t n = 0; n < 4; ++n) number = number << 8 | static_cast<unsigned char>(bytes[at + n]);
  return number;
}

std::string Bytes(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift & 0xff));
  return bytes;
}

constexpr uint32_t kNull = 0xffffffff;  // The length of a null string.
constexpr size_t kReplyHead = 16;       // Of the request's number, the transaction's, and the error.

// The payload of a reply that names children, without their names. Others stay as they are.
std::string Damaged(const std::string& payload) {
  if (payload.size() < kReplyHead + 4 || NumberAt(payload, 12) != 0) return payload;
  const uint32_t count = NumberAt(payload, kReplyHead);
  if (count == 0 || count > 100) return payload;
  size_t at = kReplyHead + 4;
  for (uint32_t n = 0; n < count; ++n) {
    if (at + 4 > payload.size()) return payload;
    at += 4 + NumberAt(payload, at);
  }
  if (at != payload.size()) return payload;
  std::string damaged = payload.substr(0, kReplyHead + 4);
  for (uint32_t n = 0; n < count; ++n) damaged += Bytes(kNull);
  return damaged;
}

// The frames of a connection's server, of which some are damaged.
class DamagingFilter {
 public:
  DamagingFilter(const std::atomic<bool>& damages, std::atomic<int>& damaged) : damages_(damages), damaged_(damaged) {}

  std::string operator()(const std::string& from_server) {
    arrived_.append(from_server);
    std::string passed;
    while (arrived_.size() >= 4 && arrived_.size() >= 4 + NumberAt(arrived_, 0)) {
      const size_t size = NumberAt(arrived_, 0);
      const std::string sound = arrived_.substr(4, size);
      arrived_.erase(0, 4 + size);
      const std::string payload = introduced_ && damages_ ? Damaged(sound) : sound;
      introduced_ = true;  // The first frame answers the request for a session.
      if (payload != sound) ++damaged_;
      passed += Bytes(static_cast<uint32_t>(payload.size())) + payload;
    }
    return passed;
  }

 private:
  const std::atomic<bool>& damages_;
  std::atomic<int>& damaged_;
  std::string arrived_;
  bool introduced_ = false;
};

class ZooKeeperDamageTest : public ZooKeeperEngineTest {};

TEST_F(ZooKeeperDamageTest, NullStrings_CountAsLostReplies) {
  std::atomic<bool> damages = false;
  std::atomic<int> damaged = 0;
  testing::TcpProxy proxy(server_->port());
  proxy.FilterReplies([&] { return DamagingFilter(damages, damaged); });
  const uint16_t port = proxy.port();
  const auto engine =
      ZooKeeperEngineOn(ZooKeeperUrl({&port, 1}, server_->tick()), {.session_timeout = absl::Seconds(20)});
  ASSERT_NE(engine, nullptr);
  Holder other(*engine_, "a");
  ASSERT_TRUE(other.Try().acquired);  // A child to name.
  Holder holder(*engine, "a");
  damages = true;
  LockTry step = holder.Queue();
  EXPECT_TRUE(absl::IsUnavailable(step.status)) << step.status;
  EXPECT_GT(damaged, 0);
  damages = false;
  ASSERT_TRUE(other.Release().held);
  while (!step.acquired) step = holder.TryAgain(absl::Seconds(30), true);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
  EXPECT_TRUE(holder.Release().held);
  AwaitNodes("a", 0);
}

}  // namespace
}  // namespace stockade

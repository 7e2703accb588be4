// Servers whose replies lack what they should have. A reply with a null path of a created node is not among them: the
// client of ZooKeeper frees memory there that it has not set.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

#include "locks/zookeeper/zookeeper_engine_fixture.h"

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

// Passes frames between clients and a server, one connection after the other.
class DamagingProxy {
 public:
  explicit DamagingProxy(uint16_t server_port) : server_port_(server_port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }
  ~DamagingProxy() {
    thread_.request_stop();
    thread_.join();
    close(listener_);
  }

  uint16_t port() const { return port_; }
  void Damage(bool damages) { damages_ = damages; }
  int damaged() const { return damaged_; }

 private:
  static bool Readable(int fd) {
    pollfd ready = {.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&ready, 1, 10) > 0;
  }

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!Readable(listener_)) continue;
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const sockaddr_in address = {
          .sin_family = AF_INET, .sin_port = htons(server_port_), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
      if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
        Pass(client, server, stop);
      }
      close(client);
      close(server);
    }
  }

  void Pass(int client, int server, const std::stop_token& stop) {
    std::string from_server;
    bool introduced = false;  // The first frame answers the request for a session.
    while (!stop.stop_requested()) {
      std::array<pollfd, 2> ready = {pollfd{.fd = client, .events = POLLIN, .revents = 0},
                                     pollfd{.fd = server, .events = POLLIN, .revents = 0}};
      if (poll(ready.data(), ready.size(), 10) <= 0) continue;
      std::array<char, 65536> buffer;
      if (ready[0].revents != 0) {
        const ssize_t got = read(client, buffer.data(), buffer.size());
        if (got <= 0 || write(server, buffer.data(), static_cast<size_t>(got)) != got) return;
      }
      if (ready[1].revents == 0) continue;
      const ssize_t got = read(server, buffer.data(), buffer.size());
      if (got <= 0) return;
      from_server.append(buffer.data(), static_cast<size_t>(got));
      while (from_server.size() >= 4 && from_server.size() >= 4 + NumberAt(from_server, 0)) {
        const size_t size = NumberAt(from_server, 0);
        const std::string sound = from_server.substr(4, size);
        const std::string payload = introduced && damages_ ? Damaged(sound) : sound;
        introduced = true;
        from_server.erase(0, 4 + size);
        if (payload != sound) ++damaged_;
        const std::string frame = Bytes(static_cast<uint32_t>(payload.size())) + payload;
        if (write(client, frame.data(), frame.size()) != static_cast<ssize_t>(frame.size())) return;
      }
    }
  }

  const uint16_t server_port_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<bool> damages_{false};
  std::atomic<int> damaged_{0};
  std::jthread thread_;
};

class ZooKeeperDamageTest : public ZooKeeperEngineTest {};

TEST_F(ZooKeeperDamageTest, NullStrings_CountAsLostReplies) {
  DamagingProxy proxy(server_->port());
  const uint16_t port = proxy.port();
  const auto engine =
      ZooKeeperEngineOn(ZooKeeperUrl({&port, 1}, server_->tick()), {.session_timeout = absl::Seconds(20)});
  ASSERT_NE(engine, nullptr);
  Holder other(*engine_, "a");
  ASSERT_TRUE(other.Try().acquired);  // A child to name.
  Holder holder(*engine, "a");
  proxy.Damage(true);
  LockTry step = holder.Queue();
  EXPECT_TRUE(absl::IsUnavailable(step.status)) << step.status;
  EXPECT_GT(proxy.damaged(), 0);
  proxy.Damage(false);
  ASSERT_TRUE(other.Release().held);
  while (!step.acquired) step = holder.TryAgain(absl::Seconds(30), true);
  EXPECT_THAT(Nodes("a"), SizeIs(1));
  EXPECT_TRUE(holder.Release().held);
  AwaitNodes("a", 0);
}

}  // namespace
}  // namespace stockade

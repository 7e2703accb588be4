// Servers that lie: replies that lack what they should have, errors that did not happen, lists of other nodes, damaged
// bodies, and silence. No reply ends the process, holds a call up for longer than its time-outs, or keeps threads and
// connections. Left out is what the C client of ZooKeeper does not survive: docs/DISTRIBUTED_LOCKS.md has that.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "locks/zookeeper/zookeeper_engine_fixture.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/locks/zookeeper_lock_service.h"
#include "support/process_counts.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::CountDescriptors;
using testing::CountThreads;
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

// What the filters of all connections share.
struct Lies {
  std::atomic<uint64_t> seed{1};  // Of the next connection.
  std::atomic<int> per_mille{0};  // Of the frames that are changed.
  std::atomic<uint64_t> told{0};
};

// Changes the frames of one connection's server. The seed decides.
class LyingFilter {
 public:
  explicit LyingFilter(Lies& lies) : lies_(lies), random_(lies.seed.fetch_add(1)) {}

  std::string operator()(const std::string& from_server) {
    arrived_.append(from_server);
    std::string passed;
    while (!silent_ && arrived_.size() >= 4 && arrived_.size() >= 4 + NumberAt(arrived_, 0)) {
      const size_t size = NumberAt(arrived_, 0);
      std::string payload = arrived_.substr(4, size);
      arrived_.erase(0, 4 + size);
      // The first frame answers the request for a session.
      if (std::exchange(introduced_, true) && static_cast<int>(random_() % 1000) < lies_.per_mille) {
        ++lies_.told;
        payload = Changed(std::move(payload));
      }
      if (!silent_) passed += Bytes(static_cast<uint32_t>(payload.size())) + payload;
    }
    return passed;
  }

 private:
  std::string Changed(std::string payload) {
    const bool is_answer = payload.size() >= kReplyHead && NumberAt(payload, 0) < 0x80000000;
    const std::string head = payload.substr(0, std::min(kReplyHead, payload.size()));
    const std::string body = payload.substr(head.size());
    switch (random_() % 5) {
      case 0: silent_ = random_() % 3 == 0; return payload;
      case 1: {
        if (!is_answer) return payload;
        constexpr int kErrors[] = {-1,   -4,   -5,   -6,   -7,   -8,   -101, -102, -103,
                                   -108, -110, -111, -112, -114, -118, -999, 7};
        const auto error = static_cast<uint32_t>(kErrors[random_() % std::size(kErrors)]);
        return head.substr(0, 12) + Bytes(error) + (IsFragile(body) || random_() % 2 == 0 ? body : "");
      }
      case 2:  // An event that did not happen.
        return Bytes(kNull) + Bytes(kNull) + Bytes(kNull) + Bytes(0) + Bytes(static_cast<uint32_t>(random_() % 5)) +
               Bytes(3) + Text("/stockade/locks/lock");
      default: return is_answer && NumberAt(payload, 12) == 0 ? head + OtherBody(body) : payload;
    }
  }

  // The client frees memory that it has not set if the path of a created node cannot be read, and aborts if the results
  // of a transaction end early. So these are left as they are. Each result of a transaction begins with a number, a
  // byte and an error, which is 0, or the same number again. A list of names has a letter there.
  static bool IsFragile(std::string_view body) {
    return body.size() <= 8 || body[4] == '/' || body[8] == '\0' || NumberAt(body, 0) == kNull;
  }

  std::string OtherBody(std::string body) {
    if (IsFragile(body)) return body;
    switch (random_() % 5) {
      case 0: return body.substr(0, random_() % body.size());
      case 1: return body + std::string(random_() % 64, static_cast<char>(random_()));
      case 2: {  // Other names.
        const uint32_t count = static_cast<uint32_t>(random_() % 5);
        std::string names = Bytes(count);
        for (uint32_t n = 0; n < count; ++n) names += random_() % 3 == 0 ? Bytes(kNull) : Text(Name());
        return names + std::string(68, '\0');
      }
      case 3: return Bytes(0);
      default:
        for (size_t n = random_() % 4 + 1; n > 0; --n) body[random_() % body.size()] = static_cast<char>(random_());
        return body;
    }
  }

  std::string Name() {
    constexpr const char* kNames[] = {"", "x", "lock-0000000000", "-0000000001", "write-9999999999", "read-2147483647"};
    return random_() % 4 == 0 ? std::string(random_() % 300, 'n') : kNames[random_() % std::size(kNames)];
  }
  static std::string Text(const std::string& text) { return Bytes(static_cast<uint32_t>(text.size())) + text; }

  Lies& lies_;
  std::mt19937_64 random_;
  std::string arrived_;
  bool introduced_ = false;
  bool silent_ = false;
};

class ZooKeeperHostileTest : public testing::ZooKeeperEngineTest {};

TEST_F(ZooKeeperHostileTest, ServerLies_CallsEndAndTheServiceGoesOnAfterwards) {
  Lies lies;
  lies.seed = testing::Seed();
  testing::TcpProxy proxy(server_->port());
  proxy.FilterReplies([&] { return LyingFilter(lies); });
  const uint16_t port = proxy.port();
  ZooKeeperLockOptions options = {.session_timeout = absl::Seconds(4)};
  options.service.engine_timeout = absl::Milliseconds(500);
  options.service.metrics = nullptr;
  auto service = ZooKeeperLockService::Connect(testing::ZooKeeperUrl({&port, 1}, server_->tick()), options).value();
  const size_t threads = CountThreads();
  const size_t descriptors = CountDescriptors();
  lies.per_mille = 60;
  const int64_t calls = std::max<int64_t>(testing::Scaled(100, 300), 50);
  testing::RunThreads(3, [&](int thread) {
    for (int64_t i = 0; i < calls; ++i) {
      const Instant start = Clock::System()->Now();
      const std::string name = Concat("lock ", i % 5);
      const LockKind kind = i % 3 == 0 ? LockKind::kRead : i % 3 == 1 ? LockKind::kWrite : LockKind::kFair;
      auto lease = service->Acquire(name, {.kind = kind, .wait = absl::Milliseconds(20)});
      if (lease.ok()) (void)lease->Release();
      if (i % 7 == 0) (void)service->Inspect(name);
      if (i % 11 == 0) (void)service->ForceRelease(name);
      EXPECT_LT(Clock::System()->Now() - start, absl::Minutes(2)) << thread << ", call " << i;
    }
  });
  EXPECT_GT(lies.told, 0U);
  testing::Await("threads and connections to end",
                 [&] { return CountThreads() <= threads + 6 && CountDescriptors() <= descriptors + 12; });
  lies.per_mille = 0;
  proxy.CloseAll();
  testing::Await("a lock that can be acquired", [&] {
    auto lease = service->Acquire("another", {.wait = absl::Seconds(5)});
    return lease.ok() && lease->Release().ok();
  });
}

}  // namespace
}  // namespace stockade

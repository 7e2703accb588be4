// Locks whose server lies. It may say that a lock is held by whom it likes; but no reply ends the process, holds a call
// up for longer than its time-outs, or keeps threads and connections.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "locks/mysql/mysql_engine_fixture.h"
#include "mysql/support/mysql_mangler.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/locks/mysql_lock_service.h"
#include "support/await.h"
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
using testing::Scaled;

constexpr absl::Duration kTimeout = absl::Milliseconds(300);

class MySqlHostileTest : public testing::MySqlEngineTest {
 protected:
  void SetUp() override {
    MySqlEngineTest::SetUp();
    if (IsSkipped()) return;
    proxy_ = std::make_unique<testing::TcpProxy>(server().port());
    mangling_.seed = testing::Seed();
    testing::Mangle(*proxy_, mangling_);
  }
  absl::StatusOr<std::unique_ptr<LockService>> Connect() const {
    return MySqlLockService::Connect(testing::MariaDbServer::UrlOf(proxy_->port()),
                                     {.service = {.engine_timeout = kTimeout, .metrics = nullptr},
                                      .connect_timeout = kTimeout,
                                      .max_connections = 4,
                                      .purge_interval = absl::Milliseconds(50)});
  }

  testing::MySqlMangling mangling_;
  std::unique_ptr<testing::TcpProxy> proxy_;
};

TEST_F(MySqlHostileTest, ServerLies_CallsEndAndTheServiceGoesOnAfterwards) {
  std::unique_ptr<LockService> service;
  testing::Await("a connection in a short time", [&] {
    auto connected = Connect();
    if (connected.ok()) service = *std::move(connected);
    return service != nullptr;
  });
  const size_t threads = CountThreads();
  const size_t descriptors = CountDescriptors();
  mangling_.per_mille = 60;
  mangling_.login_per_mille = 20;
  const int64_t calls = std::max<int64_t>(Scaled(100, 400), 50);
  testing::RunThreads(3, [&](int thread) {
    for (int64_t i = 0; i < calls; ++i) {
      const Instant start = Clock::System()->Now();
      const std::string name = Concat("lock ", i % 5);
      const LockKind kind = i % 3 == 0 ? LockKind::kRead : i % 3 == 1 ? LockKind::kWrite : LockKind::kReentrant;
      auto lease = service->Acquire(name, {.kind = kind, .wait = absl::Milliseconds(20), .lease = absl::Seconds(1)});
      if (lease.ok()) (void)lease->Release();
      if (i % 7 == 0) (void)service->Inspect(name);
      if (i % 11 == 0) (void)service->ForceRelease(name);
      if (i % 13 == 0) (void)Connect();
      EXPECT_LT(Clock::System()->Now() - start, absl::Minutes(2)) << thread << ", call " << i;
    }
  });
  EXPECT_GT(mangling_.changed, 0U);
  testing::Await("threads and connections to end",
                 [&] { return CountThreads() <= threads + 4 && CountDescriptors() <= descriptors + 12; });
  mangling_.per_mille = 0;
  mangling_.login_per_mille = 0;
  proxy_->CloseAll();
  testing::Await("a lock that can be acquired", [&] {
    auto lease = service->Acquire("another", {.wait = absl::Seconds(5)});
    return lease.ok() && lease->Release().ok();
  });
}

}  // namespace
}  // namespace stockade

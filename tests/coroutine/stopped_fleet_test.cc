// The servers of a fleet's stock stand still while an event loop reserves and commits: the loop goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "coroutine/coroutines.h"
#include "inventory/fleet/fleet_test.h"
#include "redis/support/redis_server.h"
#include "stockade/base/clock.h"
#include "stockade/inventory/coroutine.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;

Detached Reserves(Inventory& shop, std::string id, AwaitOn on, absl::Status& status, std::atomic<int>& answers) {
  const ReserveRequest request = {.sku = "shoe", .request_id = id, .ttl = absl::Minutes(10)};
  status = (co_await ReserveAwait(shop, request, on)).status();
  ++answers;
}
Detached Commits(Inventory& shop, OrderId id, AwaitOn on, absl::Status& status, std::atomic<int>& answers) {
  status = co_await CommitAwait(shop, id, on);
  ++answers;
}

class StoppedFleetTest : public FleetTest {};

TEST_F(StoppedFleetTest, EachCallIsAnsweredWhileTheServersStandStill_AndTheSameRequestSaysWhatBecameOfIt) {
  STOCKADE_NEEDS_REDIS();
  RedisServer node;
  FleetInventoryOptions options = Options();
  options.redis = {node.url()};
  const std::unique_ptr<Inventory> shop = Connect(options);
  ASSERT_TRUE(shop->AddSku("shoe", {.stock = 10, .redis_segments = true}).ok());
  const absl::StatusOr<Reservation> held =
      shop->Reserve({.sku = "shoe", .request_id = "held", .ttl = absl::Minutes(10)});
  ASSERT_TRUE(held.ok()) << held.status();
  node.Pause();
  server().Pause();
  absl::Status reserved, committed;
  std::atomic<int> answers = 0;
  {
    ThreadPool loop(1);
    std::promise<void> free_again;
    loop.Schedule([&] {
      const AwaitOn soon(loop, {}, Clock::System()->Now() + absl::Milliseconds(50));
      Reserves(*shop, "new", soon, reserved, answers);
      Commits(*shop, held->id(), soon, committed, answers);
      free_again.set_value();
    });
    free_again.get_future().get();
    Await("the answers", [&] { return answers == 2; });
  }
  for (const absl::Status& status : {reserved, committed}) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the outcome is unknown"));
  }
  server().Resume();
  node.Resume();
  EXPECT_EQ(shop->Commit(held->id()), absl::OkStatus());
  EXPECT_TRUE(shop->Reserve({.sku = "shoe", .request_id = "new", .ttl = absl::Minutes(10)}).ok());
  const StockFigures figures = shop->Figures("shoe").value();
  EXPECT_EQ(figures.held, 1);
  EXPECT_EQ(figures.sold, 1);
  EXPECT_EQ(figures.available, 8);
}

}  // namespace
}  // namespace stockade::testing

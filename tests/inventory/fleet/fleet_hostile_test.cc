// A fleet whose server lies. What it says of units cannot be checked; but no reply ends the process, holds a call up
// for longer than its time-outs, or keeps threads and connections, and the tables stay whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "inventory/fleet/fleet_faults_test.h"
#include "mysql/support/mysql_mangler.h"
#include "stockade/base/clock.h"
#include "support/await.h"
#include "support/process_counts.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using base_internal::Concat;
using testing::CountDescriptors;
using testing::CountThreads;
using testing::MySqlMangling;
using testing::RunThreads;
using testing::Scaled;

constexpr absl::Duration kPatience = absl::Milliseconds(300);
// A call ends within a few times its patience and that of connecting. A busy machine takes longer.
constexpr absl::Duration kGenerous = absl::Minutes(2);

class FleetHostileTest : public testing::FleetFaultsTest {
 protected:
  void SetUp() override {
    FleetFaultsTest::SetUp();
    if (IsSkipped()) return;
    mangling_.seed = testing::Seed();
    testing::Mangle(proxy(), mangling_);
  }
  FleetInventoryOptions Lying() const {
    FleetInventoryOptions options = ByProxy(kPatience);
    options.connect_timeout = kPatience;
    options.lanes = 2;
    return options;
  }
  template <typename Call>
  static void ExpectItEnds(const std::string& what, Call call) {
    const Instant start = Clock::System()->Now();
    call();
    EXPECT_LT(Clock::System()->Now() - start, kGenerous) << what;
  }

  MySqlMangling mangling_;
};

TEST_F(FleetHostileTest, ServerLiesAtTheBeginning_CallsReturnAStatus) {
  ASSERT_TRUE(FleetInventory::Connect(Lying()).ok());
  const size_t threads = CountThreads();
  const size_t descriptors = CountDescriptors();
  mangling_.per_mille = 120;
  mangling_.login_per_mille = 30;
  int connected = 0;
  for (int64_t i = std::max<int64_t>(Scaled(40, 120), 15); i > 0; --i) {
    ExpectItEnds("Connect", [&] { connected += FleetInventory::Connect(Lying()).ok() ? 1 : 0; });
    ExpectItEnds("Migrate", [&] { (void)FleetInventory::Migrate(Lying()); });
    ExpectItEnds("ForgetBuyer", [&] { (void)FleetInventory::ForgetBuyer(Lying(), "somebody"); });
  }
  EXPECT_GT(mangling_.changed, 0U);
  RecordProperty("connected", connected);
  testing::Await("threads and connections to end",
                 [&] { return CountThreads() <= threads + 2 && CountDescriptors() <= descriptors + 8; });
}

TEST_F(FleetHostileTest, ServerLiesToAnInventory_ItGoesOnAfterwards) {
  auto shop = Connect(Lying());
  ASSERT_TRUE(shop->AddSku("sneaker", {.stock = 1'000'000, .per_buyer_limit = 1'000'000}).ok());
  ASSERT_TRUE(shop->AddSku("scarce", {.stock = 3}).ok());
  const size_t threads = CountThreads();
  const size_t descriptors = CountDescriptors();
  mangling_.per_mille = 40;
  mangling_.login_per_mille = 10;
  const int64_t calls = std::max<int64_t>(Scaled(100, 400), 50);
  RunThreads(4, [&](int thread) {
    std::mt19937_64 random(mangling_.seed + static_cast<uint64_t>(thread));
    for (int64_t i = 0; i < calls; ++i) {
      const std::string id = Concat("request-", thread, "-", i);
      ExpectItEnds(id, [&] {
        switch (random() % 9) {
          case 0: {
            const auto order = shop->Reserve({.sku = "sneaker", .request_id = id, .buyer = "somebody"});
            if (order.ok()) (void)(random() % 2 == 0 ? shop->Commit(order->id()) : shop->Cancel(order->id()));
            break;
          }
          case 1: (void)shop->Take({.sku = "sneaker", .quantity = 2, .request_id = id, .buyer = "somebody"}); break;
          case 2: (void)shop->Take({.sku = "scarce", .request_id = id}); break;
          case 3: (void)shop->Restock({.sku = "scarce", .request_id = id}); break;
          case 4: (void)shop->EnsureSku(Concat("sku-", random() % 5), {.stock = 5}); break;
          case 5: (void)shop->Reshard("sneaker", static_cast<int32_t>(random() % 8 + 1)); break;
          case 6: (void)shop->Figures("sneaker"); break;
          case 7: (void)shop->Snapshot(); break;
          default:
            (void)shop->Reserve({.sku = "sneaker", .request_id = id, .buyer = "other", .ttl = absl::Milliseconds(1)});
        }
      });
    }
  });
  EXPECT_GT(mangling_.changed, 0U);
  EXPECT_LE(CountThreads(), threads + 2);
  EXPECT_LE(CountDescriptors(), descriptors + 8);
  mangling_.per_mille = 0;
  mangling_.login_per_mille = 0;
  proxy().CloseAll();  // Some are silent.
  testing::Await("a call that succeeds",
                 [&] { return shop->Take({.sku = "sneaker", .request_id = "last", .buyer = "somebody"}).ok(); });
  ExpectItEnds("the end of the inventory", [&] { shop.reset(); });
}

}  // namespace
}  // namespace stockade

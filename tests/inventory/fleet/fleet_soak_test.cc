// Mixed work of three processes over segments that merge, for some seconds, or for ten minutes with
// STOCKADE_TEST_FULL=1: deadlocks are rare, and nobody sees them.

#include <poll.h>

#include <atomic>
#include <iostream>
#include <random>
#include <thread>
#include <vector>

#include "inventory/fleet/fleet_test.h"
#include "stockade/base/clock.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;

class FleetSoakTest : public FleetTest, public ::testing::WithParamInterface<int32_t> {
 protected:
  static constexpr int kProcesses = 3;
  static constexpr int kThreads = 6;  // Of each.
  static constexpr int kSkus = 5;

  static int64_t Deadlocks() {
    return std::stoll(server().Value(
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name='Innodb_deadlocks'"));
  }
  // Transactions that were committed over the lanes.
  int64_t Packets() const { return std::stoll(server().Value("SELECT SUM(batch) FROM " + Table("lanes"))); }
};

// A caller, whose requests may be refused, but must not be Unavailable.
class Caller {
 public:
  Caller(Inventory& shop, std::string name, uint32_t seed) : shop_(shop), name_(std::move(name)), random_(seed) {}

  void Call(int skus) {
    const auto sku = [&] { return Concat("sku", Below(static_cast<uint32_t>(skus))); };
    const uint32_t what = Below(20);
    if (what < 6) {
      std::vector<TakeRequest> requests;
      for (uint32_t i = 0; i <= Below(8); ++i) {
        requests.push_back({.sku = sku(), .quantity = 1 + Below(3), .request_id = NextId(), .buyer = Buyer()});
      }
      for (const auto& order : shop_.TakeMany(requests)) Note(order.status());
    } else if (what < 14) {
      std::vector<ReserveRequest> requests;
      for (uint32_t i = 0; i <= Below(8); ++i) {
        requests.push_back({.sku = sku(),
                            .quantity = 1 + Below(3),
                            .request_id = NextId(),
                            .buyer = Buyer(),
                            .ttl = Below(4) == 0 ? absl::Milliseconds(5) : absl::Hours(1)});
      }
      std::vector<OrderId> ids;
      for (const auto& held : shop_.ReserveMany(requests)) {
        Note(held.status());
        if (held.ok()) ids.push_back(held->id());
      }
      End(ids);
    } else if (what < 18) {
      BasketRequest request{.request_id = NextId(), .buyer = Buyer(), .ttl = absl::Hours(1)};
      for (uint32_t i = 0; i <= Below(4); ++i) request.lines.push_back({sku(), 1 + Below(2)});
      const auto held = shop_.ReserveBasket(request);
      Note(held.status());
      if (held.ok()) End({held->id()});
    } else if (what == 18) {
      Note(shop_.Restock({.sku = sku(), .quantity = 20 + Below(100), .request_id = NextId()}));
    } else {
      Note(shop_.Available(sku()).status());
    }
  }
  int64_t unavailable() const { return unavailable_; }
  const absl::Status& why() const { return why_; }

 private:
  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }
  std::string NextId() { return Concat(name_, next_id_++); }
  std::string Buyer() { return Concat("buyer", Below(2000)); }
  void End(const std::vector<OrderId>& ids) {
    if (Below(5) == 0) return;
    for (const absl::Status& ended : Below(2) == 0 ? shop_.CommitMany(ids) : shop_.CancelMany(ids)) Note(ended);
  }
  void Note(const absl::Status& status) {
    if (RefusalOf(status) != Refusal::kUnavailable) return;
    ++unavailable_;
    why_ = status;
  }

  Inventory& shop_;
  const std::string name_;
  std::mt19937 random_;
  int64_t next_id_ = 0;
  int64_t unavailable_ = 0;
  absl::Status why_;
};

TEST_P(FleetSoakTest, MixedWorkOfThreeProcesses_DeadlocksAreRareAndUnseen) {
  std::vector<std::unique_ptr<Inventory>> shops;
  for (int i = 0; i < kProcesses; ++i) shops.push_back(Connect());
  for (int i = 0; i < kSkus; ++i) {
    const SkuOptions options{.stock = 200, .shards = GetParam(), .per_buyer_limit = i == 0 ? 50 : 0};
    ASSERT_TRUE(shops[0]->AddSku(Concat("sku", i), options).ok());
  }
  const int64_t deadlocks = Deadlocks();
  const int64_t packets = Packets();
  const Instant end = Clock::System()->Now() + absl::Seconds(Scaled(4, 300));
  std::vector<std::thread> threads;
  std::atomic<int64_t> unavailable = 0;
  for (int t = 0; t < kProcesses * kThreads; ++t) {
    threads.emplace_back([&, t] {
      Caller caller(*shops[static_cast<size_t>(t % kProcesses)], Concat(t, "-"), static_cast<uint32_t>(t));
      while (Clock::System()->Now() < end) caller.Call(kSkus);
      unavailable += caller.unavailable();
      EXPECT_EQ(caller.unavailable(), 0) << caller.why();
    });
  }
  // An operator changes the number of segments meanwhile.
  int64_t reshards = 0;
  while (Clock::System()->Now() < end) {
    const std::string sku = Concat("sku", reshards % kSkus);
    const absl::Status resharded = shops[0]->Reshard(sku, reshards++ % 2 == 0 ? GetParam() : 1 + GetParam() % 4);
    EXPECT_TRUE(resharded.ok()) << resharded;
    const int64_t next = Packets() + 200;
    while (Clock::System()->Now() < end && Packets() < next) poll(nullptr, 0, 20);
  }
  for (std::thread& thread : threads) thread.join();
  shops.clear();
  const int64_t of_deadlocks = Deadlocks() - deadlocks;
  const int64_t of_packets = Packets() - packets;
  std::cout << "K=" << GetParam() << ": " << of_packets << " packets, " << of_deadlocks << " deadlocks, " << reshards
            << " reshards\n";
  EXPECT_GT(of_packets, 10);
  EXPECT_LE(of_deadlocks, 1 + of_packets / 100'000);
}

INSTANTIATE_TEST_SUITE_P(Segments, FleetSoakTest, ::testing::Values(1, 4),
                         [](const auto& segments) { return Concat("K", segments.param); });

}  // namespace
}  // namespace stockade::testing

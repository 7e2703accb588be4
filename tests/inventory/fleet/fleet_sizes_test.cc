// Orders of very different sizes: the size of every packet, and who waits for whom.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "inventory/fleet/fleet_faults_test.h"
#include "inventory/fleet/fleet_test.h"
#include "stockade/base/strings.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;

constexpr size_t kLargeLines = 1'000;      // The most that a basket may have.
constexpr size_t kLeastPacket = 4U << 20;  // The least max_allowed_packet that Connect() accepts.

// What clients send to MySQL, packet by packet.
class Requests {
 public:
  struct Packet {
    int64_t at;  // The time, in microseconds since 1970.
    size_t size;
    std::string sql;
  };
  // What is sent in place of a packet that is too large for a server between.
  enum class Refusal { kNone, kError, kEnd };

  explicit Requests(TcpProxy& proxy) {
    proxy.FilterRequests(
        [this] { return [this, arrived = std::string()](std::string more) mutable { return Pass(arrived += more); }; });
  }
  void Refuse(Refusal how, size_t above) {
    const std::lock_guard lock(mutex_);
    how_ = how;
    above_ = above;
  }
  size_t refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }
  std::vector<Packet> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(packets_, {});
  }

 private:
  static constexpr size_t kHead = 4;
  static constexpr char kQuery = 3;
  static constexpr char kQuit = 1;

  std::string Pass(std::string& arrived) {
    std::string passed;
    while (arrived.size() >= kHead) {
      size_t size = 0;
      for (size_t i = 3; i > 0; --i) size = size << 8 | static_cast<uint8_t>(arrived[i - 1]);
      if (arrived.size() < kHead + size) break;
      const std::string packet = arrived.substr(0, kHead + size);
      arrived.erase(0, packet.size());
      const bool is_query = packet[3] == 0 && size > 0 && packet[kHead] == kQuery;
      passed += is_query ? Note(packet) : packet;
    }
    return passed;
  }
  std::string Note(const std::string& packet) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    packets_.push_back({.at = std::chrono::duration_cast<std::chrono::microseconds>(now).count(),
                        .size = packet.size() - kHead,
                        .sql = packet.substr(kHead + 1)});
    if (how_ == Refusal::kNone || packet.size() <= above_) return packet;
    ++refused_;
    std::string other(1, kQuit);
    if (how_ == Refusal::kError) {
      other = Concat(std::string(1, kQuery),
                     "SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO=1153,MESSAGE_TEXT='packet too large'");
    }
    return std::string({static_cast<char>(other.size()), '\0', '\0', '\0'}) + other;
  }

  mutable std::mutex mutex_;
  std::vector<Packet> packets_;
  Refusal how_ = Refusal::kNone;
  size_t above_ = 0;
  size_t refused_ = 0;
};

// The orders that a packet ends; none if it is another one.
std::vector<OrderId> EndedBy(const Requests::Packet& packet) {
  constexpr std::string_view kEnds = ",2,IF(FALSE,0,3))),at=@now,version=version+1 WHERE order_id IN (";
  const size_t begin = packet.sql.find(kEnds);
  if (begin == std::string::npos) return {};
  const size_t first = begin + kEnds.size();
  const std::string list = packet.sql.substr(first, packet.sql.find(')', first) - first);
  std::vector<OrderId> ids;
  for (const absl::string_view text : absl::StrSplit(list, ',')) {
    ids.push_back(0);
    EXPECT_TRUE(absl::SimpleAtoi(text, &ids.back())) << text;
  }
  return ids;
}

class FleetSizesTest : public FleetFaultsTest {
 protected:
  void SetUp() override {
    FleetFaultsTest::SetUp();
    if (!IsSkipped()) requests_ = std::make_unique<Requests>(proxy());
  }
  Requests& requests() { return *requests_; }

  static std::string Sku(size_t i) { return Concat("item ", i); }
  static void AddSkus(Inventory& shop, size_t count, int64_t per_buyer_limit = 0) {
    for (size_t i = 0; i < count; ++i) {
      const absl::Status added = shop.EnsureSku(Sku(i), {.stock = 1'000'000, .per_buyer_limit = per_buyer_limit});
      ASSERT_TRUE(added.ok()) << added;
    }
  }
  // A unit each of `lines` SKUs from `first` on, of `skus` SKUs.
  static OrderId Basket(Inventory& shop, const std::string& id, size_t first, size_t lines, size_t skus) {
    BasketRequest request{.request_id = id, .buyer = "Ada", .ttl = absl::Hours(1)};
    for (size_t i = 0; i < lines; ++i) request.lines.push_back({Sku((first + i) % skus), 1});
    const absl::StatusOr<BasketReservation> basket = shop.ReserveBasket(request);
    EXPECT_TRUE(basket.ok()) << basket.status();
    return basket.ok() ? basket->id() : 0;
  }
  static OrderId Small(Inventory& shop, const std::string& id) {
    const absl::StatusOr<Reservation> order =
        shop.Reserve({.sku = Sku(0), .quantity = 1, .request_id = id, .buyer = "Ada", .ttl = absl::Hours(1)});
    EXPECT_TRUE(order.ok()) << order.status();
    return order.ok() ? order->id() : 0;
  }
  // As if they had been reserved for as long, by the database's clock. Microseconds since 1970.
  void SetDue(const std::vector<std::pair<OrderId, int64_t>>& times) const {
    std::vector<std::string> cases;
    std::vector<OrderId> ids;
    for (const auto& [id, at] : times) {
      ids.push_back(id);
      cases.push_back(Concat("WHEN ", id, " THEN ", at));
    }
    const std::string at = Concat("CASE order_id ", absl::StrJoin(cases, " "), " END");
    Client().Run(Concat("UPDATE ", Table("orders"), " SET ttl_us=(", at, ")-created_at,at=", at, " WHERE order_id IN (",
                        absl::StrJoin(ids, ","), ")"));
  }
  int64_t Held() const { return Number("SELECT COUNT(*) FROM " + Table("orders") + " WHERE state=0"); }

 private:
  std::unique_ptr<Requests> requests_;
};

class FleetPacketSizesTest : public FleetSizesTest, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(MiB, FleetPacketSizesTest, ::testing::Values(4, 16));

TEST_P(FleetPacketSizesTest, LargeBasketsAreDueTogether_SmallOrdersEndBetweenThem) {
  (void)server().Query(Concat("SET GLOBAL max_allowed_packet=", GetParam(), "*1024*1024"));
  const auto large_orders = static_cast<size_t>(Scaled(24, 200));
  const auto small_orders = static_cast<size_t>(Scaled(200, 1'000));
  const size_t skus = kLargeLines + 200;
  FleetInventoryOptions options = ByProxy(absl::Minutes(5));
  const std::unique_ptr<Inventory> shop = Connect(options);
  AddSkus(*shop, skus, 1'000'000);
  std::vector<OrderId> large;
  for (size_t i = 0; i < large_orders; ++i) {
    large.push_back(Basket(*shop, Concat("large ", i), i * 37, kLargeLines, skus));
  }
  std::vector<ReserveRequest> requests_of_small;
  for (size_t i = 0; i < small_orders; ++i) {
    requests_of_small.push_back(
        {.sku = Sku(i % skus), .request_id = Concat("small ", i), .buyer = "Ada", .ttl = absl::Hours(1)});
  }
  std::vector<OrderId> small;
  for (const auto& order : shop->ReserveMany(requests_of_small)) small.push_back(order->id());
  for (const Requests::Packet& packet : requests().Take()) EXPECT_LT(packet.size, kLeastPacket);

  // A quarter of either is cancelled or committed at once. Of the others the large ones are due together, by and by in
  // the order of their ids, and the small ones one after the other.
  const int64_t now = Number("SELECT CAST(UNIX_TIMESTAMP(UTC_TIMESTAMP(6))*1000000 AS INT)");
  std::map<OrderId, int64_t> waits_from;
  std::vector<std::pair<OrderId, int64_t>> due;
  std::vector<OrderId> called_small;
  std::vector<OrderId> called_large;
  for (size_t i = 0; i < large.size(); ++i) {
    if (i % 4 == 0) {
      called_large.push_back(large[i]);
    } else {
      due.emplace_back(large[i], now + static_cast<int64_t>(i));
    }
  }
  for (size_t i = 0; i < small.size(); ++i) {
    if (i % 4 == 0) {
      called_small.push_back(small[i]);
    } else {
      due.emplace_back(small[i], now + 10'000 * static_cast<int64_t>(i));
    }
  }
  std::map<OrderId, size_t> turn;  // By deadline.
  for (const auto& [id, at] : due) {
    waits_from[id] = at;
    turn[id] = turn.size();
  }
  SetDue(due);
  std::thread larges([&] {
    for (size_t i = 0; i < called_large.size(); ++i) {
      const absl::Status ended = i % 2 == 0 ? shop->Cancel(called_large[i]) : shop->Commit(called_large[i]);
      EXPECT_TRUE(ended.ok()) << ended;
    }
  });
  for (size_t i = 0; i < called_small.size(); ++i) {
    waits_from[called_small[i]] = absl::ToUnixMicros(absl::Now());
    const absl::Status ended = i % 2 == 0 ? shop->Cancel(called_small[i]) : shop->Commit(called_small[i]);
    EXPECT_TRUE(ended.ok()) << ended;
  }
  larges.join();
  Await("the end of all orders", [&] { return Held() == 0; });

  const std::vector<Requests::Packet> packets = requests().Take();
  const auto is_large = [&](OrderId id) { return std::ranges::find(large, id) != large.end(); };
  std::vector<std::pair<int64_t, bool>> ends;  // When a packet was sent, and whether it ended large orders.
  size_t last_turn[2] = {};
  for (const Requests::Packet& packet : packets) {
    EXPECT_LT(packet.size, kLeastPacket);
    const std::vector<OrderId> ids = EndedBy(packet);
    if (ids.empty()) continue;
    const bool of_large = is_large(ids.front());
    for (const OrderId id : ids) {
      EXPECT_EQ(is_large(id), of_large) << "a packet ends large and small orders";
    }
    // Those that are due end by deadline.
    std::vector<size_t> turns;
    for (const OrderId id : ids) {
      if (turn.contains(id)) turns.push_back(turn.at(id));
    }
    for (const size_t of_this : turns) EXPECT_GE(of_this, last_turn[of_large]) << "an order ended before its turn";
    if (!turns.empty()) last_turn[of_large] = std::ranges::max(turns);
    for (const OrderId id : ids) {
      if (of_large || !waits_from.contains(id)) continue;
      const auto since = [&](bool large_ones) {
        return std::ranges::count_if(
            ends, [&](const auto& end) { return end.first > waits_from.at(id) && end.second == large_ones; });
      };
      // A call is made a little later than is noted here.
      EXPECT_LE(since(true), since(false) + (turn.contains(id) ? 1 : 2)) << "a small order waited for large ones";
    }
    ends.emplace_back(packet.at, of_large);
  }
}

TEST_F(FleetSizesTest, LongestNamesAndNumbers_EachLineTakesLessThanAThousandBytes) {
  FleetInventoryOptions options = ByProxy();
  options.fleet = std::string(24, 'f');
  ASSERT_TRUE(FleetInventory::Migrate(options).ok());
  const std::unique_ptr<Inventory> shop = Connect(options);
  constexpr int64_t kMany = int64_t{1} << 52;
  for (size_t i = 0; i < kLargeLines; ++i) {
    ASSERT_TRUE(shop->EnsureSku(Sku(i), {.stock = 2 * kMany, .per_buyer_limit = 2 * kMany}).ok());
  }
  (void)requests().Take();
  BasketRequest request{.request_id = "id", .buyer = "Ada"};
  for (size_t i = 0; i < kLargeLines; ++i) request.lines.push_back({Sku(i), kMany});
  const auto first = shop->ReserveBasket(request);
  ASSERT_TRUE(first.ok()) << first.status();
  // Open, then sold out with units in limbo, then removed.
  ASSERT_TRUE(shop->Cancel(first->id()).ok());
  request.request_id = "removed";
  const auto second = shop->ReserveBasket(request);
  ASSERT_TRUE(second.ok()) << second.status();
  for (size_t i = 0; i < kLargeLines; ++i) ASSERT_TRUE(shop->RemoveSku(Sku(i)).ok());
  ASSERT_TRUE(shop->Cancel(second->id()).ok());
  size_t largest = 0;
  for (const Requests::Packet& packet : requests().Take()) largest = std::max(largest, packet.size);
  EXPECT_LT(largest, kLargeLines * 1'000);
  EXPECT_GT(largest, kLargeLines * 100);
  for (const FleetFinding& found : AuditFleet(server(), "test." + options.fleet)) {
    ADD_FAILURE() << found.statement << ": " << found.row;
  }
}

// One line below, at and above what makes an order large.
TEST_F(FleetSizesTest, OrdersAtTheBound_EachEndsInItsClass) {
  const std::unique_ptr<Inventory> shop = Connect(ByProxy());
  AddSkus(*shop, 17);
  std::vector<OrderId> ids;
  for (const size_t lines : {15, 16, 17}) ids.push_back(Basket(*shop, Concat(lines, " lines"), 0, lines, 17));
  (void)requests().Take();
  for (const absl::Status& ended : shop->CancelMany(ids)) EXPECT_TRUE(ended.ok()) << ended;
  std::vector<std::vector<OrderId>> packets;
  for (const Requests::Packet& packet : requests().Take()) {
    if (const std::vector<OrderId> ended = EndedBy(packet); !ended.empty()) packets.push_back(ended);
  }
  for (const std::vector<OrderId>& packet : packets) {
    EXPECT_EQ(std::ranges::count(packet, ids[2]), packet.size() == 1 ? std::ranges::count(packet, ids[2]) : 0);
  }
  EXPECT_GE(packets.size(), 2U);
}

class FleetRefusedPacketsTest : public FleetSizesTest, public ::testing::WithParamInterface<bool> {
 protected:
  static Requests::Refusal How() { return GetParam() ? Requests::Refusal::kError : Requests::Refusal::kEnd; }
};

INSTANTIATE_TEST_SUITE_P(By, FleetRefusedPacketsTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Error" : "TheEndOfTheConnection"; });

TEST_P(FleetRefusedPacketsTest, ServerTakesSmallerPackets_TheyAreMadeSmaller) {
  const std::unique_ptr<Inventory> shop = Connect(ByProxy(absl::Minutes(2)));
  AddSkus(*shop, 400);
  constexpr size_t kLines = 100;
  const size_t count = 40;
  std::vector<OrderId> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(Basket(*shop, Concat(i), 10 * i, kLines, 400));
  requests().Refuse(How(), 10'000);  // Some orders each.
  for (const absl::Status& ended : shop->CancelMany(ids)) EXPECT_TRUE(ended.ok()) << ended;
  EXPECT_GT(requests().refused(), 0U);
  requests().Refuse(How(), 60'000);
  std::vector<TakeRequest> takes;
  for (size_t i = 0; i < 2'000; ++i) takes.push_back({.sku = Sku(i % 400), .request_id = Concat("take ", i)});
  for (const auto& order : shop->TakeMany(takes)) EXPECT_TRUE(order.ok()) << order.status();
}

TEST_P(FleetRefusedPacketsTest, ServerTakesNoPacketOfAnOrder_OthersEnd) {
  MetricsRegistry metrics;
  FleetInventoryOptions options = ByProxy(absl::Seconds(2));
  options.metrics = &metrics;
  std::unique_ptr<Inventory> shop = Connect(ByProxy());
  AddSkus(*shop, kLargeLines);
  const OrderId large = Basket(*shop, "large", 0, kLargeLines, kLargeLines);
  std::vector<OrderId> others;
  for (size_t i = 0; i < 20; ++i) others.push_back(Basket(*shop, Concat("other ", i), i, 20, kLargeLines));
  for (size_t i = 0; i < 20; ++i) others.push_back(Small(*shop, Concat("small ", i)));
  shop = Connect(options);
  requests().Refuse(How(), 64'000);
  const absl::Status cancelled = shop->Cancel(large);
  EXPECT_TRUE(Says(cancelled, kNothingHasChanged)) << cancelled;
  std::vector<std::pair<OrderId, int64_t>> due = {{large, Number("SELECT CAST(UNIX_TIMESTAMP()-10 AS INT)*1000000")}};
  for (const OrderId id : others) due.emplace_back(id, due.front().second + 1);
  SetDue(due);
  Await("the end of the others", [&] { return Held() == 1; });
  EXPECT_EQ(server().Value("SELECT state FROM " + Table("orders") + Concat(" WHERE order_id=", large)), "0");
  // It is found again and again, and seen.
  Await("the metric", [&] {
    for (const prometheus::MetricFamily& family : metrics.Collect()) {
      if (family.name == "stockade_inventory_fleet_overdue_seconds") return family.metric.at(0).gauge.value > 8;
    }
    return false;
  });
  requests().Refuse(Requests::Refusal::kNone, 0);
  Await("its end", [&] { return Held() == 0; });
}

TEST_F(FleetSizesTest, OneIdManyTimes_IsAskedOnce) {
  const std::unique_ptr<Inventory> shop = Connect(ByProxy());
  AddSkus(*shop, 1);
  (void)requests().Take();
  const std::vector<TakeRequest> takes(10'000, {.sku = Sku(0), .request_id = "one"});
  OrderId id = 0;
  for (const auto& order : shop->TakeMany(takes)) {
    ASSERT_TRUE(order.ok()) << order.status();
    if (id == 0) id = order->id();
    EXPECT_EQ(order->id(), id);
  }
  EXPECT_EQ(shop->Figures(Sku(0))->sold, 1);
  EXPECT_LT(requests().Take().size(), 100U);
}

// One below, at and above what one query of it reads.
TEST_F(FleetSizesTest, SnapshotOfManySkus_HasEachOnce) {
  const std::unique_ptr<Inventory> shop = Connect();
  AddSkus(*shop, 999);
  for (size_t count = 999; count <= 1'001; ++count) {
    ASSERT_TRUE(shop->EnsureSku(Sku(count - 1), {.stock = 1'000'000}).ok());
    const std::vector<SkuSnapshot> all = shop->Snapshot();
    ASSERT_EQ(all.size(), count);
    for (size_t i = 1; i < count; ++i) EXPECT_LT(all[i - 1].sku, all[i].sku);
  }
}

TEST_F(FleetSizesTest, LargeOrders_AreForgottenByAndBy) {
  FleetInventoryOptions options = ByProxy();
  options.retention = absl::Seconds(1);
  const std::unique_ptr<Inventory> shop = Connect(options);
  AddSkus(*shop, kLargeLines);
  std::vector<OrderId> ids;
  for (size_t i = 0; i < 8; ++i) ids.push_back(Basket(*shop, Concat(i), 0, kLargeLines, kLargeLines));
  for (size_t i = 0; i < 100; ++i) ids.push_back(Small(*shop, Concat("small ", i)));
  (void)requests().Take();
  for (const absl::Status& ended : shop->CancelMany(ids)) EXPECT_TRUE(ended.ok()) << ended;
  Await("the end of all rows",
        [&] { return Number("SELECT COUNT(*) FROM " + Table("order_lines")) == 0 && Orders() == 0; });
  for (const Requests::Packet& packet : requests().Take()) {
    constexpr std::string_view kForgets = "DELETE FROM";
    if (packet.sql.find(kForgets) == std::string::npos) continue;
    size_t large = 0;
    for (size_t i = 0; i < 8; ++i) {
      if (packet.sql.find(Concat(ids[i])) != std::string::npos) ++large;
    }
    EXPECT_LE(large, 2U) << "a packet forgets too many lines";
  }
}

}  // namespace
}  // namespace stockade::testing

// Processes of a fleet, its server and its Redis nodes are killed, stopped and rolled back under load. After each event
// the audit by SQL alone must find nothing, and the tables must have every answer that a process was given. At the end
// all units must be for sale.

#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fleet_rules.h"
#include "gtest/gtest-spi.h"
#include "inventory/crash/witness.h"
#include "inventory/fleet/fleet_node.h"
#include "inventory/fleet/fleet_test.h"
#include "request_fingerprint.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/subprocess.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

constexpr uint32_t kProcesses = 3;
constexpr uint32_t kThreads = 4;  // Of each.

// The steps at which a process may end itself.
constexpr std::array<std::string_view, 9> kCrashPoints = {
    "fleet: after limbo was moved", "fleet: after the packet", "fleet: before limbo is moved",
    "fleet: before the fill",       "fleet: before the latch", "fleet: before the packet",
    "fleet: lane registered",       "fleet: node was asked",   "fleet: outcome not known"};

// Of the refusals of the processes.
constexpr absl::Duration kTwoLeases = absl::Milliseconds(40);

// A process of the fleet. Its answers go to the witness in the order in which they were written.
class Shop {
 public:
  Shop(std::vector<std::string> argv, const std::string& crash_at) : process_(WithCrash(std::move(argv), crash_at)) {}

  Subprocess& process() { return process_; }
  // Whole lines that have come since the last time.
  std::vector<std::string> NewLines() {
    const std::string text = process_.out();
    const size_t end = text.rfind('\n');
    if (end == std::string::npos || end < read_) return {};
    const std::string fresh = text.substr(read_, end - read_);
    read_ = end + 1;
    return absl::StrSplit(fresh, '\n');
  }
  size_t bytes() const { return process_.out().size(); }

 private:
  static std::vector<std::string> WithCrash(std::vector<std::string> argv, const std::string& crash_at) {
    if (!crash_at.empty()) argv.insert(argv.begin(), {"env", "STOCKADE_CRASH_AT=" + crash_at});
    return argv;
  }

  Subprocess process_;
  size_t read_ = 0;
};

// Passes the answers of processes to the witness, and checks that the tables have the orders.
class Ear {
 public:
  explicit Ear(Witness& witness) : witness_(witness) {}

  void Hear(Shop& shop) {
    for (const std::string& line : shop.NewLines()) {
      if (line == "open") continue;
      witness_.Hear(line);
      if (!line.starts_with("g ")) continue;
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() > 2) orders_.insert(words[2]);
    }
  }
  void HearRestock(char what, const std::string& sku, int64_t units) {
    witness_.Hear(absl::StrCat(std::string(1, what), " ", sku, " ", units));
  }
  void ExpectOrdersIn(const SqlRows& ids) {
    std::unordered_set<std::string> there;
    for (const auto& row : ids) there.insert(row[0]);
    for (const std::string& id : orders_) {
      if (!there.contains(id)) ADD_FAILURE() << "order " << id << " was granted, and is not in the tables";
    }
  }

 private:
  Witness& witness_;
  std::unordered_set<std::string> orders_;
};

class FleetKillTest : public FleetTest {
 protected:
  void SetUp() override {
    FleetTest::SetUp();
    if (IsSkipped()) return;
    const std::string keys = absl::HexStringToBytes(server().Value("SELECT HEX(hash_keys) FROM " + Table("fleet")));
    ASSERT_EQ(keys.size(), keys_.size() * 8);
    for (size_t i = 0; i < keys.size(); ++i) keys_[i / 8] |= uint64_t{static_cast<uint8_t>(keys[i])} << i % 8 * 8;
  }

  std::unique_ptr<Shop> Start(const Round& round, uint32_t process, const std::string& crash_at) const {
    std::vector<std::string> argv = {STOCKADE_FLEET_SHOP_UNDER_LOAD, server().url(), fleet(),
                                     absl::StrJoin(node_urls_, ","), absl::StrCat(static_cast<int>(defect_)),
                                     absl::StrCat(round.world.seed), absl::StrCat(round.world.skus),
                                     absl::StrCat(round.world.stock), absl::StrCat(round.number),
                                     // Threads move from process to process, and so do the ids that they repeat.
                                     absl::StrCat((process + round.number) % kProcesses * kThreads),
                                     absl::StrCat(kThreads), absl::StrCat(round.requests)};
    for (const uint32_t count : round.former) argv.push_back(absl::StrCat(count));
    return std::make_unique<Shop>(argv, crash_at);
  }

  // As the tables have it.
  std::string RequestHash(std::string_view request_id) const { return Hash(2, request_id); }
  std::string BuyerHash(std::string_view buyer) const { return Hash(6, buyer); }

  // `answered`: how many requests of each thread were answered, for each round.
  LedgerContents Contents(const World& world, const std::vector<std::vector<uint32_t>>& answered) const {
    std::unordered_map<std::string, Key> keys;
    for (uint32_t round = 0; round < answered.size(); ++round) {
      for (uint32_t thread = 0; thread < answered[round].size(); ++thread) {
        // Some more were under way, or were asked for in the next round.
        for (uint32_t index = 0; index < answered[round][thread] + 64; ++index) {
          const Key key{.round = round, .thread = thread, .index = index};
          keys.emplace(RequestHash(key.request_id()), key);
        }
      }
    }
    std::unordered_map<std::string, std::vector<OrderLine>> baskets;
    for (const auto& row : server().Query("SELECT l.order_id,s.sku,l.quantity FROM " + Table("order_lines") +
                                          " l JOIN " + Table("skus") + " s USING (sku_id) ORDER BY s.sku")) {
      baskets[row[0]].push_back({.sku = row[1], .quantity = std::stoll(row[2])});
    }
    LedgerContents contents;
    for (const auto& row :
         server().Query("SELECT o.order_id,HEX(o.request),s.sku,o.quantity,HEX(o.buyer),o.state,"
                        "o.kind,o.created_at,o.ttl_us FROM " +
                        Table("orders") + " o LEFT JOIN " + Table("skus") + " s USING (sku_id) WHERE o.kind<>3")) {
      const auto key = keys.find(row[1]);
      if (key == keys.end()) {
        ADD_FAILURE() << "an order of nobody: " << row[0];
        continue;
      }
      const std::string buyer = PlanOf(world, key->second).buyer;
      const bool expires = row[8] != std::to_string(INT64_MAX) && row[6] != "0";
      contents.orders.push_back(
          {.key = key->second,
           .order_id = std::stoull(row[0]),
           .lines = row[6] == "2" ? baskets[row[0]] : std::vector<OrderLine>{{row[2], std::stoll(row[3])}},
           .buyer = row[4] == BuyerHash(buyer) ? buyer : "somebody else",
           .state = static_cast<OrderState>(std::stoi(row[5])),
           .reserved = row[6] != "0",
           .expires_us = expires ? std::stoll(row[7]) + std::stoll(row[8]) : -1,
           .ttl_us = expires ? std::stoll(row[8]) : -1});
    }
    for (const auto& row :
         server().Query("SELECT sku,granted,removed,sold_forgotten,(SELECT COALESCE(SUM(c.quantity),0) FROM " +
                        Table("changes") + " c WHERE c.sku_id=s.sku_id) FROM " + Table("skus") + " s")) {
      contents.skus.push_back({.sku = row[0],
                               .granted = std::stoll(row[1]),
                               .removed = row[2] != "0",
                               .sold_forgotten = std::stoll(row[3]),
                               .returned = std::stoll(row[4])});
    }
    return contents;
  }

  void ExpectAuditHolds() const {
    for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  }

  // Of the processes.
  std::vector<std::string> node_urls_;
  inventory_internal::FleetDefect defect_ = inventory_internal::FleetDefect::kNone;

 private:
  std::string Hash(size_t first_key, std::string_view text) const {
    std::string hash;
    for (size_t i = 0; i < 2; ++i) {
      uint64_t half =
          inventory_internal::RequestFingerprint({keys_[first_key + 2 * i], keys_[first_key + 2 * i + 1]})(text);
      for (int k = 0; k < 8; ++k, half >>= 8) absl::StrAppend(&hash, absl::Hex(half & 0xff, absl::kZeroPad2));
    }
    return absl::AsciiStrToUpper(hash);
  }

  std::array<uint64_t, 10> keys_ = {};
};

// A sale by three processes over three Redis nodes. Processes, nodes and the server fail.
class FleetFaultySaleTest : public FleetKillTest {
 protected:
  enum Fault { kEmptied, kRolledBack, kNodeStops, kNodeCrashes, kTwoMasters, kProcessStops, kServerIsKilled };

  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    FleetKillTest::SetUp();
    if (IsSkipped()) return;
    for (std::unique_ptr<FleetNode>& node : nodes_) {
      node = std::make_unique<FleetNode>();
      node_urls_.push_back(node->url());
    }
    FleetInventoryOptions options = Options();
    options.refusal_lease = kTwoLeases / 2;
    owner_ = Connect(options);
  }
  void TearDown() override {
    shops_ = {};  // Kills the processes, so that the audit reads tables that do not change.
    FleetKillTest::TearDown();
  }

  // Starts the processes, causes faults under load, and kills the processes. Each fault and kill counts as an event.
  void RunRound(int64_t& events_left) {
    Begin();
    for (int fault = 0; fault < kFaultsOfRound && events_left > 0 && !HasFailed(); ++fault, --events_left) {
      CauseFault();
      Restock();
      for (const auto& shop : shops_) AwaitAnswers(*shop, Below(4'000));
      Check();
    }
    // One process ends itself, or the test kills it.
    AwaitAnswers(*shops_[suicidal_], 20'000);
    for (uint32_t i = 0; i < kProcesses; ++i, --events_left) Kill(*shops_[(suicidal_ + i) % kProcesses]);
    answered_.push_back(witness_.answered());
    witness_.Inspect(Contents(world_, answered_));
  }

  // Cancels all orders that are held, and expects that all units can be bought then.
  void SellAll() {
    for (const auto& row : server().Query("SELECT order_id FROM " + Table("orders") + " WHERE state=0")) {
      const absl::Status cancelled = owner_->Cancel(std::stoull(row[0]));
      EXPECT_TRUE(cancelled.ok()) << cancelled;
    }
    Await("limbo", [&] { return server().Value("SELECT COALESCE(SUM(mode=2),0) FROM " + Table("skus")) == "0"; });
    for (const auto& row : server().Query("SELECT sku,SUM(units) FROM " + Table("skus") + " JOIN " + Table("stock") +
                                          " USING (sku_id) WHERE removed=0 GROUP BY sku_id,sku")) {
      int64_t left = std::stoll(row[1]);
      for (int64_t quantity = 0; left >= 0; left -= quantity) {
        quantity = std::clamp<int64_t>(left, 1, 3);  // What one buyer may have.
        const std::string id = absl::StrCat("all ", row[0], " ", left);
        const absl::Status taken =
            owner_->Take({.sku = row[0], .quantity = quantity, .request_id = id, .buyer = id}).status();
        EXPECT_EQ(RefusalOf(taken), left > 0 ? Refusal::kNone : Refusal::kSoldOut) << left << " left: " << taken;
        if (left == 0 || !taken.ok()) break;
      }
    }
    for (const auto& row :
         server().Query("SELECT s.sku,s.granted,s.limbo,SUM(t.units),SUM(t.held),SUM(t.sold) FROM " + Table("skus") +
                        " s JOIN " + Table("stock") +
                        " t USING (sku_id) GROUP BY s.sku_id,s.sku,s.granted,s.limbo HAVING SUM(t.sold)<>granted")) {
      ADD_FAILURE() << "not sold: " << absl::StrJoin(row, " ");
    }
    ExpectAuditHolds();
  }

  // Sells for at most so many rounds with a broken variant, and expects a failure whose message contains `what`.
  void ExpectNoticed([[maybe_unused]] inventory_internal::FleetDefect defect, [[maybe_unused]] int rounds,
                     [[maybe_unused]] const std::string& what) {
#ifndef STOCKADE_CRASH_POINTS
    GTEST_SKIP() << "built without crash points";
#else
    tables_are_damaged_ = true;
    defect_ = defect;
    inventory_internal::fleet_defect = defect;
    {
      const ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &intercepted_);
      for (int64_t events = INT64_MAX; rounds > 0 && !HasFailed(); --rounds) RunRound(events);
      if (!HasFailed()) SellAll();
    }
    inventory_internal::fleet_defect = inventory_internal::FleetDefect::kNone;
    ASSERT_GT(intercepted_.size(), 0) << "not noticed";
    EXPECT_THAT(intercepted_.GetTestPartResult(0).message(), ::testing::HasSubstr(what));
    std::cout << "noticed after " << Summary() << '\n';
#endif
  }
  // Of the faults that are caused.
  std::vector<Fault> kinds_ = {kEmptied,    kRolledBack,   kNodeStops,     kNodeCrashes,
                               kTwoMasters, kProcessStops, kServerIsKilled};

  bool HasFailed() const { return HasFailure() || intercepted_.size() > 0; }

  std::string Summary() const {
    return absl::StrJoin(events_, ", ", [](std::string* out, const auto& event) {
      absl::StrAppend(out, event.second, " ", event.first);
    });
  }
  const Witness& witness() const { return witness_; }
  int64_t Number(const std::string& sql) const { return std::stoll(server().Value(sql)); }
  // A sum over the rows of stock of Redis nodes.
  int64_t OfNodes(const std::string& what) const {
    return Number("SELECT COALESCE(SUM(" + what + "),0) FROM " + Table("stock") + " WHERE segment>=1000000");
  }

 private:
  static constexpr int kFaultsOfRound = 4;

  uint32_t Below(uint32_t bound) { return static_cast<uint32_t>(random_()) % bound; }

  void Begin() {
    Round round{.ledger = "", .world = world_, .number = number_, .threads = kProcesses * kThreads};
    round.former = witness_.answered();
    witness_.BeginRound(round);
    // One process ends itself at a step of the protocol, if the library is built with crash points.
    std::string crash_at;
#ifdef STOCKADE_CRASH_POINTS
    crash_at = kCrashPoints[Below(kCrashPoints.size())];
    absl::StrAppend(&crash_at, "#", crash_at.ends_with("packet") ? 1 + Below(200) : 1 + Below(4));
#endif
    suicidal_ = Below(kProcesses);
    for (uint32_t i = 0; i < kProcesses; ++i) shops_[i] = Start(round, i, i == suicidal_ ? crash_at : "");
    ++number_;
    // Then it has added the SKUs.
    for (const auto& shop : shops_) AwaitAnswers(*shop, std::string_view("open\nn 0-0-0 ").size());
    const int64_t sold = OfNodes("sold+held");
    Await("payments from rows of nodes", [&] {
      Restock();
      return OfNodes("sold+held") != sold;
    });
    for (const auto& node : nodes_) node->KeepSnapshot();
    for (const auto& shop : shops_) AwaitAnswers(*shop, Below(10'000));
  }

  // Each kind comes once, in any order, before one comes again.
  Fault NextFault() {
    if (faults_.empty()) {
      faults_ = kinds_;
      std::shuffle(faults_.begin(), faults_.end(), random_);
    }
    const Fault next = faults_.back();
    faults_.pop_back();
    return next;
  }

  void CauseFault() {
    FleetNode& node = *nodes_[Below(kNodes)];
    switch (NextFault()) {
      case kEmptied:
        ++events_["nodes emptied"];
        node.master().Call({"FLUSHALL"});
        break;
      case kRolledBack:
        ++events_["nodes rolled back"];
        // Otherwise to the snapshot of the beginning, most of whose generations are over.
        if (Below(2) == 0) {
          node.KeepSnapshot();
          for (const auto& shop : shops_) AwaitAnswers(*shop, 2'000);
        }
        node.RollBack();
        break;
      case kNodeStops:
        ++events_["stops of nodes"];
        node.master().Pause();
        AwaitTwoLeases();
        node.master().Resume();
        break;
      case kNodeCrashes:
        ++events_["kills of nodes"];
        node.Crash();
        break;
      case kTwoMasters:
        ++events_["nodes with two masters"];
        node.BeginTwoMasters();
        for (const auto& shop : shops_) AwaitAnswers(*shop, 4'000);
        node.EndTwoMasters();
        break;
      case kProcessStops: StopProcess(*shops_[Below(kProcesses)]); break;
      case kServerIsKilled:
        ++events_["kills of the server"];
        server().Kill();
        server().Restart();
        break;
    }
  }

  // Its lanes are fenced meanwhile: what it has sent must not be carried out any more.
  void StopProcess(Shop& shop) {
    ++events_["stops of processes"];
    shop.process().Kill(SIGSTOP);
    server().Query("UPDATE " + Table("lanes") + " SET fence=fence+1");
    AwaitTwoLeases();
    shop.process().Kill(SIGCONT);
    AwaitAnswers(shop, 1'000);
  }

  void Kill(Shop& shop) {
    AwaitAnswers(shop, Below(4'000));
    ++events_[shop.process().ended() ? "crashes of processes" : "kills of processes"];
    shop.process().Kill(SIGKILL);
    EXPECT_EQ(shop.process().Wait(), 128 + SIGKILL) << shop.process().err();
    Check();
  }

  void Check() {
    for (const auto& shop : shops_) ear_.Hear(*shop);
    ExpectAuditHolds();
    ear_.ExpectOrdersIn(server().Query("SELECT order_id FROM " + Table("orders")));
  }

  // Of one SKU with segments at nodes: enough for them to be filled, unless it has many units.
  void Restock() {
    const std::string sku = SkuCalled(1 + 2 * Below(world_.skus / 2));
    const int64_t units = 100 + Below(300);
    const int64_t left = Number("SELECT SUM(units) FROM " + Table("skus") + " JOIN " + Table("stock") +
                                " USING (sku_id) WHERE sku='" + sku + "'");
    if (left > 300) return;
    ear_.HearRestock('r', sku, units);
    const absl::Status restocked = owner_->Restock(sku, units);
    EXPECT_TRUE(restocked.ok()) << restocked;
    ear_.HearRestock('R', sku, units);
  }

  static void AwaitAnswers(Shop& shop, size_t bytes) {
    const size_t end = shop.bytes() + bytes;
    Await("answers of a process", [&] { return shop.bytes() >= end || shop.process().ended(); });
  }
  static void AwaitTwoLeases() {
    const Instant end = Clock::System()->Now() + kTwoLeases;
    Await("two leases", [&] { return Clock::System()->Now() >= end; });
  }

  static constexpr size_t kNodes = 3;

  std::minstd_rand random_{static_cast<uint32_t>(Seed())};
  const World world_{.seed = static_cast<uint32_t>(random_()), .skus = 6, .stock = 10};
  Witness witness_{world_};
  Ear ear_{witness_};
  std::array<std::unique_ptr<FleetNode>, kNodes> nodes_;
  std::unique_ptr<Inventory> owner_;  // Without Redis nodes.
  std::array<std::unique_ptr<Shop>, kProcesses> shops_;
  std::vector<std::vector<uint32_t>> answered_;  // By round and thread.
  uint32_t number_ = 0;                          // Of the next round.
  uint32_t suicidal_ = 0;
  std::vector<Fault> faults_;  // The next ones, from the back.
  std::map<std::string, int> events_;
  ::testing::TestPartResultArray intercepted_;
};

TEST_F(FleetFaultySaleTest, ProcessesServerAndNodesFailUnderLoad_NothingIsOversoldLostOrThereTwice) {
  int64_t events = std::max<int64_t>(Scaled(20, 200), 14);
  while (events > 0) {
    SCOPED_TRACE(absl::StrCat(events, " events before the end"));
    RunRound(events);
    if (HasFailure()) return;
  }
  const int64_t generations = OfNodes("fence-1");
  const int64_t paid = OfNodes("sold");
  SellAll();
  EXPECT_GT(generations, 0) << "no generation has ended";
  EXPECT_GT(witness().repeats_of_former_rounds(), 0u) << "no id was answered both before and after a kill";
  std::cout << Summary() << "; " << generations << " generations have ended, " << paid
            << " units were sold from rows of nodes; " << witness().orders() << " orders, "
            << witness().repeats_of_former_rounds() << " of them answered again\n";
}

// This variant sells units that a node's row does not have.
TEST_F(FleetFaultySaleTest, NodesRowIsNotChecked_IsNoticed) {
  kinds_ = {kRolledBack, kTwoMasters};
  ExpectNoticed(inventory_internal::FleetDefect::kNoCheck, 40, "stock: sku-");
}

// In this variant nobody can buy the units that a node has lost.
TEST_F(FleetFaultySaleTest, RefusalDoesNotCountNodesRows_IsNoticed) {
  ExpectNoticed(inventory_internal::FleetDefect::kRefuseByPool, 2, " left: ");
}

TEST(FleetCrashPointsTest, EachPointOfTheSources_IsTried) {
  const std::regex call("CrashPoint\\(\"([^\"]*)\"\\)");
  std::multiset<std::string> in_sources;
  for (const auto& file : std::filesystem::directory_iterator(STOCKADE_FLEET_SOURCES)) {
    if (!file.is_regular_file()) continue;
    std::ifstream in(file.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) in_sources.insert((*it)[1]);
  }
  EXPECT_EQ(in_sources, std::multiset<std::string>(kCrashPoints.begin(), kCrashPoints.end()));
}

// A process that stops for longer than any lease, with its lanes fenced meanwhile, goes on as if nothing had been.
TEST_F(FleetKillTest, ProcessIsStoppedAndItsLanesAreFenced_ItGoesOn) {
  const World world{.seed = 7, .skus = 4, .stock = 30};
  Witness witness(world);
  Ear ear(witness);
  Round round{.ledger = "", .world = world, .number = 0, .threads = kProcesses * kThreads, .requests = 120};
  witness.BeginRound(round);
  const auto shop = Start(round, 0, "");
  Await("answers", [&] { return shop->bytes() > 2'000 || shop->process().ended(); });
  ASSERT_FALSE(shop->process().ended()) << shop->process().err();
  shop->process().Kill(SIGSTOP);
  server().Query("UPDATE " + Table("lanes") + " SET fence=fence+1");
  // Another process takes over meanwhile.
  const auto other = Start(round, 1, "");
  EXPECT_EQ(other->process().Wait(), 0) << other->process().err();
  shop->process().Kill(SIGCONT);
  EXPECT_EQ(shop->process().Wait(), 0) << shop->process().err();
  ear.Hear(*shop);
  ear.Hear(*other);
  ExpectAuditHolds();
  witness.Inspect(Contents(world, {witness.answered()}));
}

}  // namespace
}  // namespace stockade::testing

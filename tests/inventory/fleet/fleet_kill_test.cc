// Three processes of a fleet and its server are killed and stopped under load, again and again. After each kill the
// tables must be right by SQL alone, and every answer that a process was given must be in them.

#include <signal.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
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
#include "absl/strings/str_split.h"
#include "inventory/crash/witness.h"
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
constexpr std::array<std::string_view, 7> kCrashPoints = {"fleet: after limbo was moved", "fleet: after the packet",
                                                          "fleet: before limbo is moved", "fleet: before the latch",
                                                          "fleet: before the packet",     "fleet: lane registered",
                                                          "fleet: outcome not known"};

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
    for (const auto& row : server().Query("SELECT sku,granted,removed,sold_forgotten FROM " + Table("skus"))) {
      contents.skus.push_back({.sku = row[0],
                               .granted = std::stoll(row[1]),
                               .removed = row[2] != "0",
                               .sold_forgotten = std::stoll(row[3])});
    }
    return contents;
  }

  void ExpectAuditHolds() const {
    for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  }

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

TEST_F(FleetKillTest, ProcessesAndServerAreKilledUnderLoad_NothingIsOversoldLostOrThereTwice) {
  const int64_t kills = std::max<int64_t>(Scaled(20, 200), 6);
  std::minstd_rand random(static_cast<uint32_t>(Seed()));
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random()) % bound; };
  const World world{.seed = static_cast<uint32_t>(random()), .skus = 6, .stock = 10};
  Witness witness(world);
  Ear ear(witness);
  std::vector<std::vector<uint32_t>> answered;
  int64_t killed = 0;
  int crash_points = 0;
  int server_kills = 0;
  int stops = 0;
  for (uint32_t number = 0; killed < kills; ++number) {
    SCOPED_TRACE(absl::StrCat("round ", number));
    Round round{.ledger = "", .world = world, .number = number, .threads = kProcesses * kThreads};
    round.former = witness.answered();
    witness.BeginRound(round);
    // One process ends itself at a step of the protocol, if the library is built with crash points.
    std::string crash_at;
#ifdef STOCKADE_CRASH_POINTS
    crash_at = kCrashPoints[below(kCrashPoints.size())];
    absl::StrAppend(&crash_at, "#", crash_at.ends_with("packet") ? 1 + below(200) : 1 + below(2));
#endif
    const uint32_t suicide = below(kProcesses);
    std::array<std::unique_ptr<Shop>, kProcesses> shops;
    for (uint32_t i = 0; i < kProcesses; ++i) shops[i] = Start(round, i, i == suicide ? crash_at : "");
    const auto await_answers = [&](Shop& shop, size_t bytes) {
      const size_t end = shop.bytes() + bytes;
      Await("answers of a process", [&] { return shop.bytes() >= end || shop.process().ended(); });
    };
    const auto check = [&] {
      ++killed;
      for (const auto& shop : shops) ear.Hear(*shop);
      ExpectAuditHolds();
      ear.ExpectOrdersIn(server().Query("SELECT order_id FROM " + Table("orders")));
    };
    const auto kill_shop = [&](Shop& shop) {
      shop.process().Kill(SIGKILL);
      EXPECT_EQ(shop.process().Wait(), 128 + SIGKILL) << shop.process().err();
      check();
    };

    // A process stops, and its lanes are fenced meanwhile: what it has sent must not be carried out any more.
    Shop& stopped = *shops[(suicide + 1) % kProcesses];
    await_answers(stopped, below(20'000));
    if (below(2) == 0) {
      ++stops;
      stopped.process().Kill(SIGSTOP);
      server().Query("UPDATE " + Table("lanes") + " SET fence=fence+1");
      await_answers(*shops[(suicide + 2) % kProcesses], below(10'000));
      stopped.process().Kill(SIGCONT);
      await_answers(stopped, 1'000);
    }
    if (killed < kills && below(3) == 0) {
      ++server_kills;
      server().Kill();
      server().Restart();
      check();
      for (const auto& shop : shops) await_answers(*shop, 1'000);
    }
    // This process ends itself, or the test kills it.
    Shop& suicidal = *shops[suicide];
    await_answers(suicidal, crash_at.empty() ? below(20'000) : 30'000);
    crash_points += suicidal.process().ended() ? 1 : 0;
    kill_shop(suicidal);
    await_answers(stopped, below(10'000));
    kill_shop(stopped);
    await_answers(*shops[(suicide + 2) % kProcesses], below(10'000));
    kill_shop(*shops[(suicide + 2) % kProcesses]);
    answered.push_back(witness.answered());
    witness.Inspect(Contents(world, answered));
    if (HasFailure()) return;
  }
  EXPECT_GT(witness.orders(), 0u);
  EXPECT_GT(witness.repeats_of_former_rounds(), 0u) << "no id was answered both before and after a kill";
  std::cout << killed << " kills, of them " << crash_points << " at crash points and " << server_kills
            << " of the server; " << stops << " stops; " << witness.orders() << " orders, "
            << witness.repeats_of_former_rounds() << " of them answered again\n";
}

TEST(FleetCrashPointsTest, EachPointOfTheSources_IsTried) {
  const std::regex call("CrashPoint\\(\"([^\"]*)\"\\)");
  std::multiset<std::string> in_sources;
  for (const auto& file : std::filesystem::directory_iterator(STOCKADE_FLEET_SOURCES)) {
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

// What a fleet sends and writes, compared with files: a script of calls gives the same packets and rows in each version
// that does not mean to change them. STOCKADE_RECORD_PACKETS=1 writes the files again.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "inventory/fleet/fleet_faults_test.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;

class FleetPacketsTest : public FleetFaultsTest {
 protected:
  void SetUp() override {
    FleetFaultsTest::SetUp();
    if (IsSkipped()) return;
    // Hashes of names are the same in each run.
    server().Query("UPDATE " + Table("fleet") + " SET hash_keys=REPEAT('k',80)");
    server().Query("TRUNCATE TABLE mysql.general_log");
    server().Query("SET GLOBAL log_output='TABLE', GLOBAL general_log=1");
  }
  void TearDown() override {
    if (!IsSkipped()) server().Query("SET GLOBAL general_log=0");
    FleetFaultsTest::TearDown();
  }

  FleetInventoryOptions OneLane(absl::Duration refusal_lease = absl::ZeroDuration()) const {
    FleetInventoryOptions options = Options();
    options.lanes = 1;
    options.refusal_lease = refusal_lease;
    return options;
  }
  // Lets the calls that `enqueue` makes wait in the queues together, so that packets have as many as they can.
  void Together(Inventory& shop, const std::function<void()>& enqueue) {
    Client other;
    other.Run("START TRANSACTION");
    other.LockRows(Table("stock"));  // What a lane does unasked needs no lock of these rows.
    auto first = std::async(std::launch::async, [&] {
      return shop.Take({.sku = "sneaker", .request_id = Concat("first of ", ++together_)}).status();
    });
    AwaitLockWait();
    enqueue();
    other.Run("COMMIT");
    EXPECT_EQ(first.get(), absl::OkStatus());
    Await("the answers", [&] { return waiting_ == 0; });
  }
  template <typename Result>
  absl::AnyInvocable<void(Result)> Answered(std::vector<OrderId>* ids = nullptr) {
    ++waiting_;
    return [this, ids](Result result) {
      if constexpr (std::is_same_v<Result, absl::Status>) {
        EXPECT_EQ(result, absl::OkStatus());
        (void)ids;
      } else {
        EXPECT_TRUE(result.ok()) << result.status();
        if (ids != nullptr && result.ok()) ids->push_back(result->id());
      }
      --waiting_;
    };
  }

  // Ids of lanes and orders, and times, which differ from run to run, get other names.
  std::string Plain(std::string_view text) const {
    std::string plain;
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      while (end < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[end]))) ++end;
      if (end == i) {
        plain += text[i++];
        continue;
      }
      const std::string digits(text.substr(i, end - i));
      uint64_t number = 0;
      const bool is_number = absl::SimpleAtoi(digits, &number);
      const uint64_t day = 86'400'000'000;
      if (is_number && (lanes_.contains(number) || number == 0)) {
        plain += number == 0 ? "0" : "LANE";
      } else if (is_number && nonces_.contains(number)) {
        plain += "NONCE";
      } else if (is_number && lanes_.contains(number >> 32)) {
        plain += Concat("ORDER", number & UINT32_MAX);
      } else if (is_number && number > now_us_ - day && number < now_us_ + day) {
        plain += "TIME";
      } else {
        plain += digits;
      }
      i = end;
    }
    // Which segment a lane pays from is random.
    plain = std::regex_replace(plain, std::regex("AND segment=[0-9]+"), "AND segment=SEGMENT");
    plain = std::regex_replace(plain, std::regex("(SELECT [0-9]+( AS sku_id)?,)[0-9]+(,| AS segment)"), "$1SEGMENT$3");
    plain = std::regex_replace(plain, std::regex("(SET batch=)[0-9]+"), "$1BATCH");
    return absl::StrReplaceAll(plain, {{Concat(fleet(), "_"), "fleet_"}});
  }
  void NoteIds() {
    for (const auto& row : server().Query("SELECT lane_id,nonce FROM " + Table("lanes"))) {
      lanes_.insert(std::stoull(row[0]));
      nonces_.insert(std::stoull(row[1]));
    }
    now_us_ = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
  }
  // Each once, ascending, a line for each statement.
  std::string Packets() const {
    std::set<std::string> packets;
    for (const auto& row : server().Query(
             Concat("SELECT argument FROM mysql.general_log WHERE command_type='Query' AND argument LIKE 'SET @miss%",
                    fleet(), "_%'"))) {
      packets.insert(absl::StrReplaceAll(Plain(row[0]), {{";", ";\n"}}));
    }
    return absl::StrCat(packets.size(), " packets\n\n", absl::StrJoin(packets, "\n\n"), "\n");
  }
  std::string Rows() const {
    std::string all;
    for (const char* const table : {"skus", "requests", "orders", "order_lines", "changes", "buyers"}) {
      const std::string columns = server().Value(
          Concat("SELECT GROUP_CONCAT(IF(data_type LIKE '%binary',CONCAT('HEX(',column_name,')'),column_name) ORDER BY "
                 "ordinal_position) FROM information_schema.columns WHERE table_schema='test' AND table_name='",
                 fleet(), "_", table, "'"));
      AddRows(Concat(table, ": ", columns), Concat("SELECT ", columns, " FROM ", Table(table)), all);
    }
    AddRows("stock: sku_id,segments,units,held,sold",
            Concat("SELECT sku_id,COUNT(*),SUM(units),SUM(held),SUM(sold) FROM ", Table("stock"), " GROUP BY sku_id"),
            all);
    return all;
  }
  void AddRows(const std::string& title, const std::string& query, std::string& all) const {
    std::vector<std::string> lines;
    for (const auto& row : server().Query(query)) lines.push_back(Plain(absl::StrJoin(row, ",")));
    std::ranges::sort(lines);
    absl::StrAppend(&all, title, "\n", absl::StrJoin(lines, "\n"), "\n\n");
  }
  static void ExpectAsRecorded(const std::string& name, const std::string& text) {
    const std::string path = Concat(STOCKADE_SOURCE_DIR, "/tests/inventory/fixtures/", name);
    if (std::getenv("STOCKADE_RECORD_PACKETS") != nullptr) std::ofstream(path) << text;
    std::stringstream recorded;
    recorded << std::ifstream(path).rdbuf();
    EXPECT_EQ(text, recorded.str()) << path;
  }

  void Sell(Inventory& shop);
  void SellTogether(Inventory& shop);
  void SellOut(Inventory& shop);

 private:
  InlineExecutor inline_;
  std::atomic<int> waiting_ = 0;
  int together_ = 0;
  std::set<uint64_t> lanes_;
  std::set<uint64_t> nonces_;
  uint64_t now_us_ = 0;
};

void FleetPacketsTest::Sell(Inventory& shop) {
  ASSERT_EQ(shop.AddSku("sneaker", {.stock = 100}), absl::OkStatus());
  ASSERT_EQ(shop.AddSku("boot", {.stock = 9, .shards = 3}), absl::OkStatus());
  ASSERT_EQ(shop.AddSku("cap", {.stock = 20, .per_buyer_limit = 5}), absl::OkStatus());
  ASSERT_TRUE(shop.Take({.sku = "sneaker", .quantity = 2, .request_id = "take", .buyer = "ann"}).ok());
  ASSERT_TRUE(shop.Take({.sku = "cap", .request_id = "take of a cap", .buyer = "ann"}).ok());
  ASSERT_TRUE(shop.Take({.sku = "boot", .quantity = 5, .request_id = "take of many segments"}).ok());
  const auto held = shop.Reserve({.sku = "sneaker", .request_id = "it's sold"});
  const auto cap = shop.Reserve({.sku = "cap", .quantity = 2, .request_id = "cap", .buyer = "bob"});
  const auto for_ever = shop.Reserve({.sku = "boot", .request_id = "for ever", .ttl = absl::InfiniteDuration()});
  const auto basket = shop.ReserveBasket(
      {.lines = {{.sku = "sneaker"}, {.sku = "cap", .quantity = 2}}, .request_id = "basket", .buyer = "bob"});
  const auto one = shop.ReserveBasket({.lines = {{.sku = "sneaker", .quantity = 3}}, .request_id = "basket of one"});
  const auto kept = shop.Reserve({.sku = "cap", .request_id = "kept", .buyer = "eve"});
  ASSERT_TRUE(held.ok() && cap.ok() && for_ever.ok() && basket.ok() && one.ok() && kept.ok());
  EXPECT_EQ(shop.Commit(held->id()), absl::OkStatus());
  EXPECT_EQ(shop.Cancel(cap->id()), absl::OkStatus());
  EXPECT_EQ(shop.Cancel(for_ever->id()), absl::OkStatus());
  EXPECT_EQ(shop.Commit(basket->id()), absl::OkStatus());
  EXPECT_EQ(shop.Cancel(one->id()), absl::OkStatus());
  const auto due = shop.Reserve({.sku = "cap", .request_id = "due", .buyer = "eve", .ttl = absl::Milliseconds(1)});
  ASSERT_TRUE(due.ok());
  Await("an expiry",
        [&] { return Number(Concat("SELECT state FROM ", Table("orders"), " WHERE order_id=", due->id())) == 3; });
  EXPECT_EQ(shop.Restock({.sku = "sneaker", .quantity = 4, .request_id = "restock"}), absl::OkStatus());
  EXPECT_EQ(shop.Restock("boot", 2), absl::OkStatus());
  EXPECT_EQ(shop.Reshard("sneaker", 3), absl::OkStatus());
  EXPECT_EQ(shop.Reshard("sneaker", 1), absl::OkStatus());
  EXPECT_TRUE(shop.Return({.order = basket->id(), .lines = {{.sku = "cap"}}, .request_id = "a cap back"}).ok());
  EXPECT_TRUE(
      shop.Return({.order = held->id(), .request_id = "worn out", .disposition = ReturnRequest::Disposition::kWriteOff})
          .ok());
  EXPECT_EQ(shop.RemoveSku("cap"), absl::OkStatus());
  EXPECT_TRUE(shop.Return({.order = basket->id(), .request_id = "the rest"}).ok());
  EXPECT_TRUE(shop.Extend({.order = kept->id(), .ttl = absl::Minutes(20)}).ok());
  EXPECT_EQ(shop.Cancel(kept->id()), absl::OkStatus());
}

void FleetPacketsTest::SellTogether(Inventory& shop) {
  std::vector<OrderId> ids;
  Together(shop, [&] {
    for (const char* const request : {"t1", "t2", "t3"}) {
      shop.TakeAsync({.sku = "sneaker", .request_id = request, .buyer = "ann"}, inline_,
                     Answered<absl::StatusOr<Order>>());
    }
    for (const char* const request : {"r1", "r2", "r3", "r4"}) {
      shop.ReserveAsync({.sku = "sneaker", .quantity = 2, .request_id = request}, inline_,
                        Answered<absl::StatusOr<Reservation>>(&ids));
    }
    shop.ReserveBasketAsync({.lines = {{.sku = "sneaker"}, {.sku = "boot"}}, .request_id = "b1"}, inline_,
                            Answered<absl::StatusOr<BasketReservation>>(&ids));
  });
  ASSERT_EQ(ids.size(), 5);
  std::ranges::sort(ids);
  Together(shop, [&] {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i % 2 == 0) {
        shop.CommitAsync(ids[i], inline_, Answered<absl::Status>());
      } else {
        shop.CancelAsync(ids[i], inline_, Answered<absl::Status>());
      }
    }
  });
}

void FleetPacketsTest::SellOut(Inventory& shop) {
  ASSERT_EQ(shop.AddSku("scarf", {.stock = 2}), absl::OkStatus());
  const auto held = shop.Reserve({.sku = "scarf", .request_id = "h1"});
  const auto other = shop.Reserve({.sku = "scarf", .request_id = "h2"});
  ASSERT_TRUE(held.ok() && other.ok());
  EXPECT_EQ(RefusalOf(shop.Take({.sku = "scarf", .request_id = "refused"}).status()), Refusal::kAllHeld);
  const auto latched = [&] { return Number("SELECT mode FROM " + Table("skus") + " WHERE sku='scarf'"); };
  Await("the latch", [&] { return latched() == 1; });
  EXPECT_EQ(shop.Cancel(held->id()), absl::OkStatus());
  Await("the unit", [&] { return latched() == 0; });
  ASSERT_TRUE(shop.Take({.sku = "scarf", .request_id = "again"}).ok());
  EXPECT_EQ(RefusalOf(shop.Take({.sku = "scarf", .request_id = "refused"}).status()), Refusal::kAllHeld);
  Await("the second latch", [&] { return latched() == 1; });
  EXPECT_EQ(shop.Restock("scarf", 1), absl::OkStatus());
  EXPECT_EQ(shop.Commit(other->id()), absl::OkStatus());
}

TEST_F(FleetPacketsTest, ScriptOfCalls_PacketsAndRowsAreAsRecorded) {
  {
    const auto shop = Connect(OneLane());
    Sell(*shop);
    SellTogether(*shop);
  }
  {
    const auto shop = Connect(OneLane(absl::Milliseconds(500)));
    SellOut(*shop);
    NoteIds();
  }
  ExpectAsRecorded("fleet_packets.txt", Packets());
  ExpectAsRecorded("fleet_rows.txt", Rows());
}

}  // namespace
}  // namespace stockade::testing

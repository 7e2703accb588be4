#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_gate_clock.h"
#include "inventory/sqlite_ledger_support.h"
#include "support/file_size_limit.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::FileSizeLimit;
using ::stockade::testing::GateClock;
using ::stockade::testing::OpenLedger;
using ::stockade::testing::Reserve;
using ::stockade::testing::ReserveBasket;
using ::stockade::testing::Settle;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;
using ::testing::HasSubstr;
using Kind = LedgerRecord::Kind;

// Appends `bad` to a ledger of 10 shoes and order 1, and expects that it fails for good and loses nothing before.
void ExpectFailsWith(const LedgerRecord& bad, const std::string& why) {
  SCOPED_TRACE(why);
  const TempDir dir;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"));
    ledger->Append(AddSku("shoe", 10));
    const uint64_t good = ledger->Append(Take(1, "shoe", 4));
    EXPECT_TRUE(ledger->AwaitDurable(good).ok());
    const absl::Status failed = ledger->AwaitDurable(ledger->Append(bad));
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(failed.message()), HasSubstr("orders.db"));
    EXPECT_THAT(std::string(failed.message()), HasSubstr(why));
    EXPECT_EQ(ledger->Health(), failed);
    const uint64_t later = ledger->Append(Take(2, "shoe", 1));
    EXPECT_EQ(ledger->AwaitDurable(later), failed);
    EXPECT_TRUE(ledger->AwaitDurable(good).ok());
  }
  const auto ledger = OpenLedger(dir.File("orders.db"));
  const LedgerState state = ledger->TakeRecovered();
  ASSERT_EQ(state.skus.size(), 1u);
  EXPECT_EQ(state.skus[0].granted, 10);
  ASSERT_EQ(state.orders.size(), 1u);
  EXPECT_EQ(state.orders[0].request_id, "request-1");
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(2, "shoe", 6))).ok());
}

TEST(SqliteLedgerFailureTest, Append_RecordThatCannotBe_FailsTheLedgerAndLosesNothingBefore) {
  LedgerRecord repeated = Take(2, "shoe", 1);
  repeated.request_id = "request-1";
  ExpectFailsWith(repeated, "request id 'request-1' is that of order 1");
  LedgerRecord repeated_order = Take(1, "shoe", 1);
  repeated_order.request_id = "request-2";
  ExpectFailsWith(repeated_order, "orders.order_id");
  ExpectFailsWith(Take(0, "shoe", 1), "order_id > 0");
  ExpectFailsWith(Take(UINT64_MAX, "shoe", 1), "order_id > 0");
  ExpectFailsWith(Take(2, "shoe", 0), "quantity > 0");
  ExpectFailsWith(Take(2, "shoe", INT64_MIN), "quantity > 0");
  ExpectFailsWith(Take(2, "shoe", 7), "takes 7 units of SKU 'shoe', which has 6");
  ExpectFailsWith(Reserve(2, "boot", 1), "unknown SKU 'boot'");
  ExpectFailsWith(AddSku("shoe", 1), "SKU 'shoe' exists already");
  ExpectFailsWith(AddSku("boot", -1), "begins with -1 units");
  ExpectFailsWith({.kind = Kind::kRestock, .lines = {{"shoe", 0}}}, "quantity > 0");
  ExpectFailsWith({.kind = Kind::kRestock, .lines = {{"shoe", INT64_MAX}}}, "would overflow");
  ExpectFailsWith({.kind = Kind::kRestock, .lines = {{"boot", 1}}}, "unknown SKU 'boot'");
  ExpectFailsWith({.kind = Kind::kRestock}, "a record with 0 lines");
  ExpectFailsWith({.kind = Kind::kRestock, .lines = {{"shoe", 1}, {"shoe", 1}}}, "a record with 2 lines");
  ExpectFailsWith(Settle(Kind::kCommit, 1), "no such order is held");
  ExpectFailsWith(Settle(Kind::kCancel, 7), "no such order is held");
}

// Replaces each descriptor of this process for `path` by one that cannot be written.
void MakeDescriptorsReadOnly(const std::string& path) {
  const int read_only = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(read_only, 0);
  int replaced = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const int descriptor = std::stoi(entry.path().filename().string());
    if (descriptor == read_only || std::filesystem::read_symlink(entry.path(), error) != path) continue;
    ++replaced;
    EXPECT_EQ(dup3(read_only, descriptor, O_CLOEXEC), descriptor);
  }
  EXPECT_EQ(replaced, 1);
  close(read_only);
}

// Otherwise a lost log would not be noticed at the next opening.
TEST(SqliteLedgerFailureTest, Commit_WhoseMarkCannotBeWritten_IsNotAcknowledgedAndFailsTheLedger) {
  const TempDir dir;
  const std::string path = dir.File("orders.db");
  {
    const auto ledger = OpenLedger(path);
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 10))).ok());
    MakeDescriptorsReadOnly(path + ".lock");
    const absl::Status failed = ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 4)));
    EXPECT_EQ(failed.code(), absl::StatusCode::kUnavailable) << failed;
    EXPECT_THAT(std::string(failed.message()), HasSubstr("cannot write the acknowledged position"));
    EXPECT_EQ(ledger->Health(), failed);
    EXPECT_EQ(ledger->AwaitDurable(ledger->Append(Take(2, "shoe", 1))), failed);
  }
  // The record was durable, as after any failure whose outcome is not known.
  const auto ledger = OpenLedger(path);
  ASSERT_NE(ledger, nullptr);
  const LedgerState state = ledger->TakeRecovered();
  ASSERT_EQ(state.orders.size(), 1u);
  EXPECT_EQ(state.orders[0].request_id, "request-1");
}

TEST(SqliteLedgerFailureTest, Append_RecordBeyondTheLimits_IsRefusedAndTheLedgerGoesOn) {
  const TempDir dir;
  const std::string longest(255, 'x');
  const std::string too_long(256, 'x');
  LedgerRecord request = Take(7, "shoe", 1);
  request.request_id = too_long;
  LedgerRecord buyer = Take(7, "shoe", 1);
  buyer.buyer = too_long;
  const std::pair<LedgerRecord, std::string> beyond[] = {
      {request, "request_id of 256 bytes; at most 255 are allowed"},
      {buyer, "buyer of 256 bytes; at most 255 are allowed"},
      {AddSku(too_long, 1), "sku of 256 bytes; at most 255 are allowed"},
      {ReserveBasket(7, {{"shoe", 1}, {too_long, 1}}), "sku of 256 bytes; at most 255 are allowed"},
      {ReserveBasket(7, OrderLines(1'001, {"shoe", 1})), "1001 lines; at most 1000 are allowed"},
  };
  const auto ledger = OpenLedger(dir.File("orders.db"));
  ASSERT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 10))).ok());
  for (const auto& [record, why] : beyond) {
    const absl::Status refused = ledger->AwaitDurable(ledger->Append(record));
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(why));
    EXPECT_EQ(ledger->TakeRefused().size(), 1u);
    EXPECT_TRUE(ledger->Health().ok());
  }
  ledger->Append(AddSku(longest, 1));
  LedgerRecord take = Take(7, longest, 1);
  take.request_id = take.buyer = longest;
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(take)).ok());
}

TEST(SqliteLedgerFailureTest, Append_BadRecordInABatch_UndoesThatBatchAndNoOther) {
  const TempDir dir;
  GateClock clock;
  {
    const auto ledger = OpenLedger(dir.File("orders.db"), {.clock = &clock});
    const uint64_t first = ledger->Append(AddSku("shoe", 10));
    clock.AwaitBatch();
    const uint64_t before = ledger->Append(Take(1, "shoe", 1));
    ledger->Append(Take(2, "shoe", 20));
    const uint64_t after = ledger->Append(Take(3, "shoe", 1));
    clock.LetGo(2);
    EXPECT_TRUE(ledger->AwaitDurable(first).ok());
    EXPECT_EQ(ledger->AwaitDurable(before).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ledger->AwaitDurable(after).code(), absl::StatusCode::kUnavailable);
  }
  const LedgerState state = OpenLedger(dir.File("orders.db"))->TakeRecovered();
  EXPECT_EQ(state.skus.size(), 1u);
  EXPECT_TRUE(state.orders.empty());
}

TEST(SqliteLedgerFailureTest, Append_WithTheQueueFull_WaitsForTheWriter) {
  const TempDir dir;
  GateClock clock;
  const auto ledger = OpenLedger(dir.File("orders.db"), {.max_queued_records = 2, .clock = &clock});
  ledger->Append(AddSku("shoe", 10));
  clock.AwaitBatch();
  ledger->Append(Take(1, "shoe", 1));
  ledger->Append(Take(2, "shoe", 1));
  std::atomic<bool> let_go{false};
  std::thread writer([&] {
    let_go = true;
    clock.LetGo(3);
  });
  const uint64_t third = ledger->Append(Take(3, "shoe", 1));
  EXPECT_TRUE(let_go) << "it did not wait";
  writer.join();
  EXPECT_TRUE(ledger->AwaitDurable(third).ok());
}

TEST(SqliteLedgerFailureTest, Append_BlockedByAFullQueue_IsReleasedWhenTheLedgerFails) {
  const TempDir dir;
  const auto ledger = OpenLedger(dir.File("orders.db"), {.max_batch_records = 2, .max_queued_records = 2});
  ledger->Append(AddSku("shoe", 10));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      uint64_t last = 0;
      // All take the order ids 1 to 50: the second of each fails the ledger, with others in Append().
      for (uint64_t i = 1; i <= 50; ++i) last = ledger->Append(Take(i, "shoe", 1));
      EXPECT_EQ(ledger->AwaitDurable(last).code(), absl::StatusCode::kUnavailable);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger->Health().code(), absl::StatusCode::kUnavailable);
}

uint64_t CheckpointsIn(const MetricsRegistry& registry) {
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    if (family.name == "stockade_ledger_checkpoint_seconds") return family.metric.at(0).histogram.sample_count;
  }
  return 0;
}

TEST(SqliteLedgerFailureTest, Append_WhenFilesCannotGrow_IsRefusedAndTakesAgainWhenTheyCan) {
  const TempDir dir;
  uint64_t id = 1;
  {
    MetricsRegistry registry;
    const auto ledger = SqliteLedger::Open(dir.File("orders.db"), {.metrics = &registry}).value();
    ledger->Append(AddSku("shoe", 1'000'000));
    EXPECT_TRUE(ledger->AwaitDurable(1).ok());
    absl::Status status;
    {
      const FileSizeLimit limit(rlim_t{256} * 1024);
      // 4 KiB of log each, at least: it ends long before the limit of the loop.
      for (; id < 1000; ++id) {
        status = ledger->AwaitDurable(ledger->Append(Take(id, "shoe", 1)));
        if (!status.ok()) break;
      }
    }
    EXPECT_GT(id, 1u);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(ledger->Health(), status);
    const std::vector<LedgerRecord> refused = ledger->TakeRefused();
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(refused[0].order_id, id);
    EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(refused[0])).ok());
    EXPECT_EQ(CheckpointsIn(registry), 1u);
  }
  const LedgerState state = OpenLedger(dir.File("orders.db"))->TakeRecovered();
  EXPECT_EQ(state.orders.size(), id);
}

}  // namespace
}  // namespace stockade

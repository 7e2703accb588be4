#include <prometheus/text_serializer.h>
#include <stdio.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "inventory/sqlite_ledger_support.h"
#include "support/needs_program.h"

namespace stockade {
namespace {

using ::stockade::testing::AddSku;
using ::stockade::testing::Take;
using ::stockade::testing::TempDir;

std::string LabelOf(const prometheus::ClientMetric& metric, std::string_view name) {
  for (const prometheus::ClientMetric::Label& label : metric.label) {
    if (label.name == name) return label.value;
  }
  return "";
}

TEST(SqliteLedgerMetricsTest, Collect_AfterCommitsAndAFailure_CountsThem) {
  const TempDir dir;
  MetricsRegistry registry;
  auto ledger = SqliteLedger::Open(dir.File("orders.db"), {.name = "shop", .metrics = &registry}).value();
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(AddSku("shoe", 10))).ok());
  EXPECT_TRUE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 1))).ok());
  EXPECT_FALSE(ledger->AwaitDurable(ledger->Append(Take(1, "shoe", 1))).ok());
  std::map<std::string, prometheus::ClientMetric> found;
  for (const prometheus::MetricFamily& family : registry.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_EQ(LabelOf(metric, "ledger"), "shop") << family.name;
      found[family.name + LabelOf(metric, "result")] = metric;
    }
  }
  EXPECT_EQ(found.size(), 12u);
  EXPECT_EQ(found["stockade_ledger_records_total"].counter.value, 2);
  EXPECT_EQ(found["stockade_ledger_commits_totalsuccess"].counter.value, 2);
  EXPECT_EQ(found["stockade_ledger_commits_totalerror"].counter.value, 1);
  EXPECT_EQ(found["stockade_ledger_commit_seconds"].histogram.sample_count, 3u);
  EXPECT_EQ(found["stockade_ledger_batch_records"].histogram.sample_sum, 3);
  EXPECT_EQ(found["stockade_ledger_queue_records"].gauge.value, 0);
  EXPECT_EQ(found["stockade_ledger_commits_totalrefused"].counter.value, 0);
  EXPECT_EQ(found["stockade_ledger_journal_records"].gauge.value, 2);
  EXPECT_GT(found["stockade_ledger_file_bytes"].gauge.value, 4096);
  EXPECT_GT(found["stockade_ledger_recovery_seconds"].gauge.value, 0);
}

TEST(SqliteLedgerMetricsTest, PromtoolCheck_OfWhatIsExported_IsSilent) {
  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  const TempDir dir;
  MetricsRegistry registry;
  auto ledger = SqliteLedger::Open(dir.File("orders.db"), {.metrics = &registry}).value();
  std::ofstream(dir.File("metrics")) << prometheus::TextSerializer().Serialize(registry.Collect());
  const std::string command =
      absl::StrCat("promtool check metrics < ", dir.File("metrics"), " > ", dir.File("out"), " 2>&1");
  EXPECT_EQ(system(command.c_str()), 0);
  std::ifstream out(dir.File("out"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(out), {}), "");
}

}  // namespace
}  // namespace stockade

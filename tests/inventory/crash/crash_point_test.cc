// A shop with few units, all wanted at once, dies at each step of its protocol.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "inventory/crash/chain.h"

namespace stockade::testing {
namespace {

struct Point {
  const char* name;
  std::vector<int> passes;  // At which of them it dies, each in a process of its own.
  // Short: the ledger is to forget what ended.
  absl::Duration retention = absl::InfiniteDuration();
};

void PrintTo(const Point& point, std::ostream* out) { *out << point.name; }

const std::vector<int> kOnceAProcess = {1};
constexpr absl::Duration kMoment = absl::Milliseconds(50);
const std::vector<int> kOften = {1, 40};

const std::vector<Point>& Points() {
  static const auto* const points = new std::vector<Point>{
      {"add sku: appended", {1, 4}},
      {"add sku: before the append", {1, 4}},
      {"add sku: given", {1, 4}},
      {"close: log moved into the file", kOnceAProcess},
      {"end: appended", kOften},
      {"end: before the append", kOften},
      {"end: units moved", kOften},
      {"extend: appended", kOften},
      {"extend: before the append", kOften},
      {"extend: done", kOften},
      {"grant: appended", kOften},
      {"grant: counted", kOften},
      {"grant: units taken, before the append", kOften},
      {"open: checkpoint done", kOnceAProcess},
      {"open: file complete, before the log is emptied", kOnceAProcess},
      {"open: file prepared", kOnceAProcess},
      {"open: files found", kOnceAProcess},
      {"open: log moved into the file", kOnceAProcess},
      {"open: recovered, before the checkpoint", kOnceAProcess},
      {"open: recovered, before the migration", kOnceAProcess},
      {"prune: committed", {1, 3}, kMoment},
      {"prune: journal deleted, before the commit", {1, 3}, kMoment},
      {"prune: orders deleted, before the rest", {1, 3}, kMoment},
      {"remove sku: appended", {1, 3}},
      {"remove sku: given", {1, 3}},
      {"remove sku: units withdrawn, before the append", {1, 3}},
      {"return: appended", kOften},
      {"return: before the append", kOften},
      {"return: units moved", kOften},
      {"restock: appended", {1, 20}},
      {"restock: before the append", {1, 20}},
      {"restock: deposited", {1, 20}},
      {"writer: all notified", kOften},
      {"writer: batch taken", kOften},
      {"writer: before a checkpoint", {1, 2}},
      {"writer: callbacks invoked, before the waiters", kOften},
      {"writer: checkpoint done", {1, 2}},
      {"writer: committed, before the notifications", kOften},
      {"writer: file needs its log", kOnceAProcess},
      {"writer: log begun", kOnceAProcess},
      {"writer: one record applied", kOften},
      {"writer: records applied, before the commit", kOften},
      {"writer: transaction begun", kOften},
  };
  return *points;
}

class CrashPointTest : public ::testing::TestWithParam<Point> {};

TEST_P(CrashPointTest, Death_ThereAtSomePass_CountsNoUnitTwiceAndLosesNoAnswer) {
  // More than any pass above needs. Only at the close are they all sent.
  const uint32_t requests = GetParam().name == std::string_view("close: log moved into the file") ? 250 : 20'000;
  Chain chain({.seed = static_cast<uint32_t>(std::hash<std::string>()(GetParam().name)), .skus = 2, .stock = 3}, 6);
  for (const bool empty : {true, false}) {
    for (const int pass : GetParam().passes) {
      // Once at once, and once after the others have gone on for a while without the one that came there.
      const std::string at = absl::StrCat(GetParam().name, "#", pass, empty ? "" : "+20");
      SCOPED_TRACE(absl::StrCat(at, empty ? ", new ledger" : ""));
      const Ended ended = chain.RunToEnd(requests, {.crash_at = at}, GetParam().retention);
      ASSERT_NE(ended.status, 0) << "it never came there";
      ExpectKilled(ended);
      ASSERT_FALSE(HasFailure());
    }
    // What was under way is asked about again, and goes on.
    EXPECT_EQ(chain.RunToEnd(250, {}, GetParam().retention).status, 0);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(chain.witness().repeats_of_former_rounds(), 0u);
  if (GetParam().retention == kMoment) {
    EXPECT_GT(chain.Count("SELECT journal_start FROM ledger"), 0);
    return;
  }
  EXPECT_GT(chain.Count("SELECT sum(CASE WHEN kind IN ('reserve', 'take') THEN quantity "
                        "WHEN kind IN ('add_sku', 'restock') THEN -quantity ELSE 0 END) "
                        "FROM journal WHERE sku NOT LIKE 'only-%'"),
            0)
      << "no unit that came back was sold again";
}

std::string NameOf(const ::testing::TestParamInfo<Point>& info) {
  std::string name;
  for (const char* at = info.param.name; *at != '\0'; ++at) {
    name += *at >= 'a' && *at <= 'z' ? *at : '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(EachStep, CrashPointTest, ::testing::ValuesIn(Points()), NameOf);

TEST(CrashPointTableTest, Table_HasEachPointOfTheSources) {
  const std::regex call(R"re(CrashPoint\("([^"]*)"\)|Carry\(\{"([^"]*)", "([^"]*)", "([^"]*)"\})re");
  std::multiset<std::string> in_sources;
  for (const auto& file : std::filesystem::recursive_directory_iterator(STOCKADE_INVENTORY_SOURCES)) {
    if (file.path().extension() != ".cc" && file.path().extension() != ".h") continue;
    if (file.path().parent_path().filename() == "fleet") continue;  // fleet_kill_test.cc has those.
    std::ifstream in(file.path());
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
      for (size_t name = 1; name < it->size(); ++name) {
        if ((*it)[name].matched) in_sources.insert((*it)[name]);
      }
    }
  }
  std::multiset<std::string> in_table;
  for (const Point& point : Points()) in_table.insert(point.name);
  EXPECT_EQ(in_table, in_sources);
}

}  // namespace
}  // namespace stockade::testing

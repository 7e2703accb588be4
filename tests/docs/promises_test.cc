// Tables of documents whose last column names the tests that show what they say.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "docs/test_names.h"

namespace stockade::testing {
namespace {

struct Promise {
  std::string document;
  std::string line;
  std::string tests;  // The last column.
};

std::vector<Promise> Promises() {
  std::vector<Promise> promises;
  const std::filesystem::path docs = std::filesystem::path(STOCKADE_SOURCE_DIR) / "docs";
  for (const auto& file : std::filesystem::directory_iterator(docs)) {
    if (file.path().extension() != ".md") continue;
    std::ifstream in(file.path());
    bool in_table = false;
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with("|")) in_table = false;
      const std::vector<std::string> cells = absl::StrSplit(line, '|');
      const std::string last = cells.size() < 3 ? "" : std::string(absl::StripAsciiWhitespace(cells[cells.size() - 2]));
      if (in_table && !last.starts_with("---")) promises.push_back({file.path().filename(), line, last});
      if (last == "tested by" || last == "shown by") in_table = true;
    }
  }
  return promises;
}

TEST(PromisesTest, TablesOfPromises_NameTestsThatThereAre) {
  const std::set<std::string> tests = TestNames("tests");
  const std::regex name(R"(`(\w+Test(\.\w+)?)`)");
  std::set<std::string> documents;
  for (const Promise& promise : Promises()) {
    documents.insert(promise.document);
    int named = 0;
    for (std::sregex_iterator match(promise.tests.begin(), promise.tests.end(), name), end; match != end; ++match) {
      EXPECT_TRUE(tests.contains((*match)[1])) << promise.document << ": " << promise.line;
      ++named;
    }
    EXPECT_TRUE(named > 0 || promise.tests == "-") << promise.document << ": " << promise.line;
  }
  EXPECT_EQ(documents, (std::set<std::string>{"CACHE.md", "DISTRIBUTED_LOCKS.md", "FLEET_CACHE_WIRE.md",
                                              "FLEET_INVENTORY.md", "INVENTORY.md"}));
}

TEST(PromisesTest, PartitionsFailoversAndRestores_AreTested) {
  const std::regex failures(
      "partition|cut off|fails? over|failover|promoted|takes? over|restor|comes? back|roll(ed|s) back|two masters|lost|"
      "killed|dies|without (its|their) data");
  int failures_named = 0;
  for (const Promise& promise : Promises()) {
    if (!std::regex_search(promise.line, failures)) continue;
    ++failures_named;
    EXPECT_NE(promise.tests, "-") << promise.document << ": " << promise.line;
  }
  EXPECT_GT(failures_named, 30);
}

}  // namespace
}  // namespace stockade::testing

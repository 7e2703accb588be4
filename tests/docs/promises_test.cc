// Tables of documents whose last column names the tests that show what they say.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
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
  std::string line;
  std::string tests;  // The last column.
};
struct Document {
  std::vector<std::string> lines;
  std::vector<Promise> promises;
};

std::map<std::string, Document> Documents() {
  std::map<std::string, Document> documents;
  const std::filesystem::path docs = std::filesystem::path(STOCKADE_SOURCE_DIR) / "docs";
  for (const auto& file : std::filesystem::directory_iterator(docs)) {
    if (file.path().extension() != ".md") continue;
    Document& document = documents[file.path().filename()];
    std::ifstream in(file.path());
    bool in_table = false;
    for (std::string line; std::getline(in, line); document.lines.push_back(line)) {
      if (!line.starts_with("|")) in_table = false;
      const std::vector<std::string> cells = absl::StrSplit(line, '|');
      const std::string last = cells.size() < 3 ? "" : std::string(absl::StripAsciiWhitespace(cells[cells.size() - 2]));
      if (in_table && !last.starts_with("---")) document.promises.push_back({line, last});
      if (last == "tested by" || last == "shown by") in_table = true;
    }
  }
  return documents;
}

TEST(PromisesTest, NamesOfTests_AreOfTestsThatThereAre) {
  const std::set<std::string> tests = TestNames("tests");
  const std::regex name(R"(`(\w+Test(\.\w+)?)`)");
  for (const auto& [title, document] : Documents()) {
    for (const std::string& line : document.lines) {
      for (std::sregex_iterator match(line.begin(), line.end(), name), end; match != end; ++match) {
        EXPECT_TRUE(tests.contains((*match)[1])) << title << ": " << line;
      }
    }
  }
}

TEST(PromisesTest, TablesOfPromises_NameTestsOnly) {
  const std::regex names(R"(`\w+Test(\.\w+)?`(, `\w+Test(\.\w+)?`)*)");
  // At least so many rows: a table whose head is changed is not overlooked.
  std::map<std::string, size_t> rows = {{"CACHE.md", 7},
                                        {"DISTRIBUTED_LOCKS.md", 30},
                                        {"FLEET_CACHE_WIRE.md", 17},
                                        {"FLEET_INVENTORY.md", 26},
                                        {"INVENTORY.md", 20}};
  for (const auto& [title, document] : Documents()) {
    EXPECT_GE(document.promises.size(), rows[title]) << title;
    for (const Promise& promise : document.promises) {
      EXPECT_TRUE(std::regex_match(promise.tests, names) || promise.tests == "-") << title << ": " << promise.line;
    }
  }
}

TEST(PromisesTest, PartitionsFailoversAndRestores_AreTested) {
  const std::regex failures(
      "partition|cut off|fails? over|failover|promoted|takes? over|restor|comes? back|roll(ed|s) back|two masters|lost|"
      "killed|dies|without (its|their) data");
  int failures_named = 0;
  for (const auto& [title, document] : Documents()) {
    for (const Promise& promise : document.promises) {
      if (!std::regex_search(promise.line, failures)) continue;
      ++failures_named;
      EXPECT_NE(promise.tests, "-") << title << ": " << promise.line;
    }
  }
  EXPECT_GT(failures_named, 30);
}

}  // namespace
}  // namespace stockade::testing

// The contract of Inventory uses terms for what differs between its implementations, and each of them defines all.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stockade {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Header(const std::string& name) {
  std::ifstream file(std::string(STOCKADE_INVENTORY_HEADERS) + "/" + name);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The names in the first table behind `text`: lines of "//   name   meaning", and those that continue a meaning.
std::vector<std::string> TermsBehind(const std::string& header, const std::string& text) {
  const size_t begin = header.find(text);
  EXPECT_NE(begin, std::string::npos) << text;
  std::vector<std::string> terms;
  if (begin == std::string::npos) return terms;
  const std::vector<std::string> lines = absl::StrSplit(header.substr(begin), '\n');
  for (const std::string& line : lines) {
    const bool in_table = line.starts_with("//   ");
    if (!in_table && !terms.empty()) break;
    if (in_table && line[5] != ' ') terms.push_back(line.substr(5, line.find("  ", 5) - 5));
  }
  return terms;
}

TEST(InventoryTermsTest, EachImplementationDefinesThoseOfTheContract) {
  const std::vector<std::string> terms = TermsBehind(Header("inventory.h"), "It uses these terms");
  EXPECT_EQ(terms.size(), 9U);
  EXPECT_EQ(TermsBehind(Header("local_inventory.h"), "The terms of the class Inventory"), terms);
  EXPECT_EQ(TermsBehind(Header("fleet_inventory.h"), "The terms of the class Inventory"), terms);
}

TEST(InventoryTermsTest, TheContractNamesNoImplementation) {
  std::string contract = Header("inventory.h");
  contract = contract.substr(contract.find("// A catalogue of items for sale"));
  for (const char* const name : {"n one process", "a fleet", "database", "stripe"}) {
    EXPECT_THAT(contract, Not(HasSubstr(name)));
  }
}

}  // namespace
}  // namespace stockade

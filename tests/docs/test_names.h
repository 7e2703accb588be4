#ifndef STOCKADE_TESTS_DOCS_TEST_NAMES_H_
#define STOCKADE_TESTS_DOCS_TEST_NAMES_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace stockade::testing {

// The suites ("LossTest") and the cases ("LossTest.LeaseOver_IsInvalid") of all tests below `folder`, of the source
// tree.
inline std::set<std::string> TestNames(const std::string& folder) {
  std::set<std::string> names;
  const std::regex test(R"(TEST(_F|_P)?\((\w+),\s*(\w+)\))");
  const std::string root = std::string(STOCKADE_SOURCE_DIR) + "/" + folder;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".cc") continue;
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    for (std::sregex_iterator match(text.begin(), text.end(), test), end; match != end; ++match) {
      names.insert((*match)[2]);
      names.insert((*match)[2].str() + "." + (*match)[3].str());
    }
  }
  return names;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DOCS_TEST_NAMES_H_

#ifndef STOCKADE_TESTS_DOCS_DOCUMENT_TABLE_H_
#define STOCKADE_TESTS_DOCS_DOCUMENT_TABLE_H_

#include <fstream>
#include <string>
#include <vector>

namespace stockade::testing {

// The lines of the table in `document` (relative to the source tree) whose first line begins with `head`.
inline std::vector<std::string> DocumentedTable(const std::string& document, const std::string& head) {
  std::vector<std::string> table;
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/" + document);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(head) || (!table.empty() && line.starts_with("|"))) table.push_back(line);
    if (!table.empty() && line.empty()) break;
  }
  return table;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_DOCS_DOCUMENT_TABLE_H_

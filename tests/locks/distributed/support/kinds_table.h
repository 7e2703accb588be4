#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_KINDS_TABLE_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_KINDS_TABLE_H_

#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "docs/document_table.h"
#include "stockade/locks/acquire_options.h"

namespace stockade::testing {

// In the order of the table's columns.
inline constexpr LockKind kKindsInOrder[] = {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite};

// A row of the table of docs/DISTRIBUTED_LOCKS.md that says what an acquire of each kind gets.
struct KindsRow {
  LockKind held;
  std::string by;
  std::array<absl::StatusCode, 4> answers;
};

inline std::vector<KindsRow> KindsTable() {
  std::vector<KindsRow> rows;
  const std::vector<std::string> lines = DocumentedTable("docs/DISTRIBUTED_LOCKS.md", "| held as |");
  for (size_t i = 2; i < lines.size(); ++i) {
    std::vector<std::string> cells;
    std::istringstream line(lines[i].substr(1));
    for (std::string cell; std::getline(line, cell, '|');) {
      if (cell.size() > 2) cells.push_back(cell.substr(1, cell.size() - 2));
    }
    if (cells.size() != 6) {
      ADD_FAILURE() << lines[i];
      continue;
    }
    constexpr const char* kNames[] = {"`kReentrant`", "`kFair`", "`kRead`", "`kWrite`"};
    KindsRow row = {.by = cells[1]};
    for (size_t kind = 0; kind < 4; ++kind) {
      if (cells[0] == kNames[kind]) row.held = kKindsInOrder[kind];
      const std::string& answer = cells[2 + kind];
      row.answers[kind] = answer == "enters"  ? absl::StatusCode::kOk
                          : answer == "waits" ? absl::StatusCode::kDeadlineExceeded
                                              : absl::StatusCode::kFailedPrecondition;
      EXPECT_TRUE(answer == "enters" || answer == "waits" || answer == "refused") << lines[i];
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_KINDS_TABLE_H_

#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_AUDIT_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_AUDIT_H_

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_replace.h"
#include "mysql/support/mariadb_server.h"

namespace stockade::testing {

// A row that docs/fleet_audit.sql prints.
struct FleetFinding {
  std::string statement;  // Its name, before the colon in its comment.
  std::string row;
};

// What docs/fleet_audit.sql finds in the tables whose names begin with `prefix`, "database.fleet".
inline std::vector<FleetFinding> AuditFleet(const MariaDbServer& server, std::string_view prefix) {
  std::ifstream file(STOCKADE_SOURCE_DIR "/docs/fleet_audit.sql");
  std::vector<FleetFinding> findings;
  std::string name;
  std::string statement;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("-- ")) {
      const size_t colon = line.find(": ");
      if (colon != std::string::npos && line.find(' ', 3) > colon) name = line.substr(3, colon - 3);
      continue;
    }
    statement += line + "\n";
    if (!line.ends_with(";")) continue;
    for (const auto& values : server.Query(absl::StrReplaceAll(statement, {{"{fleet}", std::string(prefix)}}))) {
      std::string row;
      for (const std::string& value : values) row += (row.empty() ? "" : ", ") + value;
      findings.push_back({.statement = name, .row = row});
    }
    statement.clear();
  }
  EXPECT_FALSE(name.empty()) << "no docs/fleet_audit.sql";
  return findings;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_AUDIT_H_

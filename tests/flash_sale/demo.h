#ifndef STOCKADE_TESTS_FLASH_SALE_DEMO_H_
#define STOCKADE_TESTS_FLASH_SALE_DEMO_H_

#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "support/subprocess.h"
#include "support/temp_dir.h"

namespace stockade::testing {

// FLASH_SALE is the program's path, set by CMake.
inline std::vector<std::string> DemoArgs(std::vector<std::string> args) {
  args.insert(args.begin(), FLASH_SALE);
  return args;
}

// A whole run, but small, in `dir`, with its metrics on a free port.
inline std::vector<std::string> SmallRun(const std::string& dir, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {"--dir",   dir,   "--port",   "0",    "--seconds", "2",
                                   "--stock", "200", "--buyers", "2000", "--viewers", "16"};
  args.insert(args.end(), more.begin(), more.end());
  return DemoArgs(std::move(args));
}

inline RunResult RunDemo(std::vector<std::string> args) { return RunToEnd(DemoArgs(std::move(args))); }

inline void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string LastLine(const std::string& text) {
  if (text.empty() || text.back() != '\n') return "";
  const size_t before = text.find_last_of('\n', text.size() - 2);
  return text.substr(before == std::string::npos ? 0 : before + 1, text.size() - 1 - (before + 1));
}

// The first line of `text` that begins with `prefix`.
inline std::string LineOf(const std::string& text, const std::string& prefix) {
  const size_t at = ("\n" + text).find("\n" + prefix);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

struct AuditFigures {
  long stock, sold, held, available, oversold, duplicates;
  std::string loads_per_expiry;
};

// None where `line` is not exactly an audit line.
inline std::optional<AuditFigures> ParseAudit(const std::string& line) {
  static const std::regex form(
      R"(audit: stock=(\d+) sold=(\d+) held=(\d+) available=(-?\d+) oversold=(\d+) duplicates=(\d+) )"
      R"(loads_per_expiry=(-|\d+\.\d\d))");
  std::smatch match;
  if (!std::regex_match(line, match, form)) return std::nullopt;
  const auto number = [&](int group) { return std::stol(match[group]); };
  return AuditFigures{number(1), number(2), number(3), number(4), number(5), number(6), match[7]};
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_FLASH_SALE_DEMO_H_

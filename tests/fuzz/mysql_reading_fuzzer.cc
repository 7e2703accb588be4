// What a server sends as the results of a packet, of any shape, through MySqlReading: it takes a reply only if that has
// exactly the results, columns and types that the statements ask for.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "stockade/mysql/internal/mysql_reading.h"

namespace stockade::mysql_internal {
namespace {

using Joined = std::tuple<uint64_t, std::string, std::optional<std::tuple<int64_t, bool>>>;

void Check(bool holds) {
  if (!holds) std::abort();
}

// Reads commands: what arrives next, and its bytes.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  size_t Number(size_t bound) {
    if (bytes_.empty()) return 0;
    const auto number = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return number % bound;
  }
  MySqlCell Cell() {
    const size_t size = Number(32);
    if (size == 31) return std::nullopt;
    const std::string_view cell = bytes_.substr(0, size);
    bytes_.remove_prefix(cell.size());
    return cell;
  }

 private:
  std::string_view bytes_;
};

bool IsNumber(const MySqlCell& cell) {
  int64_t number = 0;
  return cell.has_value() && absl::SimpleAtoi(AbslView(*cell), &number);
}

void Run(Input input) {
  std::vector<Joined> rows;
  std::array<uint8_t, 4> hash = {};
  const auto sinks = MySqlInto(rows, hash);
  MySqlReading reading("UPDATE a;SELECT b;SELECT c", sinks);
  size_t statements = 0;
  size_t results = 0;
  size_t taken_rows = 0;
  while (!input.empty()) {
    if (!reading.TakeStatement()) {
      Check(statements == 3 && !reading.what().empty());
      return;
    }
    ++statements;
    if (input.Number(2) == 0) continue;  // It returned no rows.
    const size_t columns = input.Number(8);
    if (!reading.BeginRows(columns)) {
      Check(results == 2 || columns != (results == 0 ? 4 : 1));
      return;
    }
    Check(columns == (results == 0 ? 4 : 1));
    ++results;
    std::vector<MySqlCell> cells(columns);
    for (size_t left = input.Number(4); left > 0; --left) {
      for (MySqlCell& cell : cells) cell = input.Cell();
      if (!reading.TakeRow(cells)) return;
      if (results == 1) {
        Check(IsNumber(cells[0]) || cells[0]->size() > 18);
        Check(cells[1].has_value() && cells[2].has_value() == cells[3].has_value());
        Check(rows.size() == ++taken_rows && std::get<1>(rows.back()) == *cells[1]);
        Check(std::get<2>(rows.back()).has_value() == cells[2].has_value());
      } else {
        Check(cells[0]->size() == hash.size() && static_cast<uint8_t>(cells[0]->front()) == hash[0]);
      }
    }
    if (!reading.EndRows()) {
      Check(results == 2);
      return;
    }
  }
  Check(reading.End() == (statements == 3 && results == 2));
}

}  // namespace
}  // namespace stockade::mysql_internal

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stockade::mysql_internal::Run(
      stockade::mysql_internal::Input(std::string_view(reinterpret_cast<const char*>(data), size)));
  return 0;
}

#include "stockade/mysql/internal/mysql_reading.h"

#include "absl/strings/ascii.h"
#include "stockade/base/printable.h"

namespace stockade::mysql_internal {
namespace {

constexpr size_t kBytesPerCell = 16;
constexpr size_t kMaxShownBytes = 100;

// Blank text between or after the ';' is no statement.
size_t CountStatements(std::string_view statements) {
  size_t count = 0;
  while (!statements.empty()) {
    const size_t end = std::min(statements.find(';'), statements.size());
    if (!absl::StripAsciiWhitespace(AbslView(statements.substr(0, end))).empty()) ++count;
    statements.remove_prefix(std::min(end + 1, statements.size()));
  }
  return count;
}

std::string Shown(const MySqlCell& cell) {
  return cell.has_value() ? Concat("'", base_internal::Printable(*cell, kMaxShownBytes), "'") : std::string("NULL");
}

}  // namespace

MySqlReading::MySqlReading(std::string_view statements, std::span<const MySqlSink> sinks)
    : statements_(CountStatements(statements)), sinks_(sinks) {
  for (const MySqlSink& sink : sinks_) sink.clear(sink.into);
}

bool MySqlReading::TakeStatement() {
  return ran_++ < statements_ || SetError("it has more than ", statements_, " results");
}

bool MySqlReading::BeginRows(size_t columns) {
  rows_ = 0;
  if (results_ == sinks_.size()) return SetError("it has more than ", sinks_.size(), " results with rows");
  const size_t wanted = sinks_[results_++].columns;
  return columns == wanted || SetError("result ", results_, " has ", columns, " columns instead of ", wanted);
}

bool MySqlReading::TakeRow(std::span<const MySqlCell> cells) {
  for (const MySqlCell& cell : cells) bytes_ += kBytesPerCell + (cell.has_value() ? cell->size() : 0);
  if (bytes_ > kMaxBytes) return SetError("it has more than ", kMaxBytes, " bytes");
  const MySqlSink& sink = sinks_[results_ - 1];
  if (sink.is_one_row && ++rows_ > 1) return SetError("result ", results_, " has more than one row");
  const size_t taken = sink.take(sink.into, cells);
  return taken == cells.size() || SetError("result ", results_, " has ", Shown(cells[taken]), " in column ", taken + 1,
                                           ", which is not of its type");
}

bool MySqlReading::EndRows() {
  return !sinks_[results_ - 1].is_one_row || rows_ == 1 || SetError("result ", results_, " has no row");
}

bool MySqlReading::End() {
  if (ran_ < statements_) return SetError("it has ", ran_, " results instead of ", statements_);
  return results_ == sinks_.size() || SetError("it has ", results_, " results with rows instead of ", sinks_.size());
}

}  // namespace stockade::mysql_internal

#ifndef STOCKADE_INVENTORY_SQLITE_LINE_READER_H_
#define STOCKADE_INVENTORY_SQLITE_LINE_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sqlite_database.h"
#include "stockade/inventory/ledger.h"

namespace stockade::inventory_internal {

// Reads a table of lines beside the table of those whom they belong to. Must be gone before its database.
class LineReader {
 public:
  // `sql` gives the owner's id, which ascends, a SKU and a quantity. `name`: the table, for errors.
  static absl::StatusOr<LineReader> Create(SqliteDatabase& database, std::string_view sql, std::string name);

  // The lines of `owner`, which must ascend from call to call. DataLoss: it has none; or there are lines of an owner in
  // between, which was not asked for.
  absl::StatusOr<std::vector<OrderLine>> LinesOf(int64_t owner);

  // DataLoss: there are more lines than were asked for.
  absl::Status ExpectEnd();

 private:
  LineReader(SqliteStatement rows, std::string name) : rows_(std::move(rows)), name_(std::move(name)) {}

  absl::Status Advance();
  absl::Status Astray() const;

  SqliteStatement rows_;
  std::string name_;
  bool at_row_ = false;  // rows_ is at a row that nobody has been given.
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_SQLITE_LINE_READER_H_

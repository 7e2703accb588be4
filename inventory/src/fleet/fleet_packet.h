#ifndef STOCKADE_INVENTORY_FLEET_FLEET_PACKET_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_PACKET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stockade/base/strings.h"

namespace stockade::inventory_internal {

// In statements over several rows of a small table: a server that reads all rows instead would lock all, in another
// order.
inline constexpr std::string_view kByKey = " FORCE INDEX (PRIMARY)";

// Of the rows of stock of a SKU: the segments of the ledger, and those of Redis nodes.
inline constexpr std::string_view kOfLedger = " AND segment<1000000";
inline constexpr std::string_view kOfNodes = " AND segment>=1000000";

// Of `units`, those of segment `segment` of `segments`, as SQL.
inline std::string Share(std::string_view units, std::string_view segments, std::string_view segment) {
  return Concat("(", units, " DIV ", segments, "+(", segment, "<", units, " MOD ", segments, "))");
}

// The statements of one transaction, each of which does what its caller expects, or the transaction is rolled back. The
// caller gives each statement a tag that says what it is about, which FleetLane::Run() returns if it was this one.
class FleetPacket {
 public:
  // Of statements whose caller reads its rows again, whichever fails.
  static constexpr size_t kAnyTag = 0;

  // A statement that fails if it cannot do all it says.
  void Add(std::string_view statement, size_t tag = kAnyTag) {
    sql_ += Concat(";", statement);
    tags_.push_back(tag);
  }
  // A statement that must match `rows` rows: an UPDATE that matches no row is no error in SQL.
  void AddGuarded(std::string_view statement, int64_t rows, size_t tag = kAnyTag) {
    Add(statement, tag);
    Add(Concat("SET @miss=IF(@miss IS NULL AND ROW_COUNT()<>", rows, ",", tag, ",@miss)"), tag);
  }
  // A condition on the variables that earlier statements have set.
  void AddCondition(std::string_view condition, size_t tag = kAnyTag) {
    Add(Concat("SET @miss=IF(@miss IS NULL AND NOT(", condition, "),", tag, ",@miss)"), tag);
  }

  bool empty() const { return tags_.empty(); }
  const std::string& sql() const { return sql_; }
  // Of the statement at this index.
  size_t tag(size_t index) const { return tags_[index]; }
  size_t size() const { return tags_.size(); }
  bool HasTag(size_t tag) const { return std::ranges::find(tags_, tag) != tags_.end(); }

 private:
  std::string sql_;
  std::vector<size_t> tags_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_PACKET_H_

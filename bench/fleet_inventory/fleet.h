#ifndef STOCKADE_BENCH_FLEET_INVENTORY_FLEET_H_
#define STOCKADE_BENCH_FLEET_INVENTORY_FLEET_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/suite.h"
#include "peers/peer_process.h"
#include "servers/disk_server.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade::bench {

struct FleetShape {
  std::string name = {};
  size_t processes = 1;
  int32_t segments = 1;
  // The URLs of the Redis nodes that have segments of the SKU.
  std::vector<std::string> redis = {};
  // The number of request ids that are there from the start, with as many orders that have ended.
  int64_t forgotten = 0;
};

// The processes of a fleet, which has a database of its own and one SKU. They sell while Measure() runs.
class Fleet {
 public:
  enum class Kind { kTake, kReserveAndCommit };
  static constexpr char kRate[] = "rate";
  static constexpr char kMedian[] = "p50";
  static constexpr char kP99[] = "p99";
  static constexpr char kBatch[] = "batch";

  Fleet(const DiskServer& server, const FleetShape& shape);

  Figures Measure(Kind kind, absl::Duration span);

 private:
  void Run(const std::string& statements, std::span<const mysql_internal::MySqlSink> results = {});
  int64_t NumberOf(const std::string& query);
  void Fill(int64_t count);

  const std::string name_;
  std::unique_ptr<mysql_internal::MySqlConnection> sql_;
  std::vector<std::unique_ptr<PeerProcess>> processes_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_FLEET_INVENTORY_FLEET_H_

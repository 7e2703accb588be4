#ifndef STOCKADE_INVENTORY_FLEET_FLEET_SCHEMA_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_SCHEMA_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/inventory/ledger.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade::inventory_internal {

// The version of the tables that this code writes, and the only one that it uses. A row of `fleet` has the version of
// the tables and the oldest version of the code that may use them.
// Version 2 added what local refusals need (mode, epoch, lease_us, limbo, latched, and the keys by_sku) and what Redis
// segments need (nodes, redis_segments, fence, fills). Version 3 added how long a process wants orders to be kept, and
// its last sign of life (retention_us, seen_at of lanes). Version 4 added the version of an order, the changes of
// orders that are sold, and the version of a lane's code, by which processes of older code cannot register lanes.
inline constexpr int64_t kFleetSchemaVersion = 4;

// The least max_allowed_packet of a server. No packet has more bytes.
inline constexpr size_t kLeastPacketBytes = size_t{4} << 20;

// Numbers in the tables, which never change.
static_assert(static_cast<int>(OrderState::kHeld) == 0 && static_cast<int>(OrderState::kSold) == 1 &&
              static_cast<int>(OrderState::kCancelled) == 2 && static_cast<int>(OrderState::kExpired) == 3);
enum class OrderKind : uint8_t { kTake = 0, kReserve = 1, kBasket = 2, kRestock = 3 };
enum class ChangeKind : uint8_t { kReturn = 0, kWriteOff = 1 };

// `mode` of a SKU. tests/models/fleet_sold_out.pml is the model.
enum class FleetMode : uint8_t {
  kOpen = 0,      // Its segments may have units.
  kLatched = 1,   // Nothing is for sale: processes may refuse without the ledger for a lease.
  kDraining = 2,  // Units have come back since and are in limbo, until all leases have ended.
};

// `segment` of the stock that the Redis node 0 gives out. Rows below it are segments 0, 1, 2, ... of the ledger.
inline constexpr int32_t kFirstNodeSegment = 1'000'000;
inline constexpr int32_t kMaxNodeId = 1'000'000'000;

// The database's time in microseconds since 1970, as SQL.
inline constexpr std::string_view kFleetNow = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";

// `at` of an order that never expires.
inline constexpr int64_t kNever = INT64_MAX;

inline int64_t FleetMicros(absl::Duration span) {
  return span == absl::InfiniteDuration() ? kNever : absl::ToInt64Microseconds(span);
}

// The names of the tables of one fleet, quoted. docs/FLEET_INVENTORY.md describes the columns.
struct FleetTables {
  explicit FleetTables(std::string_view fleet_prefix) : prefix(fleet_prefix) {}
  std::string Named(std::string_view name) const { return Concat("`", prefix, "_", name, "`"); }

  std::string prefix;
  std::string fleet = Named("fleet");
  std::string lanes = Named("lanes");
  std::string skus = Named("skus");
  std::string stock = Named("stock");
  std::string requests = Named("requests");
  std::string orders = Named("orders");
  std::string order_lines = Named("order_lines");
  std::string changes = Named("changes");
  std::string buyers = Named("buyers");
  std::string forgotten = Named("forgotten");
  std::string nodes = Named("nodes");
};

// A keyed hash that stands for a request id or a buyer in the tables. A buyer without a name has only zeros. Compares
// as the tables do.
using FleetHash = std::array<uint8_t, 16>;

// Stands for nobody.
FleetHash RandomFleetHash();

// The keys of the hashes that stand for names in the tables. A fleet has its own, in its row, so that nobody who
// chooses names can aim at a hash.
struct FleetKeys {
  static constexpr size_t kBytes = 80;

  // Fits a signed number.
  uint64_t SkuId(std::string_view name) const;
  FleetHash RequestHash(std::string_view request_id) const;
  // The first 64 bits of RequestHash(), for the ids that a process remembers.
  uint64_t RequestPrint(std::string_view request_id) const;
  static uint64_t PrintOf(const FleetHash& request_hash);
  FleetHash BuyerHash(std::string_view name) const;

  friend bool operator==(const FleetKeys&, const FleetKeys&) = default;

  FingerprintKey sku;
  std::array<FingerprintKey, 2> request;
  std::array<FingerprintKey, 2> buyer;
  // Of the fingerprints in `forgotten`, which were imported. None: there are none.
  std::optional<FingerprintKey> imported;
};

// A row of `fleet`.
struct FleetRow {
  int64_t version = 0;
  int64_t oldest_code = 0;
  FleetKeys keys = {};
};
// FailedPrecondition: there is none, or it is damaged.
absl::StatusOr<FleetRow> ReadFleetRow(MySqlConnection& connection, std::string_view table, Instant deadline);

// As bytes of the column `imported_key`.
std::string FleetKeyBytes(const FingerprintKey& key);

// The statements that create the tables of a fleet, without its row.
std::string FleetSchema(std::string_view prefix);

// Creates the tables and the row of the fleet if they are missing, and adds what tables of an older version lack. Must
// not run in a transaction. Idempotent. Processes that call it at once wait for each other. Unavailable: until
// `deadline`.
absl::Status MigrateFleet(MySqlConnection& connection, std::string_view prefix, Instant deadline);

// Reads the keys of the fleet. FailedPrecondition: the tables are missing, are of a version that this code cannot use,
// or their constraints are missing or not enforced. PermissionDenied: the user lacks a right, which the text names.
absl::StatusOr<FleetKeys> CheckFleetSchema(MySqlConnection& connection, std::string_view prefix, Instant deadline);

// The number of a Redis node in `stock`, by its name. The first process that uses the node chooses it, and it never
// changes. Unavailable and others: the ledger cannot be used.
absl::StatusOr<int32_t> FindFleetNode(MySqlConnection& connection, const FleetTables& tables, std::string_view name,
                                      Instant deadline);

// For each connection: sets what the statements rely on, reads it back, and checks that the server keeps the promises
// that an inventory makes and that its fleet has these keys. FailedPrecondition: it does not, and the message names the
// setting. Unavailable: it is read-only. `keys`: null if they are not known yet.
absl::Status PrepareFleetConnection(MySqlConnection& connection, const FleetTables& tables, const FleetKeys* keys,
                                    absl::Duration reply_timeout);

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_SCHEMA_H_

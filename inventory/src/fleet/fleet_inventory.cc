#include "stockade/inventory/fleet_inventory.h"

#include <algorithm>
#include <utility>

#include "fleet_core.h"
#ifdef STOCKADE_FLEET_HAS_REDIS
#include "fleet_dispenser.h"
#endif
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_url.h"

namespace stockade {

using base_internal::Concat;
using inventory_internal::FleetCore;
using mysql_internal::MySqlConnection;
using mysql_internal::MySqlTarget;

namespace {

constexpr size_t kMaxPrefixBytes = 24;

bool IsPrefixByte(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_'; }

absl::Status Invalid(std::string_view field, std::string_view value, std::string_view rule) {
  return absl::InvalidArgumentError(Concat("FleetInventoryOptions: ", field, " is ", value, ", which is ", rule));
}

absl::Status InRange(std::string_view field, absl::Duration value, absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(field, absl::FormatDuration(value),
                 Concat("not within ", absl::FormatDuration(least), " to ", absl::FormatDuration(most)));
}

absl::Status InRange(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(field, Concat(value), Concat("not within ", least, " to ", most));
}

absl::StatusOr<MySqlTarget> TargetOf(const FleetInventoryOptions& options) {
  return mysql_internal::ParseMySqlUrl(options.ledger,
                                       {.tls = MySqlTls::kDefault, .connect_timeout = options.connect_timeout});
}

constexpr size_t kMaxNodes = 64;

absl::StatusOr<std::vector<std::string>> NodeNamesOf(const FleetInventoryOptions& options) {
  if (options.redis.empty()) return std::vector<std::string>();
#ifdef STOCKADE_FLEET_HAS_REDIS
  absl::StatusOr<std::vector<std::string>> names = inventory_internal::FleetNodeNames(options.redis);
  if (names.ok()) return names;
  return absl::InvalidArgumentError(Concat("FleetInventoryOptions: redis: ", names.status().message()));
#else
  return absl::InvalidArgumentError("FleetInventoryOptions: redis is set, but this build has no Redis client");
#endif
}

absl::StatusOr<std::unique_ptr<inventory_internal::FleetDispenser>> ConnectNodes(
    const FleetInventoryOptions& options, const inventory_internal::FleetLedger& ledger) {
  std::unique_ptr<inventory_internal::FleetDispenser> none;
  const absl::StatusOr<std::vector<std::string>> names = NodeNamesOf(options);
  if (!names.ok()) return names.status();
  if (names->empty()) return none;
  absl::StatusOr<std::unique_ptr<MySqlConnection>> connection = ledger.Open();
  if (!connection.ok()) return connection.status();
  std::vector<inventory_internal::FleetDispenser::Node> nodes;
  for (const std::string& name : *names) {
    const absl::StatusOr<int32_t> node =
        inventory_internal::FindFleetNode(**connection, ledger.tables, name, Clock::System()->Now() + options.patience);
    if (!node.ok()) return node.status();
    nodes.push_back({.segment = inventory_internal::kFirstNodeSegment + *node, .name = name});
  }
#ifdef STOCKADE_FLEET_HAS_REDIS
  return inventory_internal::ConnectFleetNodes(options, std::move(nodes));
#else
  return none;
#endif
}

}  // namespace

absl::StatusOr<inventory_internal::FleetLedger> inventory_internal::FleetLedger::Check(
    const FleetInventoryOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  FleetLedger ledger{.target = TargetOf(options).value(),
                     .tables = FleetTables(options.fleet),
                     .keys = {},
                     .packet_timeout = options.patience,
                     .retention = options.retention};
  absl::StatusOr<std::unique_ptr<MySqlConnection>> connection = MySqlConnection::Open(ledger.target, -1);
  if (!connection.ok()) return connection.status();
  if (absl::Status prepared = PrepareFleetConnection(**connection, ledger.tables, nullptr, options.patience);
      !prepared.ok()) {
    return prepared;
  }
  absl::StatusOr<FleetKeys> keys =
      CheckFleetSchema(**connection, options.fleet, Clock::System()->Now() + options.patience);
  if (!keys.ok()) return keys.status();
  ledger.keys = *keys;
  return ledger;
}

absl::StatusOr<std::unique_ptr<MySqlConnection>> inventory_internal::FleetLedger::Open(
    absl::Duration longest, const MySqlConnection::Meanwhile& meanwhile) const {
  MySqlTarget brief = target;
  brief.connect_timeout = std::min(brief.connect_timeout, longest);
  absl::StatusOr<std::unique_ptr<MySqlConnection>> connection = MySqlConnection::Open(brief, -1, meanwhile);
  if (!connection.ok()) return connection;
  absl::Status prepared = PrepareFleetConnection(**connection, tables, &keys, packet_timeout);
  if (!prepared.ok()) return prepared;
  return connection;
}

absl::Status FleetInventoryOptions::Validate() const {
  if (fleet.empty() || fleet.size() > kMaxPrefixBytes || !std::ranges::all_of(fleet, IsPrefixByte)) {
    return Invalid("fleet", Concat("'", base_internal::Printable(fleet, 100), "'"),
                   Concat("not 1 to ", kMaxPrefixBytes, " lower-case letters, digits and '_'"));
  }
  if (!name.empty()) {
    if (absl::Status valid = base_internal::CheckName("FleetInventoryOptions: name", name); !valid.ok()) return valid;
  }
  if (clock == nullptr) return absl::InvalidArgumentError("FleetInventoryOptions: clock is null");
  for (const absl::Status& status : {
           InRange("lanes", lanes, 1, 64),
           InRange("max_batch", max_batch, 1, 1024),
           refusal_lease == absl::ZeroDuration() ? absl::OkStatus()
                                                 : InRange("refusal_lease", refusal_lease, absl::Milliseconds(10),
                                                           inventory_internal::FleetSoldOut::kLongestLease),
           InRange("max_known_ids", max_known_ids, 0, 100'000'000),
           InRange("sku_metrics", sku_metrics, 0, INT32_MAX),
           InRange("max_waiting_calls", max_waiting_calls, 1, 10'000'000),
           InRange("the number of nodes in redis", static_cast<int64_t>(redis.size()), 0, kMaxNodes),
           InRange("redis_timeout", redis_timeout, absl::Milliseconds(1), absl::Minutes(1)),
           NodeNamesOf(*this).status(),
           InRange("patience", patience, absl::Milliseconds(100), absl::Minutes(10)),
           InRange("retention", retention, absl::Seconds(1), absl::InfiniteDuration()),
           InRange("max_hold", max_hold, absl::ZeroDuration(), inventory_internal::kForever),
           InRange("connect_timeout", connect_timeout, absl::Milliseconds(100), absl::Minutes(10)),
           TargetOf(*this).status(),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Inventory>> FleetInventory::Connect(FleetInventoryOptions options) {
  if (options.name.empty()) options.name = options.fleet;
  absl::StatusOr<inventory_internal::FleetLedger> ledger = inventory_internal::FleetLedger::Check(options);
  if (!ledger.ok()) return ledger.status();
  absl::StatusOr<std::unique_ptr<inventory_internal::FleetDispenser>> dispenser = ConnectNodes(options, *ledger);
  if (!dispenser.ok()) return dispenser.status();
  auto core = std::make_unique<FleetCore>(std::move(options), *std::move(ledger), *std::move(dispenser));
  if (absl::Status started = core->Start(); !started.ok()) return started;
  return std::unique_ptr<Inventory>(new Inventory(std::move(core)));
}

absl::Status FleetInventory::Migrate(const FleetInventoryOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  absl::StatusOr<std::unique_ptr<MySqlConnection>> connection = MySqlConnection::Open(TargetOf(options).value(), -1);
  if (!connection.ok()) return connection.status();
  return inventory_internal::MigrateFleet(**connection, options.fleet, Clock::System()->Now() + options.patience);
}

std::string FleetInventory::Schema(std::string_view fleet) { return inventory_internal::FleetSchema(fleet); }

}  // namespace stockade

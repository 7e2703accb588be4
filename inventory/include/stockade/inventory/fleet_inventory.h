#ifndef STOCKADE_INVENTORY_FLEET_INVENTORY_H_
#define STOCKADE_INVENTORY_FLEET_INVENTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/inventory/inventory.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// Options of an inventory that many processes share.
struct STOCKADE_EXPORT FleetInventoryOptions {
  // The primary of the database that has the ledger:
  //   mysql://[user[:password]@]host[:port]/database[?parameter=value&...]
  //   mysql://[user[:password]@][localhost]/database?socket=/path/to.sock[&parameter=value...]
  // mariadb:// is equivalent. The parameters are auth_plugin, socket, tls (off, required, verify), tls_ca, tls_cert,
  // tls_key; without `tls`, a host that is not loopback gets tls=verify. MariaDB 10.6 or MySQL 8.0.16 and newer, with a
  // synchronized binary log (log_bin=ON, sync_binlog=1, innodb_flush_log_at_trx_commit=1), so that no crash undoes what
  // was acknowledged. A Galera cluster, and a proxy that sends reads to replicas, are refused.
  std::string ledger = {};
  // The prefix of the fleet's tables: lower-case letters, digits and '_', 1 to 24. Processes with the same prefix in
  // the same database sell the same stock.
  std::string fleet = "stockade";
  // The inventory's name in messages and the value of the metrics label `inventory`. Empty: `fleet`.
  std::string name = {};
  // Writers of this process, 1 to 64: each has a thread and a connection, and makes one group commit after another.
  // With more than one, a group is collected while another one is written.
  int32_t lanes = 2;
  // The largest number of requests in a group commit, 1 to 1024.
  int32_t max_batch = 512;
  // How long a call waits while the ledger cannot be used, before it is Unavailable. A call that is in a packet waits
  // for its reply as long again, and if that is lost, some times as long to learn what became of it. 100 ms to 10 min.
  Duration patience = absl::Seconds(5);
  // How long a process may refuse requests for a SKU that is sold out without asking the ledger, after one read of it.
  // Units that come back to such a SKU are for sale after 1.1 times that. All processes should have the same; the one
  // that finds the SKU sold out decides. Zero: each refusal asks the ledger. 10 ms to 1 min.
  Duration refusal_lease = absl::Seconds(2);
  // The largest number of request ids of SKUs that are sold out that a process remembers, some 10 to 20 bytes each, 0
  // to 10^8. Requests for SKUs with more ids ask the ledger.
  int32_t max_known_ids = 4'000'000;
  // Redis nodes for SKUs with SkuOptions::redis_segments, at most 64: URLs of servers, of Sentinel sets, or of
  // clusters, in the forms of redis_url.h. Each URL is one node, which has one segment of each such SKU. All processes
  // should name the same nodes with the same URLs, except for passwords; a process without them sells the same units.
  // Nodes need not be reachable. Needs a build with hiredis.
  std::vector<std::string> redis = {};
  // How long a packet waits for a node, before it is paid without it. Nodes are left alone for a while after an error.
  // Of a Sentinel set or a cluster that could not be reached by Connect(), now and then one packet waits for as long as
  // it takes to find that out again, about a second per address. 1 ms to 1 min.
  Duration redis_timeout = absl::Milliseconds(100);
  // The largest number of calls that wait for a writer, 1 to 10^7. A call beyond it is Unavailable at once, and has
  // changed nothing.
  int32_t max_waiting_calls = 100'000;
  // As InventoryOptions::retention, at least 1 s. All orders of the fleet are kept for the longest one that any of its
  // live processes has. A process counts as live for its retention after its last sign; infinite: for ever.
  Duration retention = absl::Hours(24);
  // As InventoryOptions::max_hold. All processes should have the same.
  Duration max_hold = absl::Hours(1);
  // Of `patience`. Must outlive the inventory. Not null. Reservations expire by the database's clock.
  Clock* clock = Clock::System();
  // How many SKUs have their own series (stockade_inventory_sku_..., label `sku`): the first ones by their ids in the
  // tables, which are hashes of the names. One process at a time exports the metrics of the stock, the one that lets
  // reservations expire. Each SKU uses three series there for the lifetime of the registry. 0 or more.
  int32_t sku_metrics = 0;
  // Null disables metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();
  // Of a connection.
  Duration connect_timeout = absl::Seconds(5);

  // InvalidArgument if a field is invalid; the message names the field and the value, and never contains a password.
  absl::Status Validate() const;
};

// An Inventory whose stock and orders are in tables of MySQL or MariaDB, which any number of processes share. The calls
// are those of Inventory, and each answer is true for the whole fleet.
//
//   absl::StatusOr<std::unique_ptr<stockade::Inventory>> shop =
//       stockade::FleetInventory::Connect({.ledger = "mysql://shop:secret@db/shop", .fleet = "shop"});
//   if (!shop.ok()) return shop.status();
//   absl::Status there = (*shop)->EnsureSku("sneaker", {.stock = 2000, .per_buyer_limit = 2});
//
// Every change is one SQL transaction, and the requests of a process are collected into group commits. A stock has
// segments, rows of their own, so that the writers of several processes do not wait for each other's commits; one that
// runs out is merged with the others. No process owns units: one that ends, however it ends, leaves nothing to be
// reclaimed. Constraints of the tables keep units from being sold twice.
//
// A SKU with SkuOptions::redis_segments also has a segment per Redis node. A node decides which process may try to pay
// from its segment; the ledger pays, so no answer depends on what a node loses or gives out twice.
//
// The terms of the class Inventory (docs/FLEET_INVENTORY.md has a table of every call):
//   ledger           The tables in the database.
//   basis            The tables, as durable and as true as every other answer; or for a SKU that is sold out, a lease
//                    on one read of them (`refusal_lease`).
//   return delay     None, or 1.1 leases for a SKU that is sold out. Restock() and Return() answer then, or while the
//                    ledger is away up to `patience` later; Cancel() does not wait. The units of an expired
//                    reservation come back within a second, if at most 10,000 are due at once
//                    (docs/FLEET_INVENTORY.md, "Capacity", has the rate), or within 4 s after the process that watched
//                    over them has ended. Orders of more than 16 lines end in packets of their own: others wait for
//                    one at most.
//   unknown outcome  If the ledger could not be used for `patience`. Nothing has to be opened again: the same request
//                    id shows the outcome once the ledger is back.
//   clock            The database's, when the transaction runs, not when the call begins: a reservation may expire
//                    while its commit waits. Commit before the last seconds of a TTL.
//   reads            A round trip, or some for Find(), and what they return is durable. Snapshot() of all SKUs is
//                    empty if the ledger cannot be used.
//   fairness         None between processes. A request id that was refused as kRequestForgotten in one is so in all.
//   blocking         A place among `max_waiting_calls`: beyond it a call is Unavailable at once.
//   shards           Segments in the ledger, for all processes. Reshard() is durable.
//
// Request ids, buyers and order ids are unique in the fleet. Request ids and buyers are stored as keyed hashes.
class STOCKADE_EXPORT FleetInventory {
 public:
  // Blocks until a connection is established and the server and the tables are checked, at most for connect_timeout
  // plus twice patience.
  //   InvalidArgument     an option is invalid
  //   Unauthenticated     one side refuses the other's certificate
  //   PermissionDenied    the server refuses the user, or the user lacks a privilege
  //   FailedPrecondition  the server may lose what it acknowledges, the session's clock stands still, the tables are
  //                       missing or of another version, or the server has no TLS although the URL needs it: the
  //                       message names the setting or says what to do
  //   Unavailable         the server cannot be reached, or is read-only
  //   ResourceExhausted   a thread cannot be started
  // Without memory, this and the functions below throw std::bad_alloc.
  static absl::StatusOr<std::unique_ptr<Inventory>> Connect(FleetInventoryOptions options);

  // Creates the tables of the fleet, or brings them up to this version. Run it before the first process connects, and
  // when a new version of Stockade is rolled out, after all processes of the version before were stopped: one that
  // still runs is Unavailable from then on, with a text that names the constraint code_is_too_old. Needs the privileges
  // CREATE, ALTER, INDEX, SELECT, INSERT and UPDATE. Idempotent. Blocks for at most `patience` per step; Unavailable:
  // the server may still be adding an index, and it may be called again. Errors as for Connect().
  static absl::Status Migrate(const FleetInventoryOptions& options);

  // Takes over what a ledger of one process holds: SKUs, orders, returns, buyers and the ids of forgotten requests, so
  // that a shop goes on where it was. The ledger must have been opened for this, and is closed afterwards; use it for
  // nothing else, or units are sold twice. The fleet must be new: no process has connected to it yet. One transaction,
  // so all is taken over or nothing. O(orders).
  //   FailedPrecondition  the fleet is in use, or as for Connect()
  //   DataLoss            what the ledger holds is inconsistent
  //   otherwise as for Connect()
  static absl::Status Import(const FleetInventoryOptions& options, Ledger& ledger);

  // Forgets who a buyer is: the hash of the name is replaced by a random number in all orders, and what the buyer has
  // bought no longer counts against a limit. The orders stay, and can be ended by their ids; a repeat of their requests
  // is kRequestMismatch. Reads all orders; blocks other requests of the buyer meanwhile. OK if there is no such buyer.
  // Errors as for Connect(); Unavailable: perhaps done, and may be repeated.
  static absl::Status ForgetBuyer(const FleetInventoryOptions& options, std::string_view buyer);

  // The statements that create the tables, for administrators that run them themselves; Migrate() then adds the row of
  // the fleet. Processes need SELECT, INSERT, UPDATE and DELETE on the tables.
  static std::string Schema(std::string_view fleet = "stockade");
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_FLEET_INVENTORY_H_

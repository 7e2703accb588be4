#ifndef STOCKADE_INVENTORY_FLEET_FLEET_LANE_H_
#define STOCKADE_INVENTORY_FLEET_FLEET_LANE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fleet_calls.h"
#include "fleet_schema.h"
#include "fleet_sql.h"
#include "fleet_statements.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/inventory/order.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade::inventory_internal {

// The place of a fleet's ledger, and how to connect to it.
struct FleetLedger {
  // Connects once and checks the options, the server and the tables. The errors of FleetInventory::Connect().
  static absl::StatusOr<FleetLedger> Check(const FleetInventoryOptions& options);
  // A connection to the same fleet. Blocks for at most the two time-outs; connecting, for at most `longest`.
  // `meanwhile`: see MySqlConnection::Open().
  absl::StatusOr<std::unique_ptr<MySqlConnection>> Open(absl::Duration longest = absl::InfiniteDuration(),
                                                        const MySqlConnection::Meanwhile& meanwhile = nullptr) const;

  MySqlTarget target;
  FleetTables tables;
  FleetKeys keys;
  absl::Duration packet_timeout;  // For a packet and its reply.
  absl::Duration retention;       // Of this process.
};

// How a transaction ended.
struct FleetOutcome {
  enum class Kind {
    kDone,      // It was committed.
    kSurprise,  // It was rolled back, because the statement of `tag` failed with `error`, or (0) matched other rows.
    kAgain,     // It was rolled back by a deadlock or a time-out, or because the lane was closed. May be run again.
    kAway,      // The ledger cannot be used, as `status` says. It was not committed, and never will be.
    kUnknown,   // The ledger cannot be used, as `status` says. It may have been committed: see Resume().
  };
  static constexpr unsigned kPacketTooLarge = 1153;  // An `error`: max_allowed_packet, perhaps a proxy's.

  Kind kind;
  size_t tag = 0;
  unsigned error = 0;
  int64_t now = 0;  // kDone: the database's time in the transaction, in microseconds since 1970; 0 if it is not known.
  absl::Status status = absl::OkStatus();

  // The ledger cannot be used.
  bool is_away() const { return kind == Kind::kAway || kind == Kind::kUnknown; }
  // The packet or its reply was. With kAgain, the server was there again at once.
  bool is_lost() const { return is_away() || (kind == Kind::kAgain && error == 0); }
};

// A writer of the ledger: a connection, and a row of `lanes`. Every transaction names the lane, its nonce and its
// fence, and raises its batch. A raise of the fence stops all transactions of the lane that are still on their way,
// so that afterwards `batch` says which was the last that was committed. For one thread at a time.
//
// Invariant: while the outcome of a transaction is not known, no other one is sent. tests/models/fleet_orders.pml is
// the model.
class FleetLane {
 public:
  // `meanwhile` is called while the lane connects: see MySqlConnection::Open(). `note_health` gets the status of each
  // read, and what keeps the lane from being prepared.
  FleetLane(const FleetLedger& ledger, int32_t index, MySqlConnection::Meanwhile meanwhile,
            std::function<void(const absl::Status&)> note_health);

  // It pays from the segment with this number, and asks this node, modulo their number.
  int32_t index() const { return index_; }
  const FleetTables& tables() const { return ledger_.tables; }
  // Lines that a packet may have: fewer after a packet or its reply was lost, for which its size may be the reason.
  size_t most_lines() const { return most_lines_; }
  void NoteLost(size_t lines) { most_lines_ = std::max<size_t>(std::min(lines, most_lines_) / 2, 1); }
  void NotePassed() { most_lines_ = std::min(2 * most_lines_, kMaxLines); }

  // False: Connect() has to. A system call.
  bool connected() const;
  // Connects, learns the outcome of the transaction before, and has a row: what must be done before anything else.
  // Blocks for at most the time-outs of the ledger. OK at once if there is nothing to do. To be called while no caller
  // waits outside of the queues.
  absl::Status Connect() { return Prepare(absl::InfiniteDuration()); }
  // The same, for calls that a lane has taken from the queues, which could give them up: blocks for some times the
  // packet's time-out at most, and so do Run(), Resume() and Read().
  absl::Status Prepare() { return Prepare(ledger_.packet_timeout); }
  // Of the next `count` orders.
  OrderId NextOrders(size_t count);

  // Runs a transaction, and blocks until its outcome is known, if it can be.
  FleetOutcome Run(const FleetPacket& packet);
  // After kUnknown: tries again to learn it. kDone, kAgain or kUnknown; the last although the lane is settled() if
  // it never will be known.
  FleetOutcome Resume();
  // False while Resume() may still learn the outcome.
  bool settled() const { return !unsettled_; }
  // Runs statements outside of a transaction, one snapshot each: those that read, and those whose outcome need not be
  // known, because they may be repeated. `results`: see MySqlConnection::Run().
  MySqlReply Read(std::string_view statements, std::span<const MySqlSink> results = {});
  // Says in the tables that this process is alive, and how long it wants orders to be kept; transactions do so, too.
  MySqlReply SignOfLife();
  // The row is not used any more: Prepare() makes another.
  void Renew() { lane_id_ = 0; }
  // False: the ledger could not be used the last time.
  bool usable() const { return usable_; }
  // Tells this lane from all others, once it is prepared.
  uint64_t nonce() const { return nonce_; }

 private:
  // Connecting takes `longest` at most.
  absl::Status Prepare(absl::Duration longest);
  absl::Status Register();
  // Raises the fence, after which the transaction before either was committed or never will be.
  absl::Status Settle();
  // What a packet ends with: the lane's fence if its row was found, the tag of the first statement that missed, and the
  // time.
  using End = std::tuple<std::optional<int64_t>, std::optional<uint64_t>, int64_t>;
  FleetOutcome Interpret(const FleetScript& script, const MySqlReply& reply, const End& end);
  // After a packet that the server may have run.
  FleetOutcome ResumeLost(const absl::Status& why);
  std::string Row() const;
  Instant Deadline() const;

  const FleetLedger& ledger_;
  const int32_t index_;
  const MySqlConnection::Meanwhile meanwhile_;
  const std::function<void(const absl::Status&)> note_health_;
  size_t most_lines_ = kMaxLines;
  std::random_device random_;
  std::unique_ptr<MySqlConnection> connection_;
  uint32_t lane_id_ = 0;  // 0: it has no row.
  uint64_t nonce_ = 0;
  int64_t fence_ = 0;
  int64_t batch_ = 0;
  // Whether the outcome of the last transaction, which had the batch `batch_in_doubt_`, is not known. Otherwise, after
  // Settle(), `committed_` is the batch of the last one that was committed.
  bool unsettled_ = false;
  int64_t batch_in_doubt_ = 0;
  int64_t committed_ = 0;
  bool lost_ = false;  // Settle() found no row: nobody can tell.
  uint32_t sequence_ = 0;
  bool usable_ = false;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_FLEET_FLEET_LANE_H_

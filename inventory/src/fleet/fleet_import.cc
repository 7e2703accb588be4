// Takes the contents of a ledger of one process over into the tables of a fleet.

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "fleet_calls.h"
#include "fleet_lane.h"
#include "returned_units.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/mysql/internal/mysql_literal.h"

namespace stockade {
namespace {

using base_internal::Concat;
using inventory_internal::ChangeKind;
using inventory_internal::FleetHash;
using inventory_internal::FleetHashLiteral;
using inventory_internal::FleetKeys;
using inventory_internal::FleetLedger;
using inventory_internal::FleetMicros;
using inventory_internal::FleetSum;
using inventory_internal::OrderKind;
using inventory_internal::ReturnedUnits;
using mysql_internal::MySqlConnection;
using mysql_internal::MySqlInto;
using mysql_internal::MySqlReply;

// Transactions that ForgetBuyer() tries.
constexpr int kForgetAttempts = 8;

// Rows of one INSERT. Each takes less than 1,000 bytes: the longest name of a SKU, escaped, and numbers.
constexpr size_t kRows = 1'000;

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(Concat("the ledger that is imported is inconsistent: ", what));
}

// Inserts many rows, some at a time. The first error stays.
class Inserter {
 public:
  Inserter(MySqlConnection& connection, absl::Duration timeout, std::string into)
      : connection_(connection), timeout_(timeout), into_(std::move(into)) {}

  void Add(std::string_view row) {
    rows_ += Concat(count_++ == 0 ? "" : ",", "(", row, ")");
    if (count_ == kRows) (void)Flush();  // The last one returns the error.
  }
  absl::Status Flush() {
    if (count_ > 0 && status_.ok()) {
      status_ = connection_
                    .Run(Concat("INSERT INTO ", into_, " VALUES ", std::exchange(rows_, {})),
                         Clock::System()->Now() + timeout_)
                    .status;
    }
    count_ = 0;
    return status_;
  }

 private:
  MySqlConnection& connection_;
  const absl::Duration timeout_;
  const std::string into_;
  std::string rows_;
  size_t count_ = 0;
  absl::Status status_;
};

struct Totals {
  int64_t held = 0;
  int64_t sold = 0;
};

// What the rows of stock and of buyers add up to.
struct Sums {
  std::map<std::string, const LedgerState::Sku*, std::less<>> skus = {};
  std::map<std::string, Totals, std::less<>> totals = {};
  std::map<std::pair<std::string, FleetHash>, int64_t> buyers = {};

  // `returned`: those of the units that came back.
  absl::Status Add(std::string_view sku, int64_t units, int64_t returned, OrderState state, const FleetHash& buyer) {
    const auto found = skus.find(sku);
    if (found == skus.end()) return Damaged(Concat("there is no SKU '", sku, "', of which an order has units"));
    if (units < 1) return Damaged(Concat("an order has ", units, " units of '", sku, "'"));
    if (state != OrderState::kHeld && state != OrderState::kSold) return absl::OkStatus();
    units -= returned;
    Totals& of_sku = totals[found->first];
    int64_t& total = state == OrderState::kHeld ? of_sku.held : of_sku.sold;
    if (__builtin_add_overflow(total, units, &total)) return Damaged(Concat("'", sku, "' has too many units"));
    if (found->second->per_buyer_limit != 0 && !found->second->removed) buyers[{found->first, buyer}] += units;
    return absl::OkStatus();
  }
};

// Writes a ledger's contents into the empty tables of a fleet.
class Importer {
 public:
  // `now`: the database's time.
  Importer(MySqlConnection& connection, const FleetLedger& ledger, int64_t now)
      : connection_(connection), ledger_(ledger), now_(now) {}

  // Once. DataLoss: the contents are inconsistent.
  absl::Status Insert(const LedgerState& state) {
    for (const LedgerState::Sku& sku : state.skus) {
      if (!sums_.skus.emplace(sku.sku, &sku).second) return Damaged(Concat("SKU '", sku.sku, "' is there twice"));
      if (sku.sold_forgotten < 0) return Damaged(Concat("'", sku.sku, "' has sold_forgotten = ", sku.sold_forgotten));
      sums_.totals[sku.sku].sold = sku.sold_forgotten;
    }
    absl::StatusOr<ReturnedUnits> returned = ReturnedUnits::Of(state.orders, state.changes);
    if (!returned.ok()) return Damaged(Concat(returned.status().message()));
    returned_ = *std::move(returned);
    for (const LedgerState::Change& change : state.changes) changes_of_[change.order_id].push_back(&change);
    for (const LedgerState::Order& order : state.orders) {
      if (absl::Status added = AddOrder(order); !added.ok()) return added;
    }
    for (const LedgerState::Restock& restock : state.restocks) {
      const int64_t at = absl::ToUnixMicros(restock.at);
      AddRow(restock.order_id, restock.request_id, keys_.SkuId(restock.sku), restock.quantity, FleetHash{},
             OrderKind::kRestock, OrderState::kSold, at, inventory_internal::kNever, at);
    }
    if (absl::Status added = AddBuyers(state.bought); !added.ok()) return added;
    if (absl::Status added = AddSkus(); !added.ok()) return added;
    for (const uint64_t fingerprint : state.forgotten) forgotten_.Add(Concat(fingerprint));
    for (Inserter* const each : {&skus_, &stock_, &requests_, &orders_, &lines_, &changes_, &buyers_, &forgotten_}) {
      if (absl::Status inserted = each->Flush(); !inserted.ok()) return inserted;
    }
    return absl::OkStatus();
  }

 private:
  Inserter Into(const std::string& table) { return Inserter(connection_, ledger_.packet_timeout, table); }
  void AddRow(uint64_t id, const std::string& request_id, uint64_t sku, int64_t quantity, const FleetHash& buyer,
              OrderKind kind, OrderState state, int64_t created_at, int64_t ttl_us, int64_t at, int64_t version = 0) {
    const std::string request = FleetHashLiteral(keys_.RequestHash(request_id));
    requests_.Add(Concat(request, ",", id));
    orders_.Add(Concat(id, ",1,", request, ",", sku, ",", quantity, ",", FleetHashLiteral(buyer), ",",
                       static_cast<int>(kind), ",", static_cast<int>(state), ",", created_at, ",", ttl_us, ",", at, ",",
                       version));
  }
  absl::Status AddOrder(const LedgerState::Order& order) {
    const FleetHash buyer = keys_.BuyerHash(order.buyer);
    const bool basket = order.kind == LedgerRecord::Kind::kReserveBasket;
    if (basket ? order.lines.empty() : order.lines.size() != 1) {
      return Damaged(Concat("order ", order.order_id, " has ", order.lines.size(), " lines"));
    }
    for (const OrderLine& line : order.lines) {
      const int64_t returned = returned_.OfLine(order.order_id, line.sku);
      absl::Status added = sums_.Add(line.sku, line.quantity, returned, order.state, buyer);
      if (!added.ok()) return added;
      if (basket) lines_.Add(Concat(order.order_id, ",", keys_.SkuId(line.sku), ",", line.quantity));
    }
    const bool taken = order.kind == LedgerRecord::Kind::kTake;
    const OrderKind kind = basket ? OrderKind::kBasket : taken ? OrderKind::kTake : OrderKind::kReserve;
    const OrderLine& first = order.lines[0];
    const bool held = order.state == OrderState::kHeld;
    const int64_t ttl_us = FleetMicros(order.ttl);
    const int64_t ended_at = absl::ToUnixMicros(order.ended_at);
    const bool expires = ttl_us != inventory_internal::kNever && order.expires_at != absl::InfiniteFuture();
    const int64_t created_at = expires ? absl::ToUnixMicros(order.expires_at) - ttl_us : held ? now_ : ended_at;
    // By the wall clock, which may have been set meanwhile: but never longer than the buyer was promised.
    const int64_t extended = FleetMicros(order.extended);
    if (extended < 0) return Damaged(Concat("order ", order.order_id, " is extended by ", extended, " us"));
    const int64_t due_at =
        expires ? FleetSum(FleetSum(std::min(created_at, now_), ttl_us), extended) : inventory_internal::kNever;
    int64_t version = 0;
    int64_t last_at = held ? due_at : ended_at;
    for (const LedgerState::Change* const change : changes_of_[order.order_id]) {
      last_at = std::max(last_at, absl::ToUnixMicros(change->at));
      AddChange(*change, ++version);
    }
    AddRow(order.order_id, order.request_id, basket ? 0 : keys_.SkuId(first.sku), basket ? 0 : first.quantity, buyer,
           kind, order.state, created_at, ttl_us, last_at, version);
    return absl::OkStatus();
  }
  void AddChange(const LedgerState::Change& change, int64_t version) {
    const std::string request = FleetHashLiteral(keys_.RequestHash(change.request_id));
    const ChangeKind kind = change.kind == LedgerRecord::Kind::kWriteOff ? ChangeKind::kWriteOff : ChangeKind::kReturn;
    requests_.Add(Concat(request, ",", change.order_id));
    for (const auto& [sku, quantity, to_stock] : change.lines) {
      changes_.Add(Concat(change.order_id, ",", version, ",", keys_.SkuId(sku), ",", quantity, ",",
                          static_cast<int>(kind), ",", change.of_all ? 1 : 0, ",", to_stock ? 1 : 0, ",", request, ",",
                          absl::ToUnixMicros(change.at)));
    }
  }
  absl::Status AddBuyers(const std::vector<LedgerState::Bought>& all) {
    for (const LedgerState::Bought& bought : all) {
      const auto found = sums_.skus.find(bought.sku);
      if (found == sums_.skus.end() || bought.units < 1 || bought.units > found->second->sold_forgotten) {
        return Damaged(Concat("a buyer has bought ", bought.units, " units of '", bought.sku, "'"));
      }
      if (found->second->per_buyer_limit == 0 || found->second->removed) continue;
      sums_.buyers[{bought.sku, keys_.BuyerHash(bought.buyer)}] += bought.units;
    }
    for (const auto& [key, units] : sums_.buyers) {
      buyers_.Add(Concat(keys_.SkuId(key.first), ",", FleetHashLiteral(key.second), ",", units, ",",
                         sums_.skus.at(key.first)->per_buyer_limit));
    }
    return absl::OkStatus();
  }
  absl::Status AddSkus() {
    for (const auto& [name, sku] : sums_.skus) {
      const Totals& totals = sums_.totals[name];
      const int64_t units = sku->granted - totals.held - totals.sold;
      if (units < 0 || (sku->removed && units > 0)) {
        return Damaged(Concat("'", name, "' has ", units, " units for sale"));
      }
      skus_.Add(Concat(keys_.SkuId(name), ",", mysql_internal::MySqlLiteral(name), ",", sku->granted, ",",
                       sku->per_buyer_limit, ",1,", sku->removed ? 1 : 0, ",", sku->sold_forgotten));
      stock_.Add(Concat(keys_.SkuId(name), ",0,", units, ",", totals.held, ",", totals.sold));
    }
    return absl::OkStatus();
  }

  MySqlConnection& connection_;
  const FleetLedger& ledger_;
  const FleetKeys& keys_ = ledger_.keys;
  const int64_t now_;
  Sums sums_;
  ReturnedUnits returned_;
  std::map<uint64_t, std::vector<const LedgerState::Change*>> changes_of_;  // By order.
  Inserter requests_ = Into(ledger_.tables.requests);
  Inserter orders_ = Into(ledger_.tables.orders +
                          " (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at,version)");
  Inserter lines_ = Into(ledger_.tables.order_lines);
  Inserter changes_ =
      Into(ledger_.tables.changes + " (order_id,version,sku_id,quantity,kind,of_all,to_stock,request,at)");
  Inserter buyers_ = Into(ledger_.tables.buyers);
  Inserter skus_ = Into(ledger_.tables.skus + " (sku_id,sku,granted,per_buyer_limit,segments,removed,sold_forgotten)");
  Inserter stock_ = Into(ledger_.tables.stock + " (sku_id,segment,units,held,sold)");
  Inserter forgotten_ = Into(ledger_.tables.forgotten);
};

}  // namespace

absl::Status FleetInventory::Import(const FleetInventoryOptions& options, Ledger& ledger) {
  absl::StatusOr<FleetLedger> fleet = FleetLedger::Check(options);
  if (!fleet.ok()) return fleet.status();
  absl::StatusOr<std::unique_ptr<MySqlConnection>> connection = fleet->Open();
  if (!connection.ok()) return connection.status();
  if (absl::Status healthy = ledger.Health(); !healthy.ok()) return healthy;
  const LedgerState state = ledger.TakeRecovered();
  const auto run = [&](const std::string& statements, std::span<const mysql_internal::MySqlSink> results = {}) {
    return (*connection)->Run(statements, results, Clock::System()->Now() + fleet->packet_timeout);
  };
  // The fleet's row, which a lane reads to get a row of its own, stays locked.
  const std::string imported =
      state.fingerprint_key.has_value()
          ? mysql_internal::MySqlLiteral(inventory_internal::FleetKeyBytes(*state.fingerprint_key))
          : "NULL";
  std::tuple<int64_t, int64_t> used_and_now;
  const MySqlReply begun =
      run(Concat("START TRANSACTION;UPDATE ", fleet->tables.fleet, " SET imported_key=", imported,
                 " WHERE one=1;SELECT (SELECT COUNT(*) FROM ", fleet->tables.lanes, ")+(SELECT COUNT(*) FROM ",
                 fleet->tables.skus, "),", inventory_internal::kFleetNow),
          MySqlInto(used_and_now));
  if (!begun.status.ok()) return begun.status;
  absl::Status done;
  const auto& [used, now] = used_and_now;
  if (used != 0) {
    done = absl::FailedPreconditionError(
        Concat("the fleet '", options.fleet, "' is in use: only a new one can take over a ledger"));
  } else {
    done = Importer(**connection, *fleet, inventory_internal::FleetClamp(now)).Insert(state);
  }
  const absl::Status ended = run(done.ok() ? "COMMIT" : "ROLLBACK").status;
  return done.ok() ? ended : done;
}

absl::Status FleetInventory::ForgetBuyer(const FleetInventoryOptions& options, std::string_view buyer) {
  if (buyer.empty()) return absl::InvalidArgumentError("ForgetBuyer: the buyer is empty");
  absl::StatusOr<FleetLedger> fleet = FleetLedger::Check(options);
  if (!fleet.ok()) return fleet.status();
  absl::StatusOr<std::unique_ptr<MySqlConnection>> connection = fleet->Open();
  if (!connection.ok()) return connection.status();
  const std::string hash = FleetHashLiteral(fleet->keys.BuyerHash(buyer));
  const std::string nobody = FleetHashLiteral(inventory_internal::RandomFleetHash());
  const auto run = [&](const std::string& statements, std::span<const mysql_internal::MySqlSink> results = {}) {
    return (*connection)->Run(statements, results, Clock::System()->Now() + fleet->packet_timeout);
  };
  const std::string where = Concat(" WHERE buyer=", hash);
  const std::string renamed = Concat(" SET buyer=", nobody, where);
  // The rows of the buyer are locked first, so that orders that they count wait. Their units stay, under the new name,
  // as those of orders and of sold_forgotten do.
  for (int attempt = 0; attempt < kForgetAttempts; ++attempt) {
    int64_t left = 0;
    const MySqlReply reply =
        run(Concat("START TRANSACTION;UPDATE ", fleet->tables.buyers, renamed, ";UPDATE ", fleet->tables.orders,
                   renamed, ";SELECT COUNT(*) FROM ", fleet->tables.buyers, where),
            MySqlInto(left));
    if (reply.remedy == mysql_internal::MySqlRemedy::kRunAgain) continue;
    if (!reply.status.ok()) return reply.status;
    // The first order of another SKU may have come in between: renamed without its row, it could not be ended.
    if (left == 0) return run("COMMIT").status;
    if (absl::Status ended = run("ROLLBACK").status; !ended.ok()) return ended;
  }
  return absl::UnavailableError(
      Concat("ForgetBuyer: the buyer's orders changed meanwhile, ", kForgetAttempts, " times"));
}

}  // namespace stockade

#ifndef STOCKADE_INVENTORY_INVENTORY_H_
#define STOCKADE_INVENTORY_INVENTORY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/inventory/ledger.h"
#include "stockade/inventory/order.h"
#include "stockade/inventory/refusal.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

namespace inventory_internal {
class STOCKADE_EXPORT InventoryCore;
}
class FleetInventory;

// Options of an Inventory in one process.
struct STOCKADE_EXPORT InventoryOptions {
  // The inventory's name in messages and the value of the metrics label `inventory`. Must not be empty and must be
  // printable UTF-8 without control characters.
  std::string name = "default";
  // Every change is written to the ledger before it is acknowledged, and the inventory starts from the ledger's
  // contents. Null keeps everything in memory only, until the inventory is destroyed.
  std::unique_ptr<Ledger> ledger = nullptr;
  // Must outlive the inventory. Not null.
  Clock* clock = Clock::System();
  // Null disables metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();
  // The number of locks for request records, and of those for buyers: 1 to 4096. With 64 locks, two of eight busy
  // threads seldom contend. Each lock uses some 2 KiB.
  int32_t stripes = 64;
  // How long an order is kept after it was sold, cancelled or has expired. Until then a repeated request gets the first
  // answer, and the order's id is known. Afterwards a repeated request is refused (kRequestForgotten) and still takes
  // nothing: a fingerprint of the request id, some 20 bytes, is kept for good. Must be above 0. If infinite, orders are
  // kept for good, in some 300 bytes each. The default of one day is longer than clients usually retry.
  Duration retention = absl::Hours(24);
  // The largest number of shards that Reshard() may give a SKU, at 128 bytes each: 0 to kMaxShards. If a SKU begins
  // with more shards, that number is its maximum.
  int32_t max_shards = 0;
  // How many SKUs have their own series (stockade_inventory_sku_..., label `sku`): the first ones that are added. Each
  // SKU uses three series for the lifetime of the registry. 0 or more.
  int32_t sku_metrics = 0;

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// Options of a SKU.
struct STOCKADE_EXPORT SkuOptions {
  // The initial number of units: 0 to kMaxUnits.
  int64_t stock = 0;
  // In one process: see ShardedStockOptions::shards.
  int32_t shards = 0;
  // The largest number of units that one buyer may hold and have bought in total. Cancelled orders do not count, nor do
  // expired ones after their units are available again. 0 means no limit.
  int64_t per_buyer_limit = 0;
  // The stock has a segment per Redis node, besides those in the ledger. Only for a FleetInventory that has
  // FleetInventoryOptions::redis; InvalidArgument otherwise. Decided when the SKU is added.
  bool redis_segments = false;

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// The units of one SKU at one moment: granted == available + held + sold.
struct StockFigures {
  int64_t granted = 0;    // Ever stocked, less what was withdrawn when the SKU was removed.
  int64_t available = 0;  // Can be taken.
  int64_t held = 0;       // In active reservations, and in expired ones that have not been reaped yet.
  int64_t sold = 0;       // In orders that were committed or taken at once.
};

// A view of a SKU for display. It is read without blocking other threads, so the figures may be of different moments
// and differ by the changes in progress. They are consistent while nothing changes.
struct SkuSnapshot {
  std::string sku = {};                   // Its name.
  int64_t granted = 0;                    // This and the next three: see StockFigures.
  int64_t available = 0;                  // Can be taken.
  int64_t held = 0;                       // In reservations.
  int64_t sold = 0;                       // In orders.
  int64_t per_buyer_limit = 0;            // 0 means no limit.
  bool sold_out = false;                  // No unit is available.
  int32_t shards = 0;                     // The shards in use.
  std::vector<int64_t> shard_units = {};  // See StockSnapshot.
};

// A catalogue of items for sale, the requests that took units of them, and the ledger that stores both.
//
// Create() and the constructor make an inventory in one process. FleetInventory::Connect() makes one that many
// processes share. The comments of this class hold for both, except for sentences that begin with "In one process": for
// those, fleet_inventory.h says what a fleet does instead.
//
//   stockade::Inventory shop({.name = "shop"});
//   absl::Status added = shop.AddSku("air-force-one", {.stock = 2000, .shards = 8, .per_buyer_limit = 1});
//   if (!added.ok()) return added;
//   absl::StatusOr<stockade::Reservation> held =
//       shop.Reserve({.sku = "air-force-one", .request_id = id, .buyer = user, .ttl = absl::Minutes(10)});
//   if (!held.ok()) return held.status();
//   return shop.Commit(held->id());  // or Cancel; or it expires and the unit is for sale again
//
// Stock is never oversold, and a request is never refused as sold out while there are enough units: see ShardedStock.
//
// A request id takes units at most once. A repeated request gets the first answer, whether it is sent at the same time,
// after a time-out, after its reservation was committed, cancelled or expired, or after a restart; state() in that
// answer is the current state of the order. A request id with another sku, quantity, buyer or ttl, or in another of the
// calls Take, Reserve and ReserveBasket, is AlreadyExists. A refused request took nothing and is not remembered, so its
// id may be tried again. After an order is forgotten, its request id is refused for good: see
// InventoryOptions::retention.
//
// With a ledger, OK means durable. Every call that changes something blocks until the change is durable, and holds no
// lock meanwhile. A call whose answer depends on the state of an order, a request id or a SKU, for example that a
// reservation is over, also blocks until that state is durable. In one process the refusals kSoldOut, kAllHeld,
// kBuyerLimit and kUnknownSku do not wait: they describe the memory at a moment of the call, and a crash may undo the
// changes that they rest on.
//
// If a call is Unavailable, either nothing has changed, or its outcome is unknown. The message says which. In both
// cases the same request id may be sent again. In one process nothing has changed if the ledger has no room: the units
// are where they were, the same request id takes units as soon as there is room, and nothing needs to be reopened. In
// one process the outcome is unknown if the ledger fails: such calls and all later calls that would change something
// are Unavailable, and the units that they took stay taken. To resolve this, open the ledger again in a new inventory
// and repeat the request ids, which shows the outcome of each.
//
// If an allocation fails on the thread of a call (std::bad_alloc), nothing is thrown, and the call is kUnavailable.
// Nothing has changed then, unless the message says "not known to be durable": the change was appended to the ledger,
// and there was no memory to wait for it or to say what came of it. ...Many() and Snapshot() of all SKUs return an
// empty vector if there is no memory for their answers, and ...Many() has asked for nothing then. ...Async() invokes
// `done` on the calling thread, during the call, if there is no memory to pass the answer to `executor`. An `executor`
// without memory must throw std::bad_alloc, as ThreadPool does, and not run the task. On the library's own threads,
// which expire orders and write the ledger, a failed allocation ends the process.
//
// RefusalOf() classifies the errors. InvalidArgument means that the request is invalid and nothing has happened: the
// request_id is empty, a quantity is below 1, a basket has no lines, a ttl is below a microsecond, the buyer is missing
// although the SKU has a per_buyer_limit, or a name or a basket exceeds kMaxSkuBytes, kMaxBuyerBytes,
// kMaxRequestIdBytes or kMaxBasketLines. These limits apply to every call. In one process longer names that a ledger
// recovered are kept: their orders are ended by their ids, and SKU names are accepted up to the longest recovered one.
//
// Calls on orders have three forms. The first one blocks. ...Async() does not wait until the answer is durable and
// invokes `done`, which must not be empty (aborts), once on `executor`, which must outlive the inventory;
// stockade/inventory/coroutine.h has the same for co_await. ...Many()
// waits once for all its requests: each request is independent, and each answer is at its request's index. In one
// process they are processed in the given order. If `done` runs during the destructor, the inventory is Unavailable for
// it.
//
// Thread-safe. Not usable in a forked child. In one process calls block, apart from the ledger, only on short locks:
// those of the request's and the buyer's stripe, and the item's slow lock. In one process every call that changes
// something blocks if the ledger's queue is full (SqliteLedgerOptions::max_queued_records), and so do calls that need
// the same locks.
class STOCKADE_EXPORT Inventory {
 public:
  // An inventory in one process. Recovers the contents of the ledger: its SKUs are for sale again, its request ids are
  // known, and its reservations continue for the time that the wall clock leaves them, but at most for their TTL.
  // O(orders).
  //   InvalidArgument: an option is invalid; the message is that of Validate().
  //   DataLoss: the recovered data is inconsistent.
  //   Unavailable: the ledger has already failed. Without memory the process may end, here and in
  //     SqliteLedger::Open(); the calls below return a status.
  static absl::StatusOr<std::unique_ptr<Inventory>> Create(InventoryOptions options = {});

  // Like Create(), but aborts on an error.
  explicit Inventory(InventoryOptions options = {});

  // No call may be in progress, except that ...Async() may wait for its answer. Closes the ledger, which passes pending
  // answers to their executors: Unavailable if what they wait for did not become durable. Reservations remain in the
  // ledger.
  ~Inventory();

  Inventory(const Inventory&) = delete;
  Inventory& operator=(const Inventory&) = delete;

  // Adds a SKU. Other threads may take units of it before this has returned.
  //   AlreadyExists: a SKU of this name exists, perhaps recovered from the ledger, and its stock has not changed; or a
  //     SKU of this name was removed. Names are never reused, because orders refer to them.
  //   InvalidArgument: an option is invalid, or the name is empty, longer than kMaxSkuBytes or not printable UTF-8.
  //   Unavailable: as for Restock(). If only the memory for the SKU's own series (InventoryOptions::sku_metrics) is
  //     missing, it is OK, and the SKU has none.
  absl::Status AddSku(std::string_view sku, const SkuOptions& options);

  // Adds a SKU, or returns OK if a SKU of this name is for sale with the same per_buyer_limit, whose other options
  // it leaves as they are. So each process may call it when it starts.
  //   AlreadyExists: a SKU of this name was removed.
  //   FailedPrecondition: the SKU has another per_buyer_limit. The message names both.
  //   InvalidArgument, Unavailable: as for AddSku().
  absl::Status EnsureSku(std::string_view sku, const SkuOptions& options);

  // Permanently removes a SKU from sale: its available units are withdrawn, and further requests for it are
  // kUnknownSku. Its reservations continue; units that they return are withdrawn, too. In one process it acquires
  // all request stripes, for O(stripes).
  //   NotFound: no such SKU.
  //   Unavailable: as for Restock().
  absl::Status RemoveSku(std::string_view sku);

  // Adds units to a SKU, once per request id: a repeat returns OK and adds nothing. Restocks and orders share their
  // request ids, compare them in the same way, and a restock is kept for `retention`.
  //   NotFound: no such SKU.
  //   InvalidArgument: the quantity is below 1, or the request id is empty or too long.
  //   OutOfRange: the SKU's granted units would exceed kMaxUnits.
  //   AlreadyExists: kRequestMismatch, kRequestForgotten.
  //   Unavailable: there was no room or no memory and nothing has changed, or the ledger has failed.
  absl::Status Restock(const RestockRequest& request);
  // The same without a request id, so that a repeat adds the units again. If the result is Unavailable and the outcome
  // is unknown, only Figures().granted shows whether the units were added. In one process that is the figure of the
  // reopened ledger.
  absl::Status Restock(std::string_view sku, int64_t units);

  // Changes the number of shards of a SKU while it is sold. In one process see ShardedStock::Reshard(); the number is
  // not written to the ledger, so after recovery the SKU has the number that AddSku() gave it.
  //   NotFound: no such SKU.
  //   InvalidArgument: the number is not within 1 and the SKU's maximum.
  //   Unavailable: there is no memory; for a fleet also as for Restock().
  absl::Status Reshard(std::string_view sku, int32_t shards);

  // Sets units aside for `ttl`.
  //   ResourceExhausted, Aborted, NotFound, FailedPrecondition, AlreadyExists, InvalidArgument, Unavailable: see
  //     Refusal.
  absl::StatusOr<Reservation> Reserve(const ReserveRequest& request);
  void ReserveAsync(const ReserveRequest& request, Executor& executor,
                    absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done);
  std::vector<absl::StatusOr<Reservation>> ReserveMany(std::span<const ReserveRequest> requests);

  // Sets the units of several SKUs aside under one order id, either all or none. The order is committed, cancelled and
  // expires as a whole. Sold out only if at one moment of the call one of the SKUs had fewer units than wanted. Errors
  // as for Reserve(), for one of the SKUs: the buyer's limits are checked first, then unknown SKUs, then the units.
  // In one process it stops the shards of its SKUs for a moment.
  absl::StatusOr<BasketReservation> ReserveBasket(const BasketRequest& request);
  void ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done);

  // Sells units at once. Errors as for Reserve().
  absl::StatusOr<Order> Take(const TakeRequest& request);
  void TakeAsync(const TakeRequest& request, Executor& executor, absl::AnyInvocable<void(absl::StatusOr<Order>)> done);
  std::vector<absl::StatusOr<Order>> TakeMany(std::span<const TakeRequest> requests);

  // Sells the units of a reservation if its TTL has not passed when this is called; of a commit and an expiry at the
  // same moment, exactly one takes effect. OK if the reservation is already sold.
  //   FailedPrecondition: the reservation was cancelled or has expired, which is durable. RefusalOf() and the message
  //                       say which.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable: as for Restock().
  absl::Status Commit(OrderId id);
  void CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done);
  std::vector<absl::Status> CommitMany(std::span<const OrderId> ids);

  // Returns the units of a reservation. OK if it was cancelled before or its TTL has passed. OK means that its units
  // are available again and that it can never be committed; both are durable.
  //   FailedPrecondition: the reservation is sold: Refusal::kCommitted.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable: as for Restock().
  absl::Status Cancel(OrderId id);
  void CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done);
  std::vector<absl::Status> CancelMany(std::span<const OrderId> ids);

  // The state of an order. A reservation whose TTL has passed is kExpired, whether it was reaped or not. The answers
  // of Commit() and Cancel() are durable. In one process this one does not wait for the ledger, so a crash or a ledger
  // without room may undo the state.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable, as for all calls below: there is no memory, or in a fleet the ledger does not answer.
  absl::StatusOr<OrderState> StateOf(OrderId id) const;

  // The exact number of units that can be taken, at one moment of the call. In one process see
  // ShardedStock::Available(). NotFound: no such SKU.
  absl::StatusOr<int64_t> Available(std::string_view sku) const;

  // The exact figures of a SKU at one moment, for audits, also of a removed SKU. Not meant for hot paths. In one
  // process it acquires all request stripes, and works from memory, also after the ledger has failed. NotFound: there
  // never was such a SKU.
  absl::StatusOr<StockFigures> Figures(std::string_view sku) const;

  // A view for display. Does not block other threads. In one process O(shards). NotFound: no such SKU.
  absl::StatusOr<SkuSnapshot> Snapshot(std::string_view sku) const;
  // All SKUs for sale, ascending by name. Empty if they cannot be read.
  std::vector<SkuSnapshot> Snapshot() const;

  // OK, or Unavailable with the reason after the ledger has failed, or if there is no memory. It is about taking
  // orders: in a fleet it stays OK if Redis nodes are away, or if reservations expire late, which the metrics show.
  absl::Status Health() const;

 private:
  friend class FleetInventory;
  explicit Inventory(std::unique_ptr<inventory_internal::InventoryCore> core);

  std::unique_ptr<inventory_internal::InventoryCore> core_;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_INVENTORY_H_

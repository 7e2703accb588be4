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
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/inventory/ledger.h"
#include "stockade/inventory/order.h"
#include "stockade/inventory/refusal.h"
#include "stockade/inventory/sharded_stock.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// What an Inventory is made from.
struct STOCKADE_EXPORT InventoryOptions {
  // Names the inventory in messages, and is the value of the label `inventory` in metrics. Not empty,
  // and printable UTF-8: no control characters.
  std::string name = "default";
  // Where every change is written before it is acknowledged, and what the inventory starts from. Null: memory only,
  // everything is forgotten with the inventory.
  std::unique_ptr<Ledger> ledger = nullptr;
  // Must outlive the inventory. Not null.
  Clock* clock = Clock::System();
  // Null: no metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();
  // Locks that request records are spread over, and as many for buyers: 1 to 4096. With 64, two of eight busy threads
  // meet seldom; each costs some 2 KiB.
  int32_t stripes = 64;
  // How long an order is remembered after it was sold, cancelled or has expired: so long a repeat of its request gets
  // the first answer, and its id means something. After it a repeat is refused (kRequestForgotten), and still takes
  // nothing: a fingerprint of the request id, some 20 bytes, is kept for good. Above 0; infinite: for ever, in some 300
  // bytes an order. A day: longer than anybody retries.
  absl::Duration retention = absl::Hours(24);
  // The most shards that Reshard() may give a SKU, 128 bytes each: 0 to kMaxShards. Fewer than a SKU begins with: as
  // many as that.
  int32_t max_shards = 0;
  // How many SKUs have series of their own (stockade_inventory_sku_..., label `sku`): those that are added first. Each
  // costs three series for as long as the registry lives. 0 or more.
  int32_t sku_metrics = 0;

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// What an item begins with.
struct STOCKADE_EXPORT SkuOptions {
  // Units to begin with: 0 to kMaxUnits.
  int64_t stock = 0;
  // As ShardedStockOptions::shards.
  int32_t shards = 0;
  // Units that one buyer may hold and have bought, together; what was cancelled does not count, nor what expired, once
  // it is for sale again. 0: no limit.
  int64_t per_buyer_limit = 0;

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

// One SKU's units at one moment: granted == available + held + sold.
struct StockFigures {
  int64_t granted = 0;    // Ever stocked, less what was withdrawn when the SKU was removed.
  int64_t available = 0;  // Can be taken.
  int64_t held = 0;       // By reservations that run, or that ran out and have not been reaped yet.
  int64_t sold = 0;       // By orders that were committed or taken at once.
};

// What people and pages see of a SKU: read without stopping anybody, so that the figures need not be of one moment and
// can be off by what is under way. They agree while nobody changes them.
struct SkuSnapshot {
  std::string sku = {};                   // Its name.
  int64_t granted = 0;                    // This and the next three as StockFigures.
  int64_t available = 0;                  // Can be taken.
  int64_t held = 0;                       // By reservations.
  int64_t sold = 0;                       // By orders.
  int64_t per_buyer_limit = 0;            // 0: none.
  bool sold_out = false;                  // Nothing is available.
  int32_t shards = 0;                     // In use.
  std::vector<int64_t> shard_units = {};  // See StockSnapshot.
};

// A catalogue of items for sale, the requests that took from them, and the ledger that both survive in.
//
//   stockade::Inventory shop({.name = "shop"});
//   absl::Status added = shop.AddSku("air-force-one", {.stock = 2000, .shards = 8, .per_buyer_limit = 1});
//   if (!added.ok()) return added;
//   absl::StatusOr<stockade::Reservation> held =
//       shop.Reserve({.sku = "air-force-one", .request_id = id, .buyer = user, .ttl = absl::Minutes(10)});
//   if (!held.ok()) return held.status();
//   return shop.Commit(held->id());  // or Cancel; or it expires and the unit is for sale again
//
// Never oversold, never falsely sold out: see ShardedStock.
//
// A request id takes once. Sent again, at the same time, after a time-out, after its reservation was committed,
// cancelled or expired, or after a restart, it gets the first answer, which says in state() what has become of the
// order since; with another sku, quantity, buyer, ttl, or as another of Take, Reserve and ReserveBasket, it is
// AlreadyExists. A refusal took nothing and is not remembered: the same id may be tried again. An id that took is
// refused for ever once its order is forgotten: see InventoryOptions::retention.
//
// With a ledger, OK means durable, and every call that changes something blocks until it is, with no lock held. So does
// a call whose answer says what became of an order, a request id or a SKU: that a reservation is over, for one. The
// refusals kSoldOut, kAllHeld, kBuyerLimit and kUnknownSku wait for nothing: they say what memory held at a moment of
// the call, and what they rest on may be undone by a crash. Where
// the ledger has no room, such a call is Unavailable and nothing has changed: the units are where they were, the same
// request id takes once there is room, and nothing needs to be opened anew. When the ledger fails, calls whose outcome
// is unknown and all later ones that would change something are Unavailable; what they took stays out. Open the ledger
// again, in a new inventory, and repeat the request ids to learn what became of them. The text says which of the two.
//
// Answers: RefusalOf() names them. InvalidArgument, and nothing else happened: an empty request_id, a quantity below
// 1, a basket without lines, a ttl below a microsecond, no buyer where the SKU has a per_buyer_limit; or a name or a
// basket above kMaxSkuBytes, kMaxBuyerBytes, kMaxRequestIdBytes or kMaxBasketLines, in any call that is given one.
// Longer ones that a ledger recovered stay as they are: their orders end by their ids, and SKU names are accepted up to
// the longest one recovered.
//
// Calls on orders come in three forms: one that blocks; ...Async(), which does not wait until the answer is durable and
// has `done`, which is not empty, run once on `executor`, which must outlive the inventory; and ...Many(), which waits
// once for all: every request is its own, in the order given, and its answer is at its place. A `done` that the
// destructor still has run finds the inventory Unavailable.
//
// Thread-safe. Apart from the ledger, calls block on short locks only: the request's and the buyer's stripe, and the
// item's slow lock. A ledger whose queue is full (SqliteLedgerOptions::max_queued_records) holds up every call that
// changes something, and those that meet its locks. Unusable in a forked child.
class STOCKADE_EXPORT Inventory {
 public:
  // Recovers what the ledger holds: its SKUs are for sale again, request ids are known again, reservations run on for
  // what the wall clock leaves them, but for no longer than their TTL. O(orders).
  //   InvalidArgument: Validate()'s text.
  //   DataLoss: what the ledger recovered does not add up.
  //   Unavailable: the ledger has failed already.
  static absl::StatusOr<std::unique_ptr<Inventory>> Create(InventoryOptions options = {});

  // As Create(), but aborts where that fails.
  explicit Inventory(InventoryOptions options = {});

  // Nobody may be inside a call. Closes the ledger, which hands the answers still due to their executors; reservations
  // run on in it.
  ~Inventory();

  Inventory(const Inventory&) = delete;
  Inventory& operator=(const Inventory&) = delete;

  // Puts a new SKU up for sale. Others may take from it before this has returned.
  //   AlreadyExists: there is one of this name, perhaps recovered from the ledger, whose stock did not change; or there
  //   was one, and names are not used again, because orders go by them.
  //   InvalidArgument: Validate()'s text, or a name that is empty, longer than kMaxSkuBytes or not printable UTF-8.
  absl::Status AddSku(std::string_view sku, const SkuOptions& options);

  // Takes a SKU off sale for good: what is available is withdrawn, requests for it are kUnknownSku from now on.
  // Reservations of it run on; what they give back is withdrawn, too. Takes all request stripes, for O(stripes).
  //   NotFound: no such SKU.
  absl::Status RemoveSku(std::string_view sku);

  // Adds units to a SKU, once for each request id: sent again, it is OK and adds nothing. Request ids are those of
  // orders, too, are compared as theirs, and are remembered for `retention` after the restock.
  //   NotFound: no such SKU.  InvalidArgument: below 1, or a request id that is empty or too long.
  //   OutOfRange: more than kMaxUnits would have been granted.
  //   AlreadyExists: kRequestMismatch, kRequestForgotten.
  //   Unavailable: there was no room, and nothing has changed; or the ledger has failed.
  absl::Status Restock(const RestockRequest& request);
  // The same without a request id: nothing keeps a repeat from adding the units again. If it is Unavailable because the
  // ledger has failed, only Figures().granted of the reopened ledger shows whether it counted.
  absl::Status Restock(std::string_view sku, int64_t units);

  // Spreads a SKU's units over another number of shards while it is sold from: see ShardedStock::Reshard(). Not written
  // to the ledger: recovered, it has again as many as AddSku() gave it.
  //   NotFound: no such SKU.  InvalidArgument: not within 1 to the most it may have.
  absl::Status Reshard(std::string_view sku, int32_t shards);

  // Sets units aside for `ttl`.
  //   ResourceExhausted, Aborted, NotFound, FailedPrecondition, AlreadyExists, InvalidArgument, Unavailable: Refusal.
  absl::StatusOr<Reservation> Reserve(const ReserveRequest& request);
  void ReserveAsync(const ReserveRequest& request, Executor& executor,
                    absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done);
  std::vector<absl::StatusOr<Reservation>> ReserveMany(std::span<const ReserveRequest> requests);

  // Sets the units of several SKUs aside, all or none, under one order id: it is committed, cancelled and expires as a
  // whole. Sold out only if at one moment of the call one of the SKUs had fewer units than wanted. Errors as Reserve(),
  // of one SKU that stands against it: limits of the buyer are looked at first, then unknown SKUs, then the units.
  // Stops the shards of its SKUs for a moment.
  absl::StatusOr<BasketReservation> ReserveBasket(const BasketRequest& request);
  void ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done);

  // Sells units at once. Errors as Reserve().
  absl::StatusOr<Order> Take(const TakeRequest& request);
  void TakeAsync(const TakeRequest& request, Executor& executor, absl::AnyInvocable<void(absl::StatusOr<Order>)> done);
  std::vector<absl::StatusOr<Order>> TakeMany(std::span<const TakeRequest> requests);

  // Sells what a reservation holds, if its TTL has not passed at this call: at the same moment as expiry, exactly one
  // of both wins. OK, too, where it is sold already.
  //   FailedPrecondition: it was cancelled or has expired, for good: that is durable. The message says which.
  //   NotFound: no such order, or none that is remembered.
  absl::Status Commit(OrderId id);
  void CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done);
  std::vector<absl::Status> CommitMany(std::span<const OrderId> ids);

  // Gives back what a reservation holds. OK, too, if it has been cancelled before or its TTL has passed. OK means that
  // its units are for sale again and that it can never be committed: both are durable.
  //   FailedPrecondition: it is sold.
  //   NotFound: no such order, or none that is remembered.
  absl::Status Cancel(OrderId id);
  void CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done);
  std::vector<absl::Status> CancelMany(std::span<const OrderId> ids);

  // What has become of an order. One whose TTL has passed is kExpired, reaped or not. It does not wait for the ledger,
  // so a crash, or a ledger without room, may undo what it says: Commit() and Cancel() give answers that hold.
  // NotFound: no such order, or none that is remembered.
  absl::StatusOr<OrderState> StateOf(OrderId id) const;

  // Units that can be taken: exact, as ShardedStock::Available(). NotFound: no such SKU.
  absl::StatusOr<int64_t> Available(std::string_view sku) const;

  // A SKU's figures, exact and of one moment, for audits: takes all request stripes, so it is no call for a hot path.
  // Answers even when the ledger has failed, from memory, and of a removed SKU. NotFound: no such SKU, ever.
  absl::StatusOr<StockFigures> Figures(std::string_view sku) const;

  // For pages: stops nobody, O(shards). NotFound: no such SKU.
  absl::StatusOr<SkuSnapshot> Snapshot(std::string_view sku) const;
  // Of every SKU for sale, ascending by name.
  std::vector<SkuSnapshot> Snapshot() const;

  // OK; Unavailable from when the ledger has failed, with its reason.
  absl::Status Health() const;

 private:
  class Core;
  explicit Inventory(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_INVENTORY_H_

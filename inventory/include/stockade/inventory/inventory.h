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
#include "stockade/base/duration.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/inventory/local_inventory.h"
#include "stockade/inventory/order.h"
#include "stockade/inventory/refusal.h"
#include "stockade/inventory/sharded_stock.h"

namespace stockade {

namespace inventory_internal {
class STOCKADE_EXPORT InventoryCore;
}
class FleetInventory;

// Options of a SKU.
struct STOCKADE_EXPORT SkuOptions {
  // The initial number of units: 0 to kMaxUnits.
  int64_t stock = 0;
  // See the term "shards" of the class Inventory. 0: the inventory chooses.
  int32_t shards = 0;
  // The largest number of units that one buyer may hold and have bought in total. Cancelled orders do not count, nor do
  // expired ones after their units are available again, nor units that came back. 0 means no limit.
  int64_t per_buyer_limit = 0;
  // The stock has a segment per Redis node, besides those in the ledger. InvalidArgument without such nodes, which
  // only FleetInventoryOptions::redis gives. Decided when the SKU is added.
  bool redis_segments = false;

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

// The units of one SKU at one moment: granted == available + held + sold.
struct StockFigures {
  int64_t granted = 0;    // Ever stocked, less what was written off, and withdrawn when the SKU was removed.
  int64_t available = 0;  // Can be taken.
  int64_t held = 0;       // In active reservations, and in expired ones that have not been reaped yet.
  int64_t sold = 0;       // In orders that were committed or taken at once, less what came back.
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
// This is one contract for all implementations. It uses these terms for what differs between them; the header of each
// implementation, local_inventory.h and fleet_inventory.h, says what they are there:
//   ledger           what makes changes durable
//   basis            what the refusals kSoldOut, kAllHeld, kBuyerLimit and kUnknownSku rest on
//   return delay     from when units come back until they are for sale
//   unknown outcome  when a change may be durable although its call is Unavailable, and how to find that out
//   clock            by what clock reservations expire, and when that is decided
//   reads            what Find(), StateOf(), Available(), Figures() and Snapshot() cost, and whether they are durable
//   fairness         in what order requests are served
//   blocking         what calls block on besides the ledger
//   shards           what SkuOptions::shards and Reshard() are about
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
// answer is the current state of the order. A request id with another sku, quantity, buyer or ttl, or in another call,
// or a return's with another order, set of lines or disposition, is AlreadyExists: Take, Reserve, ReserveBasket, Return
// and Restock share their request ids. A refused request took nothing and is not remembered, so its id may be tried
// again. After an order is forgotten, its request id is refused for good: see `retention` in the options.
//
// With a ledger, OK means durable. Every call that changes something blocks until the change is durable, and holds no
// lock meanwhile. A call whose answer depends on the state of an order, a request id or a SKU, for example that a
// reservation is over, also blocks until that state is durable. The refusals for lack of units, by a limit or for an
// unknown SKU are true on their basis, at a moment of the call.
//
// If a call is Unavailable, either nothing has changed by it, or its outcome is unknown. The message says which; it
// does not speak of earlier calls with the same request id. In both cases the same request id may be sent again: once
// the ledger can be used, that shows the outcome.
//
// If an allocation fails on the thread of a call (std::bad_alloc), nothing is thrown, and the call is kUnavailable.
// Nothing has changed then, unless the message says "not known to be durable": the change was appended to the ledger,
// and there was no memory to wait for it or to say what came of it. ...Many() and Snapshot() of all SKUs return an
// empty vector if there is no memory for their answers, and ...Many() has asked for nothing then. ...Async() invokes
// `done` on the thread that has the answer, the calling one or one of the library's, if `executor` throws
// std::bad_alloc, as ThreadPool does without memory; the task must not run then. On the library's own threads, which
// expire orders and write the ledger, a failed allocation of the library ends the process.
//
// RefusalOf() classifies the errors. InvalidArgument means that the request is invalid and nothing has happened: the
// request_id is empty, a quantity is below 1, a basket has no lines, a ttl is below a microsecond, the buyer is missing
// although the SKU has a per_buyer_limit, a basket wants more units of a SKU than an int64_t can count, or a name or a
// basket exceeds kMaxSkuBytes, kMaxBuyerBytes, kMaxRequestIdBytes or kMaxBasketLines. These limits apply to every call.
// Longer names that a ledger has from before are kept: their orders are ended by their ids, and SKU names are accepted
// up to the longest one.
//
// Calls on orders have three forms. The first one blocks. ...Async() does not wait until the answer is durable and
// invokes `done`, which must not be empty (aborts), once on `executor`, which must outlive the inventory;
// stockade/inventory/coroutine.h has the same for co_await. ...Many() waits once for all its requests: each request is
// independent, and each answer is at its request's index. If `done` runs during the destructor, the inventory is
// Unavailable for it.
//
// The options of ...Async() end its wait early, on `executor`, too: DeadlineExceeded or Cancelled. A call that had
// begun goes on, and its message says that the outcome is unknown; otherwise it says "nothing has changed". Of a Find
// it says neither. They do not end the wait for room in the ledger's queue. ResourceExhausted, and nothing has changed:
// the thread that watches time-outs cannot be started.
//
// Thread-safe. Not usable in a forked child.
class STOCKADE_EXPORT Inventory {
 public:
  // The inventory of local_inventory.h. Recovers the contents of the ledger: its SKUs are for sale again, its request
  // ids are known, and its reservations continue for the time that the wall clock leaves them, but at most for their
  // TTL and their extensions. O(orders).
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
  // kUnknownSku. Its reservations continue; units that they return are withdrawn, too.
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
  // is unknown, only Figures().granted shows whether the units were added, once the ledger can be used.
  absl::Status Restock(std::string_view sku, int64_t units);

  // Changes the number of shards of a SKU while it is sold.
  //   NotFound: no such SKU.
  //   InvalidArgument: the number is not within 1 and the SKU's maximum.
  //   Unavailable: as for Restock().
  absl::Status Reshard(std::string_view sku, int32_t shards);

  // Sets units aside for `ttl`.
  //   ResourceExhausted, Aborted, NotFound, FailedPrecondition, AlreadyExists, InvalidArgument, Unavailable: see
  //     Refusal.
  absl::StatusOr<Reservation> Reserve(const ReserveRequest& request);
  void ReserveAsync(const ReserveRequest& request, Executor& executor,
                    absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done,
                    const InventoryCallOptions& options = {});
  std::vector<absl::StatusOr<Reservation>> ReserveMany(std::span<const ReserveRequest> requests);

  // Sets the units of several SKUs aside under one order id, either all or none. The order is committed, cancelled and
  // expires as a whole. Sold out only if at one moment of the call one of the SKUs had fewer units than wanted. Errors
  // as for Reserve(), for one of the SKUs: the buyer's limits are checked first, then unknown SKUs, then the units.
  absl::StatusOr<BasketReservation> ReserveBasket(const BasketRequest& request);
  void ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done,
                          const InventoryCallOptions& options = {});

  // Sells units at once. Errors as for Reserve().
  absl::StatusOr<Order> Take(const TakeRequest& request);
  void TakeAsync(const TakeRequest& request, Executor& executor, absl::AnyInvocable<void(absl::StatusOr<Order>)> done,
                 const InventoryCallOptions& options = {});
  std::vector<absl::StatusOr<Order>> TakeMany(std::span<const TakeRequest> requests);

  // Sells the units of a reservation if its TTL has not passed when this is called; of a commit and an expiry at the
  // same moment, exactly one takes effect. OK if the reservation is already sold.
  //   FailedPrecondition: the reservation was cancelled, has expired, or all of it came back after the sale; which is
  //                       durable. RefusalOf() and the message say which.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable: as for Restock().
  absl::Status Commit(OrderId id);
  void CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done,
                   const InventoryCallOptions& options = {});
  std::vector<absl::Status> CommitMany(std::span<const OrderId> ids);

  // Returns the units of a reservation. OK if it was cancelled before or its TTL has passed. OK means that its units
  // are available again and that it can never be committed; both are durable.
  //   FailedPrecondition: the reservation is sold: Refusal::kCommitted, or kReturned once all of it came back.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable: as for Restock().
  absl::Status Cancel(OrderId id);
  void CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done,
                   const InventoryCallOptions& options = {});
  std::vector<absl::Status> CancelMany(std::span<const OrderId> ids);

  // Lets a reservation last longer, for example while a payment takes its time. Returns the wall time at which it
  // expires from now on: `ttl` from now, but never earlier than before, and at most `max_hold` (in the options) after
  // it was granted, or after its own TTL if that is longer. OK also if nothing changes, so a repeat gets no earlier
  // time; compare the answer if you need a certain time. Its TTL, which a repeat of Reserve() must have, stays as it
  // is. Of an extension and an expiry or a commit at the same moment, the first one takes effect.
  //   FailedPrecondition: the reservation is sold, was cancelled or has expired, or all of it came back; which is
  //                       durable. RefusalOf() and the message say which.
  //   InvalidArgument: the ttl is below a microsecond.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable: as for Restock().
  absl::StatusOr<absl::Time> Extend(const ExtendRequest& request);
  void ExtendAsync(const ExtendRequest& request, Executor& executor,
                   absl::AnyInvocable<void(absl::StatusOr<absl::Time>)> done, const InventoryCallOptions& options = {});
  std::vector<absl::StatusOr<absl::Time>> ExtendMany(std::span<const ExtendRequest> requests);

  // Takes units back that were sold, in whole or in part, once per request id. They count no longer towards the buyer's
  // limit, and are for sale again when this returns, or are withdrawn. An order is kept until `retention` (in the
  // options) after it was sold, or after the last of its returns; record later ones by Restock(). Returns what came
  // back: each SKU once, in ascending order. A repeat gets the first answer; request ids are shared and compared as for
  // Restock().
  //   FailedPrecondition: the order is held (Refusal::kWrongState), was cancelled or has expired, or fewer units of it
  //                       are left (kTooMany), which is durable. The message says which, and how many.
  //   InvalidArgument: kInvalid, also for a line of a SKU that the order does not have.
  //   AlreadyExists: kRequestMismatch, kRequestForgotten.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable: as for Restock().
  absl::StatusOr<std::vector<ReturnedLine>> Return(const ReturnRequest& request);
  void ReturnAsync(const ReturnRequest& request, Executor& executor,
                   absl::AnyInvocable<void(absl::StatusOr<std::vector<ReturnedLine>>)> done,
                   const InventoryCallOptions& options = {});
  std::vector<absl::StatusOr<std::vector<ReturnedLine>>> ReturnMany(std::span<const ReturnRequest> requests);

  // An order, by its id or by its request's. A reservation whose TTL has passed has expired, whether it was reaped or
  // not. The answer is durable, like those of the calls above.
  //   NotFound: there is no such order, it is no longer kept, or it is not that of the buyer; or the request id is that
  //     of a restock or a return. RefusalOf() is kRequestForgotten if the request id was used before, and its order is
  //     no longer kept.
  //   InvalidArgument: the request names no order, or both an order and a request id, or its names are too long.
  //   Unavailable: as for all calls below; or the order is due, and the ledger cannot write its expiry.
  absl::StatusOr<OrderInfo> Find(const FindRequest& request) const;
  absl::StatusOr<OrderInfo> Find(OrderId id) const { return Find(FindRequest{.order = id}); }
  absl::StatusOr<OrderInfo> FindByRequest(std::string_view request_id) const {
    return Find(FindRequest{.request_id = std::string(request_id)});
  }
  void FindAsync(const FindRequest& request, Executor& executor,
                 absl::AnyInvocable<void(absl::StatusOr<OrderInfo>)> done,
                 const InventoryCallOptions& options = {}) const;

  // The state of an order. A reservation whose TTL has passed is kExpired, whether it was reaped or not. The answers
  // of Commit() and Cancel() are durable; whether this one is, "reads" says.
  //   NotFound: the order does not exist or is no longer kept.
  //   Unavailable, as for all calls below: there is no memory, or the ledger was asked and does not answer, is damaged
  //     there, or has too many calls waiting.
  absl::StatusOr<OrderState> StateOf(OrderId id) const;

  // The exact number of units that can be taken, at one moment of the call. NotFound: no such SKU.
  absl::StatusOr<int64_t> Available(std::string_view sku) const;

  // The exact figures of a SKU at one moment, for audits, also of a removed SKU. Not meant for hot paths. NotFound:
  // there never was such a SKU.
  absl::StatusOr<StockFigures> Figures(std::string_view sku) const;

  // A view for display. Does not block other threads. NotFound: no such SKU.
  absl::StatusOr<SkuSnapshot> Snapshot(std::string_view sku) const;
  // All SKUs for sale, ascending by name. Empty if they cannot be read.
  std::vector<SkuSnapshot> Snapshot() const;

  // OK, or Unavailable with the reason if the ledger cannot be used, or if there is no memory. It is about taking
  // orders: it stays OK if Redis nodes are away, or if reservations expire late, which the metrics show.
  absl::Status Health() const;

 private:
  friend class FleetInventory;
  explicit Inventory(std::unique_ptr<inventory_internal::InventoryCore> core);

  std::unique_ptr<inventory_internal::InventoryCore> core_;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_INVENTORY_H_

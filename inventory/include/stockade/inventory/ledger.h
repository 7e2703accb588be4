#ifndef STOCKADE_INVENTORY_LEDGER_H_
#define STOCKADE_INVENTORY_LEDGER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"

namespace stockade {

// The longest name of a SKU, of a buyer and of a request, in bytes. Names of buyers and requests may contain any bytes,
// which are stored unchanged.
inline constexpr size_t kMaxSkuBytes = 255;
inline constexpr size_t kMaxBuyerBytes = 255;
inline constexpr size_t kMaxRequestIdBytes = 255;
// The largest number of lines in a basket, before lines of the same SKU are added up.
inline constexpr size_t kMaxBasketLines = 1'000;

// One line of an order.
struct OrderLine {
  std::string sku = {};  // The item.
  int64_t quantity = 1;  // Units.

  friend bool operator==(const OrderLine&, const OrderLine&) = default;
};

// The lines of an order. Most have one, which needs no allocation of its own.
using OrderLines = absl::InlinedVector<OrderLine, 1>;

// One record of the journal: one complete change of an inventory.
struct LedgerRecord {
  // The kind of change, and the fields that it uses.
  enum class Kind {
    kAddSku,         // one line (the first stock), shards, per_buyer_limit
    kRestock,        // one line; and order_id and request_id if the restock had a request id
    kRemoveSku,      // one line: the available units, 0 or more, which are withdrawn
    kReserve,        // order_id, request_id, one line, buyer, expires_at, ttl
    kTake,           // order_id, request_id, one line, buyer: sold at once
    kReserveBasket,  // order_id, request_id, lines, buyer, expires_at, ttl: either all lines are held or none
    kCommit,         // order_id: held becomes sold, with all its lines
    kCancel,         // order_id: held becomes cancelled, and its units are available again
    kExpire,         // order_id: held becomes expired, and its units are available again
    kExtend,         // order_id, extended, extended_before: stays held, and expires later
    kReturn,         // order_id, change_id, request_id, lines, of_all: sold units come back, and are available again
    kWriteOff,       // as kReturn: they come back, and are withdrawn
  };

  Kind kind;                                       // The kind of change.
  uint64_t order_id = 0;                           // Assigned by the inventory, from 1, never reused.
  uint64_t change_id = 0;                          // kReturn, kWriteOff: its own id, which no order has.
  std::string request_id = {};                     // Identifies the request, so that repeats are recognized.
  OrderLines lines = {};                           // Of a basket and a return at least one, each SKU once.
  std::string buyer = {};                          // Empty if not given.
  absl::Time expires_at = absl::InfiniteFuture();  // Wall time, because it must hold across a restart.
  int32_t shards = 0;                              // See SkuOptions.
  int64_t per_buyer_limit = 0;                     // Units; 0 means no limit.
  // kReserve, kReserveBasket: with what it was extended by, an upper bound of the remaining time after a restart, in
  // case the wall clock was set back. In whole microseconds, like expires_at.
  absl::Duration ttl = absl::InfiniteDuration();
  // kExtend: by how much later than its grant has said the order expires from now on, in whole microseconds.
  absl::Duration extended = absl::ZeroDuration();
  // The same before this record: for an inventory that undoes it. Not to be stored.
  absl::Duration extended_before = absl::ZeroDuration();
  // kReturn, kWriteOff: the request named no lines, and so means all that was left.
  bool of_all = false;
};

// The key of SipHash-2-4.
using FingerprintKey = std::array<uint64_t, 2>;

// The state of an order. One whose units have all come back after it was sold stays kSold.
enum class OrderState { kHeld, kSold, kCancelled, kExpired };

// Units of an order that came back after it was sold.
struct ReturnedLine {
  std::string sku = {};  // The item.
  int64_t quantity = 1;  // Units.
  bool to_stock = true;  // They are for sale again; false: they were withdrawn.

  friend bool operator==(const ReturnedLine&, const ReturnedLine&) = default;
};

// The contents of a ledger: the effect of all durable records, in order.
struct LedgerState {
  // One item.
  struct Sku {
    std::string sku;      // Its name.
    int64_t granted = 0;  // Units ever stocked, less those written off, or withdrawn by its removal or after it.
    int32_t shards = 0;   // See SkuOptions.
    int64_t per_buyer_limit = 0;  // Units; 0 means no limit.
    bool removed = false;         // Permanently removed from sale.
    int64_t sold_forgotten = 0;   // Units of orders that are no longer in `orders`: sold, and not come back.
  };
  // One order.
  struct Order {
    uint64_t order_id = 0;                                // From 1, never reused.
    LedgerRecord::Kind kind = LedgerRecord::Kind::kTake;  // That of its first record: kReserve, kTake, kReserveBasket.
    std::string request_id = {};                          // The request that created the order.
    OrderLines lines = {};                                // In the order of its record.
    std::string buyer = {};                               // Empty if not given.
    OrderState state = OrderState::kHeld;                 // The current state.
    absl::Time expires_at = absl::InfiniteFuture();       // Wall time, as it was granted.
    absl::Duration extended = absl::ZeroDuration();       // By how much later than that it expires.
    absl::Duration ttl = absl::InfiniteDuration();        // Infinite although expires_at is finite: not stored.
    // Wall time at which the order was sold, cancelled or expired, as recorded by the ledger: the time of its batch,
    // rounded down to a microsecond. Infinite while the order is held.
    absl::Time ended_at = absl::InfiniteFuture();
  };

  // A return of units of an order that is sold.
  struct Change {
    uint64_t change_id = 0;                                 // Of its record. No order has this id.
    LedgerRecord::Kind kind = LedgerRecord::Kind::kReturn;  // Or kWriteOff.
    uint64_t order_id = 0;                                  // The order, which is in `orders`.
    std::string request_id = {};                            // The request of the return.
    std::vector<ReturnedLine> lines = {};                   // At least one, each SKU once.
    bool of_all = false;                                    // As in its record.
    absl::Time at = {};                                     // When the ledger recorded it, like Order::ended_at.
  };

  // Units that a buyer has bought through orders that are no longer in `orders`, less those that came back, for a SKU
  // with a limit per buyer.
  struct Bought {
    std::string sku;    // The item.
    std::string buyer;  // The buyer.
    int64_t units = 0;  // The number of units.
  };

  // A restock that had a request id.
  struct Restock {
    uint64_t order_id = 0;   // Of its record. No order has this id.
    std::string request_id;  // The restock's request.
    std::string sku;         // The item.
    int64_t quantity = 0;    // Units.
    absl::Time at = {};      // Wall time at which the ledger recorded it, like Order::ended_at.
  };

  // For each SKU, the number of available units is granted - sold_forgotten - the units of its held and sold orders,
  // less those that came back by `changes`. Never negative; 0 if the SKU was removed.
  std::vector<Sku> skus;
  // Ascending by order_id. All held orders, and those that ended, or of which units came back, recently.
  std::vector<Order> orders;
  std::vector<Change> changes = {};  // All of `orders`, in the order of their records.
  std::vector<Bought> bought = {};
  std::vector<Restock> restocks = {};  // Those that were recorded recently.
  // SipHash-2-4 of the request ids of all other orders, changes and restocks, under `fingerprint_key`.
  std::vector<uint64_t> forgotten = {};
  uint64_t last_forgotten_id = 0;                      // The highest order id among them.
  std::optional<FingerprintKey> fingerprint_key = {};  // None if the ledger forgets nothing.
};

// Records the changes of an inventory in one totally ordered journal. The durable records are always a prefix of the
// records that were appended and not refused. Safety depends on this property alone:
//  - A grant (kReserve, kTake, kReserveBasket) takes its units in memory first, is then appended, and is acknowledged
//    when it is durable. A withdrawal (kRemoveSku) works in the same way.
//  - A deposit (kRestock, kCancel, kExpire, kReturn) is appended before its units can be taken.
// In every prefix, earlier deposits therefore cover the units that were taken, whenever a crash occurs.
//
// One record contains the complete change of its order, so a crash never leaves a basket in part.
//
// kRemoveSku withdraws all units that the records before it leave available. When it is appended, no other thread may
// have taken units of that SKU in memory without having appended its record. Afterwards the SKU is neither taken from
// nor restocked, and its name is never added again. Its held orders may still be committed, cancelled and expire, and
// sold units come back. Units that come back are withdrawn, too: `granted` decreases instead of `available` increasing.
// At every position, granted = available + held + sold holds for every SKU.
//
// An allocation that fails in a call may throw std::bad_alloc, if the call has done nothing: no record was appended, no
// callback was taken, no refused record was returned. An inventory then undoes the change in memory, or tells its
// caller that the outcome is unknown.
//
// Thread-safe.
class STOCKADE_EXPORT Ledger {
 public:
  virtual ~Ledger() = default;

  // Returns what was durable when the ledger was opened. Called once, before the first Append().
  virtual LedgerState TakeRecovered() = 0;

  // Appends `record` to the journal and returns its position, ascending from 1. Does not wait for the disk. A ledger
  // that has failed discards the record, and AwaitDurable() for its position returns the error. Callers that need an
  // order between records of different threads append them under a lock of their own.
  virtual uint64_t Append(LedgerRecord record) = 0;

  // Blocks until the record at `position`, and thus every record before it, is durable.
  //   Unavailable: the ledger has failed. It is unknown whether the record is durable until the ledger is reopened. All
  //     later calls return the same.
  //   ResourceExhausted: the record was refused, and nothing of it is there; see TakeRefused().
  virtual absl::Status AwaitDurable(uint64_t position) = 0;

  // Invokes `done`, which must not be empty (aborts), once with the result that AwaitDurable(position) would return, as
  // soon as that is known. If it is known already, `done` is invoked during the call, on the calling thread. Otherwise
  // it is invoked later on a thread of the ledger, in ascending order of position, and for one position in the order of
  // the calls. The ledger holds no lock meanwhile. `done` must be short, because it delays other callbacks. It must not
  // throw, and it must not wait for the ledger, as AwaitDurable() does and as Append() does if its queue is bounded. If
  // the ledger fails, pending callbacks get Unavailable. The destructor waits until all pending callbacks have been
  // invoked.
  virtual void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) = 0;

  // A record is refused if there is no room for it, if it exceeds one of the limits above, or if units of an order come
  // back by it that the ledger has forgotten meanwhile. All records after it are refused, too, because they may depend
  // on it, and perhaps some before it: none of them is durable or ever will be. Later records are also refused until
  // this is called. It returns the refused records in order. The owner must undo them in memory before it appends
  // anything else, and no other thread may have changed memory without having appended its record. Then the ledger
  // accepts records again, and may refuse again. Returns an empty vector if nothing was refused since the last call.
  // Most ledgers never refuse a record; they fail instead.
  virtual std::vector<LedgerRecord> TakeRefused() { return {}; }

  // Tells the ledger that orders which ended, or of which units came back last, longer than `retention` ago are no
  // longer needed, so that it may forget them, except for what LedgerState keeps of them. Called once, after
  // TakeRecovered(). Before that, the ledger forgets nothing.
  virtual void SetRetention(absl::Duration retention) { (void)retention; }

  // OK, ResourceExhausted while it refuses records, or permanently the reason why it has failed.
  virtual absl::Status Health() const = 0;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_LEDGER_H_

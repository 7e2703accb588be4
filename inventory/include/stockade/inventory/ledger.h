#ifndef STOCKADE_INVENTORY_LEDGER_H_
#define STOCKADE_INVENTORY_LEDGER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"

namespace stockade {

// The longest name of a SKU, of a buyer and of a request, in bytes. Names of buyers and requests may have
// any bytes, which are kept as they are.
inline constexpr size_t kMaxSkuBytes = 255;
inline constexpr size_t kMaxBuyerBytes = 255;
inline constexpr size_t kMaxRequestIdBytes = 255;
// The most lines of a basket, before those of the same SKU are added up.
inline constexpr size_t kMaxBasketLines = 1'000;

// One line of a basket.
struct OrderLine {
  std::string sku = {};  // The item.
  int64_t quantity = 1;  // Units.

  friend bool operator==(const OrderLine&, const OrderLine&) = default;
};

// One line of the journal: one change of an inventory, whole.
struct LedgerRecord {
  // What was done, and which of the fields below say more of it.
  enum class Kind {
    kAddSku,         // sku, quantity (its first stock), shards, per_buyer_limit
    kRestock,        // sku, quantity; order_id and request_id, if the restock had a request id
    kRemoveSku,      // sku, quantity: the units that were available, 0 or more, which are withdrawn
    kReserve,        // order_id, request_id, sku, quantity, buyer, expires_at, ttl
    kTake,           // order_id, request_id, sku, quantity, buyer: sold at once
    kReserveBasket,  // order_id, request_id, lines, buyer, expires_at, ttl: all lines are held, or none
    kCommit,         // order_id: held becomes sold, with all its lines
    kCancel,         // order_id: held becomes cancelled, its units are for sale again
    kExpire,         // order_id: held becomes expired, its units are for sale again
  };

  Kind kind;                                       // What was done.
  uint64_t order_id = 0;                           // Given out by the inventory, from 1, never reused.
  std::string request_id = {};                     // Names the request, for who sends it again.
  std::string sku = {};                            // The item. Empty: of a basket, or the record is of an order.
  int64_t quantity = 0;                            // Units.
  std::string buyer = {};                          // Empty: not told.
  absl::Time expires_at = absl::InfiniteFuture();  // Wall time: it must hold across a restart.
  int32_t shards = 0;                              // As SkuOptions has it.
  int64_t per_buyer_limit = 0;                     // Units; 0: none.
  // kReserve, kReserveBasket: bounds what remains after a restart, in case the wall clock was set back. Whole
  // microseconds, as expires_at.
  absl::Duration ttl = absl::InfiniteDuration();
  std::vector<OrderLine> lines = {};  // Only of kReserveBasket: at least one, each SKU once.
};

// Of SipHash-2-4.
using FingerprintKey = std::array<uint64_t, 2>;

// What has become of an order.
enum class OrderState { kHeld, kSold, kCancelled, kExpired };

// What a ledger holds: the effect of every durable record, in order.
struct LedgerState {
  // One item.
  struct Sku {
    std::string sku;      // Its name.
    int64_t granted = 0;  // Units ever stocked, less those withdrawn: by its removal, and by what came back after it.
    int32_t shards = 0;   // As SkuOptions has it.
    int64_t per_buyer_limit = 0;  // Units; 0: none.
    bool removed = false;         // Off sale for good.
    int64_t sold_forgotten = 0;   // Units sold by orders that are not in `orders` any more.
  };
  // One order.
  struct Order {
    uint64_t order_id = 0;                           // From 1, never reused.
    std::string request_id;                          // Of the request that it answers.
    std::string sku;                                 // Empty: a basket.
    int64_t quantity = 0;                            // 0: a basket.
    std::string buyer;                               // Empty: not told.
    OrderState state = OrderState::kHeld;            // What has become of it.
    bool reserved = false;                           // By kReserve or kReserveBasket; false: by kTake.
    absl::Time expires_at = absl::InfiniteFuture();  // Wall time.
    absl::Duration ttl = absl::InfiniteDuration();   // Infinite beside a finite expires_at: not kept.
    std::vector<OrderLine> lines = {};               // Of a basket, in the order of its record; else empty.
    // Wall time at which it was sold, cancelled or expired, as the ledger wrote it down: the time of its batch, rounded
    // down to a microsecond. Infinite while held.
    absl::Time ended_at = absl::InfiniteFuture();
  };

  // What a buyer has bought by orders that are not in `orders` any more, of a SKU with a limit per buyer.
  struct Bought {
    std::string sku;    // The item.
    std::string buyer;  // Who bought.
    int64_t units = 0;  // How many.
  };

  // A restock that had a request id.
  struct Restock {
    uint64_t order_id = 0;   // Of its record; no order has it.
    std::string request_id;  // Of the request.
    std::string sku;         // The item.
    int64_t quantity = 0;    // Units.
    absl::Time at = {};      // Wall time at which the ledger wrote it down, as Order::ended_at.
  };

  // For each SKU: units available = granted - sold_forgotten - those of its orders that are held or sold. Never
  // negative; 0 where removed.
  std::vector<Sku> skus;
  std::vector<Order> orders;  // Ascending by order_id. All that are held, and those that ended of late.
  std::vector<Bought> bought = {};
  std::vector<Restock> restocks = {};  // Those that were written of late.
  // SipHash-2-4 of the request ids of the other orders and restocks, under `fingerprint_key`.
  std::vector<uint64_t> forgotten = {};
  uint64_t last_forgotten_id = 0;                      // The highest of their order ids.
  std::optional<FingerprintKey> fingerprint_key = {};  // None: the ledger forgets nothing.
};

// Where an inventory writes down what it did: one totally ordered journal. What is durable is always a prefix of what
// was appended (and not refused), and that is all the safety rests on:
//  - a grant (kReserve, kTake, kReserveBasket) takes its units in memory first, is appended, and is acknowledged when
//    it is durable; so does a withdrawal (kRemoveSku);
//  - a deposit (kRestock, kCancel, kExpire) is appended before its units can be taken.
// So in every prefix the units taken are covered by units deposited before them, whatever the moment of a crash.
//
// A record settles the whole of its order, and a crash keeps it or undoes it as a whole: no basket is ever in part.
//
// kRemoveSku withdraws all that the records before it leave available, so nobody may be between memory and the journal
// with units of that SKU when it is appended. After it nothing takes from that SKU or restocks it, and its name is
// never added again. Its held orders may still be committed, cancelled and expire. What comes back to it then is
// withdrawn too: granted shrinks, instead of available growing. So granted = available + held + sold holds for every
// SKU at every position.
//
// Thread-safe.
class STOCKADE_EXPORT Ledger {
 public:
  virtual ~Ledger() = default;

  // What was durable when the ledger was opened. Called once, before the first Append().
  virtual LedgerState TakeRecovered() = 0;

  // Puts `record` at the end of the journal and returns its position, ascending from 1. Does not wait for the disk. In
  // a ledger that has failed the record goes nowhere, and AwaitDurable() of its position says so. Callers that need an
  // order between records of different threads append under a lock of theirs.
  virtual uint64_t Append(LedgerRecord record) = 0;

  // Blocks until the record at `position`, and so every one before it, is durable.
  //   Unavailable: the ledger has failed; whether the record is durable is unknown until the ledger is opened again.
  //   From then on every call says so.
  //   ResourceExhausted: refused, for want of room or because a record exceeds a limit; see TakeRefused().
  virtual absl::Status AwaitDurable(uint64_t position) = 0;

  // Calls `done` once, with what AwaitDurable(position) would return, as soon as that would return: within the call, on
  // the calling thread, if it is known already; otherwise later, on a thread of the ledger's own, in ascending order of
  // position, and of the calls for one position. No lock of the ledger is held meanwhile. `done` must be short, for it
  // keeps the others waiting; it must not throw and must not wait for the ledger, as AwaitDurable() does, and Append()
  // where that is bounded. What is outstanding when the ledger fails gets Unavailable; the destructor waits until all
  // that is outstanding has been called.
  virtual void NotifyDurable(uint64_t position, absl::AnyInvocable<void(absl::Status)> done) = 0;

  // A record that there is no room for, or that exceeds one of the limits above, is refused, and with it every record
  // behind it, which may build on it, and perhaps some before it: none of them is durable or ever will be. What is
  // appended from then on is refused, too, until this is called. It returns what was refused, in order, for the owner
  // to take back in memory before it appends anything else: nobody may be between memory and the journal. Then the
  // ledger takes records again, and perhaps refuses again. Empty: nothing was refused since the last call. Most ledgers
  // never refuse: they fail.
  virtual std::vector<LedgerRecord> TakeRefused() { return {}; }

  // Called once, after TakeRecovered(): nobody needs orders that ended longer ago than `retention`, and the ledger may
  // forget them, but for what LedgerState says of such orders. Before that it forgets none.
  virtual void SetRetention(absl::Duration retention) { (void)retention; }

  // OK; ResourceExhausted while it refuses; or why it has failed, from then on.
  virtual absl::Status Health() const = 0;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_LEDGER_H_

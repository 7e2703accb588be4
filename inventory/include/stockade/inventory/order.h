#ifndef STOCKADE_INVENTORY_ORDER_H_
#define STOCKADE_INVENTORY_ORDER_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/inventory/ledger.h"

namespace stockade {

// Identifies an order of one inventory, also after restarts: 1 or more, never reused. Ids are not chronological: a
// later order may have a lower id.
//
// Most ids of a fleet exceed 2^53, above which a double, and so a number of JavaScript, does not tell neighbours apart:
// write ids into JSON as strings, by OrderIdText().
using OrderId = uint64_t;

// The id in decimal, 1 to 20 digits.
STOCKADE_EXPORT std::string OrderIdText(OrderId id);

// The id of such a text. InvalidArgument: it is not what OrderIdText() returns for an id: other bytes than digits, a
// leading zero, 0, or more than 2^64 - 1. O(length), at most 20 bytes are read.
STOCKADE_EXPORT absl::StatusOr<OrderId> ParseOrderId(std::string_view text);

// The arguments of Inventory::Reserve().
struct ReserveRequest {
  // The item.
  std::string sku = {};
  // Units; at least 1.
  int64_t quantity = 1;
  // Identifies the request, so that it takes units once, however often it is sent. 1 to kMaxRequestIdBytes bytes.
  // Create it where the request originates, for example at the buyer's click, and reuse it for retries.
  std::string request_id = {};
  // The buyer that per_buyer_limit applies to: up to kMaxBuyerBytes bytes. May be empty if the SKU has no limit.
  std::string buyer = {};
  // How long the units are reserved, counted from the call. Above zero, stored in whole microseconds. A reservation for
  // 36,500 days (100 years) or longer, or for ever, stays until it is committed or cancelled. The default is a usual
  // time for a check-out.
  Duration ttl = absl::Minutes(10);
};

// Like ReserveRequest, for units that are sold at once.
struct TakeRequest {
  // As in ReserveRequest.
  std::string sku = {};
  int64_t quantity = 1;
  std::string request_id = {};
  std::string buyer = {};
};

// Like ReserveRequest, for several SKUs at once: either all lines are reserved or none.
struct BasketRequest {
  // 1 to kMaxBasketLines lines. Lines of the same SKU are added up.
  std::vector<OrderLine> lines = {};
  std::string request_id = {};
  std::string buyer = {};
  Duration ttl = absl::Minutes(10);
};

// The arguments of Inventory::Extend().
struct ExtendRequest {
  // A reservation.
  OrderId order = 0;
  // How long the units stay reserved, counted from the call. Above zero, in whole microseconds.
  Duration ttl = absl::Minutes(10);
};

// The arguments of Inventory::Return().
struct ReturnRequest {
  // The place to which the units go.
  enum class Disposition {
    kToStock,   // They are for sale again, unless their SKU was removed.
    kWriteOff,  // They are withdrawn.
  };

  // An order that is sold.
  OrderId order = 0;
  // The units that come back: up to kMaxBasketLines lines, of which those of the same SKU are added up. Empty: all that
  // are left.
  std::vector<OrderLine> lines = {};
  // As in ReserveRequest.
  std::string request_id = {};
  // As above.
  Disposition disposition = Disposition::kToStock;
};

// The arguments of Inventory::Find().
struct FindRequest {
  // The order, by its id or by that of its request: one of these.
  OrderId order = 0;
  std::string request_id = {};
  // Only an order of this buyer is found, if there is one here, for a caller who must not see those of others. An empty
  // name is that of orders without a buyer.
  std::optional<std::string> buyer = {};
};

// How long an asynchronous call waits for its answer. The call goes on if it has begun by then, so that its outcome is
// unknown: see OutcomeUnknown().
struct InventoryCallOptions {
  // From the call on, by the inventory's clock. Then the answer is DeadlineExceeded; at once, and without the call, if
  // this is not above zero.
  Duration timeout = absl::InfiniteDuration();
  // If a stop is requested, the answer is Cancelled.
  std::stop_token stop = {};
};

// Like ReserveRequest, for units that are added to a SKU.
struct RestockRequest {
  // As in ReserveRequest.
  std::string sku = {};
  int64_t quantity = 1;
  std::string request_id = {};
};

// The result of Take(): units that were sold to the request. A value type.
class Order {
 public:
  // For request handlers and tests.
  Order(OrderId id, const std::string& sku, int64_t quantity, const std::string& request_id, const std::string& buyer,
        OrderState state = OrderState::kSold)
      : id_(id), sku_(sku), quantity_(quantity), request_id_(request_id), buyer_(buyer), state_(state) {}

  // The parameters of the request, and the id of its order.
  OrderId id() const { return id_; }
  const std::string& sku() const { return sku_; }
  int64_t quantity() const { return quantity_; }
  const std::string& request_id() const { return request_id_; }
  const std::string& buyer() const { return buyer_; }
  // The state of the order when the request was answered: kSold for Take(), and kHeld for a new reservation. A repeated
  // request may find that the order has been sold, cancelled or has expired. As durable as the rest of the answer.
  OrderState state() const { return state_; }

  // Compares what was granted. state() is not compared, so the answer to a repeated request equals the first one.
  friend bool operator==(const Order& a, const Order& b) {
    return a.id_ == b.id_ && a.sku_ == b.sku_ && a.quantity_ == b.quantity_ && a.request_id_ == b.request_id_ &&
           a.buyer_ == b.buyer_;
  }

 private:
  OrderId id_;
  std::string sku_;
  int64_t quantity_;
  std::string request_id_;
  std::string buyer_;
  OrderState state_;
};

// The result of Reserve(): units that are set aside for the request. It does not change when the reservation is
// extended, committed, cancelled or expires later; Inventory::StateOf() returns the current state. A value type.
class Reservation : public Order {
 public:
  // For request handlers and tests.
  Reservation(OrderId id, const std::string& sku, int64_t quantity, const std::string& request_id,
              const std::string& buyer, absl::Time expires_at, OrderState state = OrderState::kHeld)
      : Order(id, sku, quantity, request_id, buyer, state), expires_at_(expires_at) {}

  // The wall time at which the reservation expires unless it is committed or extended, for display. The inventory
  // itself uses a clock that never jumps.
  absl::Time expires_at() const { return expires_at_; }

  friend bool operator==(const Reservation&, const Reservation&) = default;

 private:
  absl::Time expires_at_;
};

// The result of ReserveBasket(); otherwise like Reservation. A value type.
class BasketReservation {
 public:
  // For request handlers and tests.
  BasketReservation(OrderId id, std::vector<OrderLine> lines, std::string request_id, std::string buyer,
                    absl::Time expires_at, OrderState state = OrderState::kHeld)
      : id_(id),
        lines_(std::move(lines)),
        request_id_(std::move(request_id)),
        buyer_(std::move(buyer)),
        expires_at_(expires_at),
        state_(state) {}

  // The id for Commit(), Cancel() and Extend(), which apply to all lines together, and Return(), which may name some.
  OrderId id() const { return id_; }
  // Each SKU once, in ascending order.
  const std::vector<OrderLine>& lines() const { return lines_; }
  const std::string& request_id() const { return request_id_; }
  const std::string& buyer() const { return buyer_; }
  absl::Time expires_at() const { return expires_at_; }
  OrderState state() const { return state_; }

  // Compares like Order does.
  friend bool operator==(const BasketReservation& a, const BasketReservation& b) {
    return a.id_ == b.id_ && a.lines_ == b.lines_ && a.request_id_ == b.request_id_ && a.buyer_ == b.buyer_ &&
           a.expires_at_ == b.expires_at_;
  }

 private:
  OrderId id_;
  std::vector<OrderLine> lines_;
  std::string request_id_;
  std::string buyer_;
  absl::Time expires_at_;
  OrderState state_;
};

// A line of an order, and what became of it.
struct OrderInfoLine {
  std::string sku = {};  // The item.
  int64_t quantity = 1;  // Units, as they were granted.
  int64_t returned = 0;  // Those of them that came back after they were sold.

  friend bool operator==(const OrderInfoLine&, const OrderInfoLine&) = default;
};

// The result of Find(): what is known of an order.
struct OrderInfo {
  // The order, and its state. A reservation whose TTL has passed is kExpired.
  OrderId id = 0;
  OrderState state = OrderState::kHeld;
  // Each SKU once, in ascending order.
  std::vector<OrderInfoLine> lines = {};
  // In a fleet, whose tables have only hashes of these two, they are those of the FindRequest.
  std::string request_id = {};
  std::string buyer = {};
  // The wall time at which a held order expires, for display; infinite if it never does or is not held.
  absl::Time expires_at = absl::InfiniteFuture();

  friend bool operator==(const OrderInfo&, const OrderInfo&) = default;
};

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_ORDER_H_

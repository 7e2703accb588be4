#ifndef STOCKADE_INVENTORY_ORDER_H_
#define STOCKADE_INVENTORY_ORDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/inventory/ledger.h"

namespace stockade {

// Names an order of one inventory, across restarts too: from 1, never reused. Means nothing else; a later order may
// have a lower id.
using OrderId = uint64_t;

// What Inventory::Reserve() is asked for.
struct ReserveRequest {
  // The item.
  std::string sku = {};
  // Units; at least 1.
  int64_t quantity = 1;
  // Names the request, so that it takes once however often it is sent. 1 to kMaxRequestIdBytes bytes. Make it where the
  // wish arises, at the buyer's click, and keep it over retries.
  std::string request_id = {};
  // The buyer that a per_buyer_limit counts for: up to kMaxBuyerBytes bytes. May be empty if the SKU has no limit.
  std::string buyer = {};
  // How long the units are the buyer's, from the call on; above zero, kept in whole microseconds. Infinite: until it
  // is committed or cancelled. Ten minutes: what a check-out usually grants.
  absl::Duration ttl = absl::Minutes(10);
};

// As ReserveRequest, for what is sold at once.
struct TakeRequest {
  // As in ReserveRequest.
  std::string sku = {};
  int64_t quantity = 1;
  std::string request_id = {};
  std::string buyer = {};
};

// As ReserveRequest, for several SKUs at once: all of them or none.
struct BasketRequest {
  // 1 to kMaxBasketLines; those of the same SKU are added up.
  std::vector<OrderLine> lines = {};
  std::string request_id = {};
  std::string buyer = {};
  absl::Duration ttl = absl::Minutes(10);
};

// As ReserveRequest, for units that are added to a SKU.
struct RestockRequest {
  // As in ReserveRequest.
  std::string sku = {};
  int64_t quantity = 1;
  std::string request_id = {};
};

// What a Take() answers: these units are sold to this request. A value type.
class Order {
 public:
  // For code that answers requests, and tests.
  Order(OrderId id, std::string sku, int64_t quantity, std::string request_id, std::string buyer,
        OrderState state = OrderState::kSold)
      : id_(id),
        sku_(std::move(sku)),
        quantity_(quantity),
        request_id_(std::move(request_id)),
        buyer_(std::move(buyer)),
        state_(state) {}

  // What the request was, and the id of its order.
  OrderId id() const { return id_; }
  const std::string& sku() const { return sku_; }
  int64_t quantity() const { return quantity_; }
  const std::string& request_id() const { return request_id_; }
  const std::string& buyer() const { return buyer_; }
  // What had become of the order when this was answered: kSold of a Take(). Of a reservation kHeld; but a request that
  // is sent again may find that it was sold, cancelled or has expired since. As durable as the rest of the answer.
  OrderState state() const { return state_; }

  // Of what was granted: state() is not compared, so a repeated request gets an answer that is equal to the first one.
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

// What a Reserve() answers: these units were set aside for this request. It is the answer of that moment and does not
// change when the reservation is committed, cancelled or expires afterwards: see Inventory::StateOf(). A value type.
class Reservation : public Order {
 public:
  // For code that answers requests, and tests.
  Reservation(Order order, absl::Time expires_at) : Order(std::move(order)), expires_at_(expires_at) {}

  // When the buyer's right ends unless committed: wall time, to show to people. The inventory itself counts on a clock
  // that never jumps.
  absl::Time expires_at() const { return expires_at_; }

  friend bool operator==(const Reservation&, const Reservation&) = default;

 private:
  absl::Time expires_at_;
};

// What a ReserveBasket() answers; otherwise as Reservation. A value type.
class BasketReservation {
 public:
  // For code that answers requests, and tests.
  BasketReservation(OrderId id, std::vector<OrderLine> lines, std::string request_id, std::string buyer,
                    absl::Time expires_at, OrderState state = OrderState::kHeld)
      : id_(id),
        lines_(std::move(lines)),
        request_id_(std::move(request_id)),
        buyer_(std::move(buyer)),
        expires_at_(expires_at),
        state_(state) {}

  // Commit() and Cancel() take it, for all lines together.
  OrderId id() const { return id_; }
  // Each SKU once, in ascending order.
  const std::vector<OrderLine>& lines() const { return lines_; }
  const std::string& request_id() const { return request_id_; }
  const std::string& buyer() const { return buyer_; }
  absl::Time expires_at() const { return expires_at_; }
  OrderState state() const { return state_; }

  // As Order's.
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

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_ORDER_H_

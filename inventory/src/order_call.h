#ifndef STOCKADE_INVENTORY_ORDER_CALL_H_
#define STOCKADE_INVENTORY_ORDER_CALL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/instant.h"
#include "stockade/inventory/ledger.h"
#include "stockade/inventory/order.h"
#include "stockade/inventory/refusal.h"

namespace stockade::inventory_internal {

class InventoryCore;

// A line of a request. The request owns the name.
struct RequestLine {
  std::string_view sku;
  int64_t quantity;

  friend bool operator==(const RequestLine&, const RequestLine&) = default;
};

// What the answer to a request for units is made of.
struct Granted {
  OrderId id;
  OrderState state;
  absl::Time expires_at;
  const std::string& request_id;
  const std::string& buyer;
  // Of a basket `lines`, otherwise its only line.
  const std::string& sku;
  int64_t quantity;
  std::vector<OrderLine> lines = {};
};

// A call about an order, in any of its forms: what is asked for, and then the answer. What it refers to must stay until
// it was asked for.
struct OrderCall {
  using Kind = LedgerRecord::Kind;

  explicit OrderCall(const ReserveRequest& request)
      : OrderCall(Kind::kReserve, request.request_id, request.buyer, request.ttl) {
    lines.push_back({.sku = request.sku, .quantity = request.quantity});
  }
  explicit OrderCall(const TakeRequest& request)
      : OrderCall(Kind::kTake, request.request_id, request.buyer, absl::InfiniteDuration()) {
    lines.push_back({.sku = request.sku, .quantity = request.quantity});
  }
  explicit OrderCall(const BasketRequest& request)
      : OrderCall(Kind::kReserveBasket, request.request_id, request.buyer, request.ttl) {
    basket = request.lines;
  }
  // kCommit or kCancel.
  OrderCall(Kind how, OrderId which) : kind(how), id(which) {}
  explicit OrderCall(const ExtendRequest& request) : kind(Kind::kExtend), ttl(request.ttl), id(request.order) {}
  explicit OrderCall(const ReturnRequest& request)
      : kind(request.disposition == ReturnRequest::Disposition::kWriteOff ? Kind::kWriteOff : Kind::kReturn),
        request_id(&request.request_id),
        basket(request.lines),
        id(request.order) {}
  explicit OrderCall(const FindRequest& request) : kind(Kind::kExtend), find(&request), id(request.order) {}
  OrderCall(Kind what, const std::string& by, const std::string& of, absl::Duration length)
      : kind(what), request_id(&by), buyer(&of), ttl(length) {}
  virtual ~OrderCall() = default;

  // It asks for units.
  bool is_request() const { return buyer != nullptr; }
  bool is_return() const { return kind == Kind::kReturn || kind == Kind::kWriteOff; }
  // Of two requests with one line each.
  bool Equals(const OrderCall& other) const {
    return lines == other.lines && *buyer == *other.buyer && ttl == other.ttl;
  }

  // Makes the answer to a request, a Find() or a Return(); `status` stays OK. It is called before the order exists or
  // changes, and may throw std::bad_alloc.
  virtual void Make(Granted&&) {}
  virtual void Make(OrderInfo&&) {}
  virtual void Make(std::vector<ReturnedLine>&&) {}
  // Takes over the answer to another call of the same type. May throw std::bad_alloc.
  virtual void CopyAnswer(const OrderCall& other) { status = other.status; }
  // Of the asynchronous form, `self`: passes the answer to the caller's executor, or invokes the callback here if that
  // throws std::bad_alloc.
  virtual void Deliver(const std::shared_ptr<OrderCall>&) {}

  Kind kind;                          // Of a Find() it means nothing.
  const FindRequest* find = nullptr;  // It is one.
  // Of a request, and of a Return(), which has no buyer. `lines` of a basket, and of a Return(), are there once it was
  // checked: each SKU once, ascending.
  const std::string* request_id = nullptr;
  const std::string* buyer = nullptr;
  absl::Duration ttl = absl::InfiniteDuration();
  std::span<const OrderLine> basket = {};
  absl::InlinedVector<RequestLine, 1> lines = {};
  OrderId id = 0;  // Of the order that is to change.

  // The answer, with what Make() has made.
  absl::Status status = absl::OkStatus();
  absl::Time expires_at = absl::InfiniteFuture();  // kExtend: when the order expires from now on.

  // What the core that was asked notes. LocalCore: the answer, which may be a refusal, is valid once the record at
  // `position` is durable.
  InventoryCore* core = nullptr;
  uint64_t position = 0;
  Refusal refusal = Refusal::kNone;  // Of the answer, if it is known without a look at its status.
  bool timed = false;                // For stockade_inventory_reserve_seconds, since `start`.
  Instant start = {};
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_ORDER_CALL_H_

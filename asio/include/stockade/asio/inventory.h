#ifndef STOCKADE_ASIO_INVENTORY_H_
#define STOCKADE_ASIO_INVENTORY_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/asio/calls.h"
#include "stockade/base/coroutine.h"
#include "stockade/inventory/coroutine.h"
#include "stockade/inventory/inventory.h"

namespace stockade {
inline namespace STOCKADE_ASIO_FLAVOR {
namespace asio_internal {

using inventory_internal::kOrderUnknown;
using inventory_internal::kRequestUnknown;
inline constexpr AwaitedCall kAsyncReserve = {.name = "AsyncReserve()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kAsyncReserveBasket = {.name = "AsyncReserveBasket()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kAsyncTake = {.name = "AsyncTake()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kAsyncCommit = {.name = "AsyncCommit()", .unknown = kOrderUnknown};
inline constexpr AwaitedCall kAsyncCancel = {.name = "AsyncCancel()", .unknown = kOrderUnknown};
inline constexpr AwaitedCall kAsyncExtend = {.name = "AsyncExtend()", .unknown = kOrderUnknown};
inline constexpr AwaitedCall kAsyncReturn = {.name = "AsyncReturn()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kAsyncFind = {.name = "AsyncFind()", .unknown = ""};

}  // namespace asio_internal

// An inventory whose calls on orders take a completion token of Asio:
//
//   const AsioInventory shop(io.get_executor(), inventory);
//   const ReserveRequest order = {.sku = "shoe", .request_id = request.id, .ttl = absl::Minutes(10)};
//   const absl::StatusOr<Reservation> held = co_await shop.AsyncReserve(order, use_awaitable);
//
// The calls return what the blocking calls return. In addition, at once:
//   Cancelled  the cancellation slot of the handler was signalled with cancellation_type::terminal, as awaitables and
//              their operator || do. Other types are ignored.
// A request that was sent cannot be called back, so the outcome is unknown, which the text says. Send the same request
// again: its request id, or the order's id, makes that safe. If nobody does, a reservation ends with its TTL. The same
// applies if the handler is destroyed while the call waits. AsyncFind() changes nothing, so its text names no outcome.
//
// A call blocks its thread at the beginning as ...Async() does: if the ledger's queue is full, until it is not.
//
// g++ 12 destroys an aggregate twice that is made within a co_await expression, so a request needs a name of its own:
// temporaries do not compile.
//
// A copy uses the same inventory. Thread-safe. The inventory, and the context of the executor, must exist when a call
// is made. calls.h says when handlers run.
class AsioInventory {
 public:
  // As in Asio's own objects.
  using executor_type = asio_internal::net::any_io_executor;

  // `executor` runs the handlers that have none of their own. Throws bad_executor if it is empty.
  AsioInventory(executor_type executor, Inventory& inventory) : context_(std::move(executor)), inventory_(&inventory) {}
  // That of the constructor.
  executor_type get_executor() const noexcept { return context_.executor; }

  // Inventory::ReserveAsync(), with the completion signature void(absl::StatusOr<Reservation>).
  template <typename Token>
  auto AsyncReserve(const ReserveRequest& request, Token&& token) const {
    return Begin<asio_internal::kAsyncReserve, &Inventory::ReserveAsync, absl::StatusOr<Reservation>>(
        request, std::forward<Token>(token));
  }
  template <typename Token>
  void AsyncReserve(const ReserveRequest&& request, Token&& token) const = delete;

  // Inventory::ReserveBasketAsync(), with the completion signature void(absl::StatusOr<BasketReservation>).
  template <typename Token>
  auto AsyncReserveBasket(const BasketRequest& request, Token&& token) const {
    return Begin<asio_internal::kAsyncReserveBasket, &Inventory::ReserveBasketAsync, absl::StatusOr<BasketReservation>>(
        request, std::forward<Token>(token));
  }
  template <typename Token>
  void AsyncReserveBasket(const BasketRequest&& request, Token&& token) const = delete;

  // Inventory::TakeAsync(), with the completion signature void(absl::StatusOr<Order>).
  template <typename Token>
  auto AsyncTake(const TakeRequest& request, Token&& token) const {
    return Begin<asio_internal::kAsyncTake, &Inventory::TakeAsync, absl::StatusOr<Order>>(request,
                                                                                          std::forward<Token>(token));
  }
  template <typename Token>
  void AsyncTake(const TakeRequest&& request, Token&& token) const = delete;

  // Inventory::CommitAsync(), with the completion signature void(absl::Status).
  template <typename Token>
  auto AsyncCommit(OrderId id, Token&& token) const {
    return Begin<asio_internal::kAsyncCommit, &Inventory::CommitAsync, absl::Status>(id, std::forward<Token>(token));
  }

  // Inventory::CancelAsync(), with the completion signature void(absl::Status).
  template <typename Token>
  auto AsyncCancel(OrderId id, Token&& token) const {
    return Begin<asio_internal::kAsyncCancel, &Inventory::CancelAsync, absl::Status>(id, std::forward<Token>(token));
  }

  // Inventory::ExtendAsync(), with the completion signature void(absl::StatusOr<absl::Time>).
  template <typename Token>
  auto AsyncExtend(const ExtendRequest& request, Token&& token) const {
    return Begin<asio_internal::kAsyncExtend, &Inventory::ExtendAsync, absl::StatusOr<absl::Time>>(
        request, std::forward<Token>(token));
  }

  // Inventory::ReturnAsync(), with the completion signature void(absl::StatusOr<std::vector<ReturnedLine>>).
  template <typename Token>
  auto AsyncReturn(const ReturnRequest& request, Token&& token) const {
    return Begin<asio_internal::kAsyncReturn, &Inventory::ReturnAsync, absl::StatusOr<std::vector<ReturnedLine>>>(
        request, std::forward<Token>(token));
  }
  template <typename Token>
  void AsyncReturn(const ReturnRequest&& request, Token&& token) const = delete;

  // Inventory::FindAsync(), with the completion signature void(absl::StatusOr<OrderInfo>).
  template <typename Token>
  auto AsyncFind(const FindRequest& request, Token&& token) const {
    return Begin<asio_internal::kAsyncFind, &Inventory::FindAsync, absl::StatusOr<OrderInfo>>(
        request, std::forward<Token>(token));
  }
  template <typename Token>
  void AsyncFind(const FindRequest&& request, Token&& token) const = delete;

 private:
  template <const base_internal::AwaitedCall& kCall, auto kMethod, typename Result, typename Request, typename Token>
  auto Begin(const Request& request, Token&& token) const {
    using Start = inventory_internal::OrderStart<Result, Request, kMethod, kCall>;
    return asio_internal::BeginCall<asio_internal::CancelledBy::kTerminal>(context_, Start(*inventory_, request),
                                                                           std::forward<Token>(token));
  }

  asio_internal::AsioContext context_;
  Inventory* inventory_;
};

}  // namespace STOCKADE_ASIO_FLAVOR
}  // namespace stockade

#endif  // STOCKADE_ASIO_INVENTORY_H_

#ifndef STOCKADE_INVENTORY_COROUTINE_H_
#define STOCKADE_INVENTORY_COROUTINE_H_

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/coroutine.h"
#include "stockade/inventory/inventory.h"

// Orders for coroutines:
//
//   const ReserveRequest order = {.sku = "shoe", .request_id = request.id, .ttl = absl::Minutes(10)};
//   const absl::StatusOr<Reservation> held = co_await ReserveAwait(shop, order, on);
//
// These are Inventory's calls ...Async() for co_await, and return what the blocking calls return. A call begins when it
// is awaited; the inventory must exist until then. In addition to the statuses of the blocking call, at once:
//   Cancelled         on.stop was requested.
//   DeadlineExceeded  on.deadline passed.
// Then the text says "nothing has changed" if the call had not begun. Otherwise "the outcome is unknown": what was sent
// cannot be called back. Send the same request again: its request id, or the order's id, makes that safe. If nobody
// does, a reservation ends with its TTL. The same applies if the coroutine is destroyed while it waits. FindAwait()
// changes nothing, and its text says neither.
//
// A call blocks its coroutine's thread at the beginning as ...Async() does: if the ledger's queue is full, until it is
// not, and neither on.stop nor on.deadline ends that.
//
// g++ 12 destroys an aggregate twice that is made within a co_await expression, so a request needs a name of its own:
// temporaries do not compile.
namespace stockade {
namespace inventory_internal {

// `Method`: a call ...Async() of Inventory.
template <typename ResultT, typename Request, auto Method, const AwaitedCall& Call>
class OrderStart {
 public:
  using Result = ResultT;
  static constexpr AwaitedCall kCall = Call;

  OrderStart(Inventory& shop, Request request) : shop_(&shop), request_(std::move(request)) {}

  template <typename Answer>
  void Begin(const std::stop_token&, Answer answer) && {
    (shop_->*Method)(request_, CallbackExecutor(), std::move(answer), InventoryCallOptions());
  }

 private:
  Inventory* shop_;
  Request request_;
};

inline constexpr std::string_view kRequestUnknown = "the outcome is unknown; send the same request id again";
inline constexpr std::string_view kOrderUnknown = "the outcome is unknown; send it again";
inline constexpr AwaitedCall kReserveAwait = {.name = "ReserveAwait()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kReserveBasketAwait = {.name = "ReserveBasketAwait()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kTakeAwait = {.name = "TakeAwait()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kCommitAwait = {.name = "CommitAwait()", .unknown = kOrderUnknown};
inline constexpr AwaitedCall kCancelAwait = {.name = "CancelAwait()", .unknown = kOrderUnknown};
inline constexpr AwaitedCall kExtendAwait = {.name = "ExtendAwait()", .unknown = kOrderUnknown};
inline constexpr AwaitedCall kReturnAwait = {.name = "ReturnAwait()", .unknown = kRequestUnknown};
inline constexpr AwaitedCall kFindAwait = {.name = "FindAwait()", .unknown = ""};

using ReserveStart = OrderStart<absl::StatusOr<Reservation>, ReserveRequest, &Inventory::ReserveAsync, kReserveAwait>;
using ReserveBasketStart =
    OrderStart<absl::StatusOr<BasketReservation>, BasketRequest, &Inventory::ReserveBasketAsync, kReserveBasketAwait>;
using TakeStart = OrderStart<absl::StatusOr<Order>, TakeRequest, &Inventory::TakeAsync, kTakeAwait>;
using CommitStart = OrderStart<absl::Status, OrderId, &Inventory::CommitAsync, kCommitAwait>;
using CancelStart = OrderStart<absl::Status, OrderId, &Inventory::CancelAsync, kCancelAwait>;
using ExtendStart = OrderStart<absl::StatusOr<absl::Time>, ExtendRequest, &Inventory::ExtendAsync, kExtendAwait>;
using ReturnStart =
    OrderStart<absl::StatusOr<std::vector<ReturnedLine>>, ReturnRequest, &Inventory::ReturnAsync, kReturnAwait>;
using FindStart = OrderStart<absl::StatusOr<OrderInfo>, FindRequest, &Inventory::FindAsync, kFindAwait>;

}  // namespace inventory_internal

// Inventory::ReserveAsync() for co_await, which returns absl::StatusOr<Reservation>.
inline base_internal::LazyAwaiter<inventory_internal::ReserveStart> ReserveAwait(Inventory& shop,
                                                                                 const ReserveRequest& request,
                                                                                 const AwaitOn& on) {
  return {inventory_internal::ReserveStart(shop, request), on};
}
void ReserveAwait(Inventory& shop, const ReserveRequest&& request, const AwaitOn& on) = delete;

// Inventory::ReserveBasketAsync() for co_await, which returns absl::StatusOr<BasketReservation>.
inline base_internal::LazyAwaiter<inventory_internal::ReserveBasketStart> ReserveBasketAwait(
    Inventory& shop, const BasketRequest& request, const AwaitOn& on) {
  return {inventory_internal::ReserveBasketStart(shop, request), on};
}
void ReserveBasketAwait(Inventory& shop, const BasketRequest&& request, const AwaitOn& on) = delete;

// Inventory::TakeAsync() for co_await, which returns absl::StatusOr<Order>.
inline base_internal::LazyAwaiter<inventory_internal::TakeStart> TakeAwait(Inventory& shop, const TakeRequest& request,
                                                                           const AwaitOn& on) {
  return {inventory_internal::TakeStart(shop, request), on};
}
void TakeAwait(Inventory& shop, const TakeRequest&& request, const AwaitOn& on) = delete;

// Inventory::CommitAsync() for co_await, which returns absl::Status.
inline base_internal::LazyAwaiter<inventory_internal::CommitStart> CommitAwait(Inventory& shop, OrderId id,
                                                                               const AwaitOn& on) {
  return {inventory_internal::CommitStart(shop, id), on};
}

// Inventory::CancelAsync() for co_await, which returns absl::Status.
inline base_internal::LazyAwaiter<inventory_internal::CancelStart> CancelAwait(Inventory& shop, OrderId id,
                                                                               const AwaitOn& on) {
  return {inventory_internal::CancelStart(shop, id), on};
}

// Inventory::ExtendAsync() for co_await, which returns absl::StatusOr<absl::Time>.
inline base_internal::LazyAwaiter<inventory_internal::ExtendStart> ExtendAwait(Inventory& shop,
                                                                               const ExtendRequest& request,
                                                                               const AwaitOn& on) {
  return {inventory_internal::ExtendStart(shop, request), on};
}

// Inventory::ReturnAsync() for co_await, which returns absl::StatusOr<std::vector<ReturnedLine>>.
inline base_internal::LazyAwaiter<inventory_internal::ReturnStart> ReturnAwait(Inventory& shop,
                                                                               const ReturnRequest& request,
                                                                               const AwaitOn& on) {
  return {inventory_internal::ReturnStart(shop, request), on};
}
void ReturnAwait(Inventory& shop, const ReturnRequest&& request, const AwaitOn& on) = delete;

// Inventory::FindAsync() for co_await, which returns absl::StatusOr<OrderInfo>.
inline base_internal::LazyAwaiter<inventory_internal::FindStart> FindAwait(Inventory& shop, const FindRequest& request,
                                                                           const AwaitOn& on) {
  return {inventory_internal::FindStart(shop, request), on};
}
void FindAwait(Inventory& shop, const FindRequest&& request, const AwaitOn& on) = delete;

}  // namespace stockade

#endif  // STOCKADE_INVENTORY_COROUTINE_H_

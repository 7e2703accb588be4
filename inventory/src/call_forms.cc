// The calls that wait for the ledger, each in its forms. LocalCore does what is asked for; the form waits, and answers.

#include <utility>

#include "local_core.h"

namespace stockade::inventory_internal {
namespace {

// `state`: the record's own may change at any time.
Order OrderOf(const OrderRecord& record, OrderState state) {
  return Order(record.id, record.lines[0].item->sku, record.lines[0].quantity, record.request_id, record.buyer, state);
}

void Make(const OrderRecord& record, OrderState state, absl::StatusOr<Order>& to) { to = OrderOf(record, state); }

void Make(const OrderRecord& record, OrderState state, absl::StatusOr<Reservation>& to) {
  to.emplace(OrderOf(record, state), record.expires_at);
}

void Make(const OrderRecord& record, OrderState state, absl::StatusOr<BasketReservation>& to) {
  to.emplace(record.id, inventory_internal::LinesOf(record), record.request_id, record.buyer, record.expires_at, state);
}

template <class Answer>
absl::StatusOr<Answer> AnswerOf(absl::StatusOr<std::shared_ptr<const OrderRecord>> order, OrderState state) {
  if (!order.ok()) return std::move(order).status();
  absl::StatusOr<Answer> answer;
  Make(**order, state, answer);
  return answer;
}

// A call's own answer: of a grant `Answer`, of what settles an order its status.
template <class Result, class Asked>
Result Answered(LocalCore& core, Asked asked, const absl::Status& durable) {
  if constexpr (std::is_same_v<Result, absl::Status>) {
    return core.Finish(std::move(asked), durable);
  } else {
    const OrderState state = asked.state;
    return AnswerOf<typename Result::value_type>(core.Finish(std::move(asked), durable), state);
  }
}

template <class Result, class Asked>
Result Wait(LocalCore& core, Asked asked) {
  const absl::Status durable = core.AwaitDurable(asked.position);
  return Answered<Result>(core, std::move(asked), durable);
}

template <class Result, class Asked>
void Notify(LocalCore& core, Asked asked, Executor& executor, absl::AnyInvocable<void(Result)> done) {
  const uint64_t position = asked.position;
  core.WhenDurable(position, [&core, asked = std::move(asked), &executor,
                              done = std::move(done)](const absl::Status& durable) mutable {
    executor.Schedule([result = Answered<Result>(core, std::move(asked), durable), done = std::move(done)]() mutable {
      done(std::move(result));
    });
  });
}

// Asks all before it waits for any.
template <class Result, class Request, class Ask>
std::vector<Result> WaitForAll(LocalCore& core, std::span<const Request> requests, Ask ask) {
  std::vector<decltype(ask(requests[0]))> asked;
  asked.reserve(requests.size());
  for (const Request& request : requests) asked.push_back(ask(request));
  std::vector<Result> results;
  results.reserve(requests.size());
  for (auto& one : asked) results.push_back(Wait<Result>(core, std::move(one)));
  return results;
}

}  // namespace

absl::StatusOr<Reservation> LocalCore::Reserve(const ReserveRequest& request) {
  return Wait<absl::StatusOr<Reservation>>(*this, Grant(request));
}

void LocalCore::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) {
  Notify(*this, Grant(request), executor, std::move(done));
}

std::vector<absl::StatusOr<Reservation>> LocalCore::ReserveMany(std::span<const ReserveRequest> requests) {
  return WaitForAll<absl::StatusOr<Reservation>>(*this, requests,
                                                 [&](const ReserveRequest& request) { return Grant(request); });
}

absl::StatusOr<BasketReservation> LocalCore::ReserveBasket(const BasketRequest& request) {
  return Wait<absl::StatusOr<BasketReservation>>(*this, Grant(request));
}

void LocalCore::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) {
  Notify(*this, Grant(request), executor, std::move(done));
}

absl::StatusOr<Order> LocalCore::Take(const TakeRequest& request) {
  return Wait<absl::StatusOr<Order>>(*this, Grant(request));
}

void LocalCore::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done) {
  Notify(*this, Grant(request), executor, std::move(done));
}

std::vector<absl::StatusOr<Order>> LocalCore::TakeMany(std::span<const TakeRequest> requests) {
  return WaitForAll<absl::StatusOr<Order>>(*this, requests, [&](const TakeRequest& request) { return Grant(request); });
}

absl::Status LocalCore::Commit(OrderId id) { return Wait<absl::Status>(*this, EndOrder(id, false)); }

void LocalCore::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  Notify(*this, EndOrder(id, false), executor, std::move(done));
}

std::vector<absl::Status> LocalCore::CommitMany(std::span<const OrderId> ids) {
  return WaitForAll<absl::Status>(*this, ids, [&](OrderId id) { return EndOrder(id, false); });
}

absl::Status LocalCore::Cancel(OrderId id) { return Wait<absl::Status>(*this, EndOrder(id, true)); }

void LocalCore::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  Notify(*this, EndOrder(id, true), executor, std::move(done));
}

std::vector<absl::Status> LocalCore::CancelMany(std::span<const OrderId> ids) {
  return WaitForAll<absl::Status>(*this, ids, [&](OrderId id) { return EndOrder(id, true); });
}

}  // namespace stockade::inventory_internal

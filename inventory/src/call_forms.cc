// The calls that wait for the ledger, each in its forms. Core does what is asked for; the form waits, and answers.

#include <utility>

#include "core.h"

namespace stockade {
namespace {

using inventory_internal::OrderRecord;

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
template <class Result, class Core, class Asked>
Result Answered(Core& core, Asked asked, const absl::Status& durable) {
  if constexpr (std::is_same_v<Result, absl::Status>) {
    return core.Finish(std::move(asked), durable);
  } else {
    const OrderState state = asked.state;
    return AnswerOf<typename Result::value_type>(core.Finish(std::move(asked), durable), state);
  }
}

template <class Result, class Core, class Asked>
Result Wait(Core& core, Asked asked) {
  const absl::Status durable = core.AwaitDurable(asked.position);
  return Answered<Result>(core, std::move(asked), durable);
}

template <class Result, class Core, class Asked>
void Notify(Core& core, Asked asked, Executor& executor, absl::AnyInvocable<void(Result)> done) {
  const uint64_t position = asked.position;
  core.WhenDurable(position, [&core, asked = std::move(asked), &executor,
                              done = std::move(done)](const absl::Status& durable) mutable {
    executor.Schedule([result = Answered<Result>(core, std::move(asked), durable), done = std::move(done)]() mutable {
      done(std::move(result));
    });
  });
}

// Asks all before it waits for any.
template <class Result, class Core, class Request, class Ask>
std::vector<Result> WaitForAll(Core& core, std::span<const Request> requests, Ask ask) {
  std::vector<decltype(ask(requests[0]))> asked;
  asked.reserve(requests.size());
  for (const Request& request : requests) asked.push_back(ask(request));
  std::vector<Result> results;
  results.reserve(requests.size());
  for (auto& one : asked) results.push_back(Wait<Result>(core, std::move(one)));
  return results;
}

}  // namespace

absl::StatusOr<Reservation> Inventory::Reserve(const ReserveRequest& request) {
  core_->CheckNotForked();
  return Wait<absl::StatusOr<Reservation>>(*core_, core_->Grant(request));
}

void Inventory::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) {
  core_->CheckNotForked();
  Notify(*core_, core_->Grant(request), executor, std::move(done));
}

std::vector<absl::StatusOr<Reservation>> Inventory::ReserveMany(std::span<const ReserveRequest> requests) {
  core_->CheckNotForked();
  return WaitForAll<absl::StatusOr<Reservation>>(*core_, requests,
                                                 [&](const ReserveRequest& request) { return core_->Grant(request); });
}

absl::StatusOr<BasketReservation> Inventory::ReserveBasket(const BasketRequest& request) {
  core_->CheckNotForked();
  return Wait<absl::StatusOr<BasketReservation>>(*core_, core_->Grant(request));
}

void Inventory::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) {
  core_->CheckNotForked();
  Notify(*core_, core_->Grant(request), executor, std::move(done));
}

absl::StatusOr<Order> Inventory::Take(const TakeRequest& request) {
  core_->CheckNotForked();
  return Wait<absl::StatusOr<Order>>(*core_, core_->Grant(request));
}

void Inventory::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done) {
  core_->CheckNotForked();
  Notify(*core_, core_->Grant(request), executor, std::move(done));
}

std::vector<absl::StatusOr<Order>> Inventory::TakeMany(std::span<const TakeRequest> requests) {
  core_->CheckNotForked();
  return WaitForAll<absl::StatusOr<Order>>(*core_, requests,
                                           [&](const TakeRequest& request) { return core_->Grant(request); });
}

absl::Status Inventory::Commit(OrderId id) {
  core_->CheckNotForked();
  return Wait<absl::Status>(*core_, core_->Commit(id));
}

void Inventory::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  core_->CheckNotForked();
  Notify(*core_, core_->Commit(id), executor, std::move(done));
}

std::vector<absl::Status> Inventory::CommitMany(std::span<const OrderId> ids) {
  core_->CheckNotForked();
  return WaitForAll<absl::Status>(*core_, ids, [&](OrderId id) { return core_->Commit(id); });
}

absl::Status Inventory::Cancel(OrderId id) {
  core_->CheckNotForked();
  return Wait<absl::Status>(*core_, core_->Cancel(id));
}

void Inventory::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  core_->CheckNotForked();
  Notify(*core_, core_->Cancel(id), executor, std::move(done));
}

std::vector<absl::Status> Inventory::CancelMany(std::span<const OrderId> ids) {
  core_->CheckNotForked();
  return WaitForAll<absl::Status>(*core_, ids, [&](OrderId id) { return core_->Cancel(id); });
}

}  // namespace stockade

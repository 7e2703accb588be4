// The calls that wait for the ledger, each in its forms. LocalCore does what is asked for; the form waits, and answers.

#include <memory>
#include <new>
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
  to.emplace(record.id, LinesOf<std::vector<OrderLine>>(record), record.request_id, record.buyer, record.expires_at,
             state);
}

// What a call has done before it waits. `Result` is the call's own: of a grant the answer, of the end of an order its
// status.
template <class Result>
struct Asked {
  Result result;
  LocalCore::GrantNotes notes = {};
};

template <class Answer, class Request>
Asked<absl::StatusOr<Answer>> AskFor(LocalCore& core, const Request& request) {
  Asked<absl::StatusOr<Answer>> asked;
  const auto answer = [&](const OrderRecord& record, OrderState state) { Make(record, state, asked.result); };
  try {
    absl::Status granted = core.Grant(request, answer, asked.notes);
    if (!granted.ok()) asked.result = std::move(granted);
  } catch (const std::bad_alloc&) {
    asked = {.result = core.NoMemory()};
  }
  return asked;
}

Asked<absl::Status> AskToEnd(LocalCore& core, OrderId id, bool gives_back) {
  try {
    LocalCore::PendingStatus ended = core.EndOrder(id, gives_back);
    return {.result = std::move(ended.status), .notes = {.position = ended.position}};
  } catch (const std::bad_alloc&) {
    return {.result = core.NoMemory()};
  }
}

template <class Result>
Result Answered(LocalCore& core, Asked<Result>&& asked, const absl::Status& durable) {
  if (absl::Status known = core.Outcome(asked.notes.position, durable); !known.ok()) {
    asked.result = std::move(known);
    asked.notes.refusal = Refusal::kNone;
  }
  if constexpr (!std::is_same_v<Result, absl::Status>) core.CountAnswer(asked.result.status(), asked.notes);
  return std::move(asked.result);
}

template <class Result>
Result Wait(LocalCore& core, Asked<Result>&& asked) {
  const absl::Status durable = core.AwaitDurable(asked.notes.position);
  return Answered(core, std::move(asked), durable);
}

// A callback and its answer. It is allocated before the call changes anything, and what refers to it fits into an
// AnyInvocable, so nothing is allocated here later.
template <class Result>
struct Callback {
  Callback(LocalCore& asked_core, Executor& on) : core(asked_core), executor(on) {}

  LocalCore& core;
  Executor& executor;
  absl::AnyInvocable<void(Result)> done;
  Asked<Result> asked;
  bool is_answered = false;

  void Answer(const absl::Status& durable) {
    Result answer = Answered(core, std::move(asked), durable);
    asked.result = std::move(answer);
    is_answered = true;
  }
  void Invoke() { std::move(done)(std::move(asked.result)); }
};

template <class Result, class Ask>
void Notify(LocalCore& core, Ask ask, Executor& executor, absl::AnyInvocable<void(Result)> done) {
  std::shared_ptr<Callback<Result>> callback;
  try {
    callback = std::make_shared<Callback<Result>>(core, executor);
  } catch (const std::bad_alloc&) {
    return std::move(done)(Answered<Result>(core, {.result = core.NoMemory()}, absl::OkStatus()));
  }
  callback->done = std::move(done);
  callback->asked = ask();
  try {
    core.WhenDurable(callback->asked.notes.position, [callback](const absl::Status& durable) {
      callback->Answer(durable);
      callback->executor.Schedule([callback] { callback->Invoke(); });
    });
  } catch (const std::bad_alloc&) {
    // The ledger, or the executor, has no memory for it.
    if (!callback->is_answered) callback->Answer(core.NoMemoryInDoubt());
    callback->Invoke();
  }
}

// Asks all before it waits for any. Without memory for the answers it asks none.
template <class Result, class Request, class Ask>
std::vector<Result> WaitForAll(LocalCore& core, std::span<const Request> requests, Ask ask) {
  std::vector<Asked<Result>> asked;
  std::vector<Result> results;
  asked.reserve(requests.size());
  results.reserve(requests.size());
  for (const Request& request : requests) asked.push_back(ask(request));
  for (Asked<Result>& one : asked) results.push_back(Wait(core, std::move(one)));
  return results;
}

}  // namespace

absl::StatusOr<Reservation> LocalCore::Reserve(const ReserveRequest& request) {
  return Wait(*this, AskFor<Reservation>(*this, request));
}

void LocalCore::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) {
  Notify(
      *this, [&] { return AskFor<Reservation>(*this, request); }, executor, std::move(done));
}

std::vector<absl::StatusOr<Reservation>> LocalCore::ReserveMany(std::span<const ReserveRequest> requests) {
  return WaitForAll<absl::StatusOr<Reservation>>(
      *this, requests, [&](const ReserveRequest& request) { return AskFor<Reservation>(*this, request); });
}

absl::StatusOr<BasketReservation> LocalCore::ReserveBasket(const BasketRequest& request) {
  return Wait(*this, AskFor<BasketReservation>(*this, request));
}

void LocalCore::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) {
  Notify(
      *this, [&] { return AskFor<BasketReservation>(*this, request); }, executor, std::move(done));
}

absl::StatusOr<Order> LocalCore::Take(const TakeRequest& request) { return Wait(*this, AskFor<Order>(*this, request)); }

void LocalCore::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done) {
  Notify(
      *this, [&] { return AskFor<Order>(*this, request); }, executor, std::move(done));
}

std::vector<absl::StatusOr<Order>> LocalCore::TakeMany(std::span<const TakeRequest> requests) {
  return WaitForAll<absl::StatusOr<Order>>(*this, requests,
                                           [&](const TakeRequest& request) { return AskFor<Order>(*this, request); });
}

absl::Status LocalCore::Commit(OrderId id) { return Wait(*this, AskToEnd(*this, id, false)); }

void LocalCore::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  Notify(
      *this, [&] { return AskToEnd(*this, id, false); }, executor, std::move(done));
}

std::vector<absl::Status> LocalCore::CommitMany(std::span<const OrderId> ids) {
  return WaitForAll<absl::Status>(*this, ids, [&](OrderId id) { return AskToEnd(*this, id, false); });
}

absl::Status LocalCore::Cancel(OrderId id) { return Wait(*this, AskToEnd(*this, id, true)); }

void LocalCore::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  Notify(
      *this, [&] { return AskToEnd(*this, id, true); }, executor, std::move(done));
}

std::vector<absl::Status> LocalCore::CancelMany(std::span<const OrderId> ids) {
  return WaitForAll<absl::Status>(*this, ids, [&](OrderId id) { return AskToEnd(*this, id, true); });
}

}  // namespace stockade::inventory_internal

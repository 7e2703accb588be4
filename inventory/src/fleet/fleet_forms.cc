// The calls on orders, each in its forms.

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "fleet_core.h"
#include "request_fingerprint.h"

namespace stockade::inventory_internal {
namespace {

using base_internal::MutexLock;

Order OrderOf(const FleetGrantCall& call, const FleetGrant& grant) {
  return Order(grant.id, call.lines[0].sku, call.lines[0].quantity, call.request_id, call.buyer, grant.state);
}

void Make(const FleetGrantCall& call, const FleetGrant& grant, absl::StatusOr<Order>& to) { to = OrderOf(call, grant); }

void Make(const FleetGrantCall& call, const FleetGrant& grant, absl::StatusOr<Reservation>& to) {
  to.emplace(OrderOf(call, grant), grant.expires_at);
}

void Make(const FleetGrantCall& call, const FleetGrant& grant, absl::StatusOr<BasketReservation>& to) {
  to.emplace(grant.id, call.lines, call.request_id, call.buyer, grant.expires_at, grant.state);
}

// Of two requests of one id.
bool IsRepeat(const TakeRequest& one, const TakeRequest& other) {
  return one.sku == other.sku && one.quantity == other.quantity && one.buyer == other.buyer;
}

bool IsRepeat(const ReserveRequest& one, const ReserveRequest& other) {
  return one.sku == other.sku && one.quantity == other.quantity && one.buyer == other.buyer && one.ttl == other.ttl;
}

// Results of calls that are answered by other threads. Only the constructor allocates: a call that has been asked must
// not fail for want of memory.
template <typename Result>
class Results {
 public:
  explicit Results(size_t count) : results_(count), missing_(count) { all_.reserve(count); }

  auto Slot(size_t index) {
    return [this, index](Result result) {
      const MutexLock lock(mutex_);
      results_[index] = std::move(result);
      if (--missing_ == 0) complete_.NotifyAll();
    };
  }
  std::vector<Result> Wait() {
    const MutexLock lock(mutex_);
    while (missing_ > 0) complete_.Wait(mutex_);
    for (std::optional<Result>& result : results_) all_.push_back(*std::move(result));
    return std::move(all_);
  }

 private:
  base_internal::Mutex mutex_;
  base_internal::CondVar complete_;
  std::vector<std::optional<Result>> results_ STOCKADE_GUARDED_BY(mutex_);
  size_t missing_ STOCKADE_GUARDED_BY(mutex_);
  std::vector<Result> all_ STOCKADE_GUARDED_BY(mutex_);
};

// A callback, and its answer once there is one. It is allocated before the call is asked, and what refers to it fits
// into an AnyInvocable.
template <typename Result>
struct Callback {
  Callback(Executor& by, Executor& on) : notifier(by), executor(on) {}

  Executor& notifier;
  Executor& executor;
  absl::AnyInvocable<void(Result)> done;
  std::optional<Result> answer;

  void Invoke() { std::move(done)(*std::move(answer)); }
};

// `ask(answer)` lets `answer` be called once, or throws std::bad_alloc before that. In the latter case, or if there is
// no memory to pass an answer on from the calling thread, `done` is invoked during the call.
template <typename Result, typename Ask>
void Notify(Executor& notifier, Executor& executor, absl::AnyInvocable<void(Result)> done,
            const absl::Status& no_memory, const Ask& ask) {
  std::shared_ptr<Callback<Result>> callback;
  try {
    callback = std::make_shared<Callback<Result>>(notifier, executor);
  } catch (const std::bad_alloc&) {
    return std::move(done)(no_memory);
  }
  callback->done = std::move(done);
  try {
    ask([callback](Result result) {
      callback->answer = std::move(result);
      callback->notifier.Schedule([callback] { callback->executor.Schedule([callback] { callback->Invoke(); }); });
    });
  } catch (const std::bad_alloc&) {
    if (!callback->answer.has_value()) callback->answer = no_memory;
    callback->Invoke();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::NewCall(OrderKind kind, const std::string& request_id,
                                                                   const std::string& buyer,
                                                                   std::span<const RequestLine> lines,
                                                                   absl::Duration ttl) {
  if (std::optional<absl::Status> refused = RefuseByLease(request_id, buyer, lines); refused.has_value()) {
    return *std::move(refused);
  }
  auto call = std::make_unique<FleetGrantCall>();
  call->start = clock_.Now();
  call->kind = kind;
  for (const RequestLine& line : lines) {
    call->lines.push_back({.sku = std::string(line.sku), .quantity = line.quantity});
    call->skus.push_back(ledger_.keys.SkuId(line.sku));
  }
  call->request_id = request_id;
  call->buyer = buyer;
  call->ttl = ttl;
  call->request = ledger_.keys.RequestHash(request_id);
  call->buyer_hash = ledger_.keys.BuyerHash(buyer);
  if (ledger_.keys.imported.has_value()) {
    call->imported_fingerprint = RequestFingerprint(*ledger_.keys.imported)(request_id);
  }
  return call;
}

template <typename Request>
absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::CallOf(const Request& request) {
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> call = Checked(request);
  if (!call.ok()) metrics_.Add(RefusalMetric(RefusalOf(call.status())));
  return call;
}

absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::Checked(const ReserveRequest& request) {
  if (absl::Status valid = checks_.CheckNames(request.request_id, request.buyer); !valid.ok()) return valid;
  if (absl::Status valid = checks_.CheckLine(request.request_id, request.sku, request.quantity); !valid.ok())
    return valid;
  absl::Duration ttl = request.ttl;
  if (absl::Status valid = checks_.CheckTtl(request.request_id, ttl); !valid.ok()) return valid;
  const RequestLine line{.sku = request.sku, .quantity = request.quantity};
  return NewCall(OrderKind::kReserve, request.request_id, request.buyer, {&line, 1}, ttl);
}

absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::Checked(const TakeRequest& request) {
  if (absl::Status valid = checks_.CheckNames(request.request_id, request.buyer); !valid.ok()) return valid;
  if (absl::Status valid = checks_.CheckLine(request.request_id, request.sku, request.quantity); !valid.ok())
    return valid;
  const RequestLine line{.sku = request.sku, .quantity = request.quantity};
  return NewCall(OrderKind::kTake, request.request_id, request.buyer, {&line, 1}, absl::InfiniteDuration());
}

absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::Checked(const BasketRequest& request) {
  absl::StatusOr<std::vector<RequestLine>> lines = checks_.SumUp(request);
  if (!lines.ok()) return lines.status();
  absl::Duration ttl = request.ttl;
  if (absl::Status valid = checks_.CheckTtl(request.request_id, ttl); !valid.ok()) return valid;
  return NewCall(OrderKind::kBasket, request.request_id, request.buyer, *lines, ttl);
}

template <typename Response>
void FleetCore::Submit(std::unique_ptr<FleetGrantCall> call, absl::AnyInvocable<void(absl::StatusOr<Response>)> done) {
  call->done = [done = std::move(done)](const FleetGrantCall& of, absl::StatusOr<FleetGrant> grant) mutable {
    if (!grant.ok()) return done(std::move(grant).status());
    absl::StatusOr<Response> answer;
    Make(of, *grant, answer);
    done(std::move(answer));
  };
  Enqueue(&Queues::grants, std::move(call));
}

template <typename Response, typename Request>
void FleetCore::Ask(const Request& request, absl::AnyInvocable<void(absl::StatusOr<Response>)> done) {
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> call = CallOf(request);
  if (!call.ok()) return done(std::move(call).status());
  Submit<Response>(*std::move(call), std::move(done));
}

template <typename Response, typename Request>
absl::StatusOr<Response> FleetCore::AskOne(const Request& request) {
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> call = CallOf(request);
  if (!call.ok()) return std::move(call).status();
  Results<absl::StatusOr<Response>> results(1);
  Submit<Response>(*std::move(call), results.Slot(0));
  return std::move(results.Wait()[0]);
}

template <typename Response>
void FleetCore::CopyAnswer(const absl::StatusOr<Response>& answer, absl::StatusOr<Response>& to) {
  metrics_.Add(answer.ok() ? kRepeats : RefusalMetric(RefusalOf(answer.status())));
  try {
    to = answer;
  } catch (const std::bad_alloc&) {
    to = checks_.NoMemory();
  }
}

template <typename Response, typename Request>
std::vector<absl::StatusOr<Response>> FleetCore::AskAll(std::span<const Request> requests) {
  Results<absl::StatusOr<Response>> results(requests.size());
  // Of one id, each request waits for the one before. Otherwise another lane could refuse the second one for lack of
  // units, while the first one takes some.
  absl::flat_hash_map<std::string_view, size_t> last;
  std::vector<size_t> next(requests.size(), requests.size());
  std::vector<size_t> first;
  std::vector<std::pair<size_t, size_t>> repeats;  // They get the answers of earlier ones, which they repeat.
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto [place, is_first] = last.try_emplace(requests[i].request_id, i);
    if (is_first) {
      first.push_back(i);
    } else if (IsRepeat(requests[i], requests[place->second])) {
      repeats.emplace_back(i, place->second);
    } else {
      next[std::exchange(place->second, i)] = i;
    }
  }
  for (const auto& [repeat, of] : repeats) results.Slot(repeat)(absl::UnavailableError(""));
  // Asks request i and those of its id after it. Not by recursion, because many may be answered at once, by a lease.
  const std::function<void(size_t)> ask = [&](size_t i) {
    // After the last answer the variables outside are gone.
    const size_t end = requests.size();
    while (i != end) {
      const size_t following = next[i];
      try {
        // Of the answer and the return of Ask(), the later one goes on.
        auto is_later = std::make_shared<std::atomic<bool>>(false);
        Ask<Response>(requests[i], [&ask, following, end, is_later, slot = results.Slot(i)](auto answer) mutable {
          slot(std::move(answer));
          if (is_later->exchange(true) && following != end) ask(following);
        });
        if (!is_later->exchange(true)) return;
      } catch (const std::bad_alloc&) {
        results.Slot(i)(checks_.NoMemory());  // It was not asked.
      }
      i = following;
    }
  };
  for (const size_t i : first) ask(i);
  std::vector<absl::StatusOr<Response>> answers = results.Wait();
  for (const auto& [repeat, of] : repeats) CopyAnswer(answers[of], answers[repeat]);
  return answers;
}

void FleetCore::End(OrderId id, OrderState to, absl::AnyInvocable<void(absl::Status)> done) {
  auto call = std::make_unique<FleetEndCall>();
  call->start = clock_.Now();
  call->id = id;
  call->to = to;
  call->done = std::move(done);
  Enqueue(&Queues::ends, std::move(call));
}

std::vector<absl::Status> FleetCore::EndAll(std::span<const OrderId> ids, OrderState to) {
  Results<absl::Status> results(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    try {
      End(ids[i], to, results.Slot(i));
    } catch (const std::bad_alloc&) {
      results.Slot(i)(checks_.NoMemory());  // It was not asked.
    }
  }
  return results.Wait();
}

absl::StatusOr<Reservation> FleetCore::Reserve(const ReserveRequest& request) { return AskOne<Reservation>(request); }

void FleetCore::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done) {
  Notify<absl::StatusOr<Reservation>>(notifier_, executor, std::move(done), checks_.NoMemory(),
                                      [&](auto answer) { Ask<Reservation>(request, std::move(answer)); });
}

std::vector<absl::StatusOr<Reservation>> FleetCore::ReserveMany(std::span<const ReserveRequest> requests) {
  return AskAll<Reservation>(requests);
}

absl::StatusOr<BasketReservation> FleetCore::ReserveBasket(const BasketRequest& request) {
  return AskOne<BasketReservation>(request);
}

void FleetCore::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done) {
  Notify<absl::StatusOr<BasketReservation>>(notifier_, executor, std::move(done), checks_.NoMemory(),
                                            [&](auto answer) { Ask<BasketReservation>(request, std::move(answer)); });
}

absl::StatusOr<Order> FleetCore::Take(const TakeRequest& request) { return AskOne<Order>(request); }

void FleetCore::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done) {
  Notify<absl::StatusOr<Order>>(notifier_, executor, std::move(done), checks_.NoMemory(),
                                [&](auto answer) { Ask<Order>(request, std::move(answer)); });
}

std::vector<absl::StatusOr<Order>> FleetCore::TakeMany(std::span<const TakeRequest> requests) {
  return AskAll<Order>(requests);
}

absl::Status FleetCore::Commit(OrderId id) { return CommitMany({&id, 1})[0]; }

void FleetCore::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  Notify<absl::Status>(notifier_, executor, std::move(done), checks_.NoMemory(),
                       [&](auto answer) { End(id, OrderState::kSold, std::move(answer)); });
}

std::vector<absl::Status> FleetCore::CommitMany(std::span<const OrderId> ids) { return EndAll(ids, OrderState::kSold); }

absl::Status FleetCore::Cancel(OrderId id) { return CancelMany({&id, 1})[0]; }

void FleetCore::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done) {
  Notify<absl::Status>(notifier_, executor, std::move(done), checks_.NoMemory(),
                       [&](auto answer) { End(id, OrderState::kCancelled, std::move(answer)); });
}

std::vector<absl::Status> FleetCore::CancelMany(std::span<const OrderId> ids) {
  return EndAll(ids, OrderState::kCancelled);
}

}  // namespace stockade::inventory_internal

// The calls of an Inventory, those about orders in three forms. The core does what is asked for.

#include <atomic>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "inventory_core.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/base/unknown_outcome.h"
#include "stockade/locks/internal/thread_record.h"

namespace stockade {
namespace {

using base_internal::Concat;
using inventory_internal::Granted;
using inventory_internal::InventoryCore;
using inventory_internal::OrderCall;
using inventory_internal::ReadCall;
using inventory_internal::SkuCall;
using Kind = OrderCall::Kind;

// Runs a call of `core`. Here a lack of memory becomes an answer. What a core changes before its last allocation, it
// says itself.
template <typename Call>
auto Guarded(const InventoryCore& core, const Call& call) -> decltype(call()) {
  core.CheckNotForked();
  try {
    // No lock of the call allocates then. The process would end if one could not.
    locks_internal::ThreadRecord::Reserve(locks_internal::ThreadRecord::kUsualHolds);
    return call();
  } catch (const std::bad_alloc&) {
    if constexpr (std::is_constructible_v<decltype(call()), const absl::Status&>) {
      return core.NoMemory();
    } else {
      return {};  // There are no answers without memory.
    }
  }
}

// What stands where an answer will be. absl's own, of a StatusOr, is not inlined.
const absl::Status& Unanswered() {
  static const absl::Status& unanswered = *new absl::Status(absl::StatusCode::kUnknown, "");
  return unanswered;
}

// Each makes the answer in the place that the caller gets it from, and once: where there was one, emplace() would leave
// none if it threw.
void Fill(const Granted& granted, absl::StatusOr<Order>& to) {
  to.emplace(granted.id, granted.sku, granted.quantity, granted.request_id, granted.buyer, granted.state);
}

void Fill(const Granted& granted, absl::StatusOr<Reservation>& to) {
  to.emplace(granted.id, granted.sku, granted.quantity, granted.request_id, granted.buyer, granted.expires_at,
             granted.state);
}

void Fill(Granted&& granted, absl::StatusOr<BasketReservation>& to) {
  to.emplace(granted.id, std::move(granted.lines), granted.request_id, granted.buyer, granted.expires_at,
             granted.state);
}

// `Response`: absl::Status for the end of an order, absl::Time for an extension.
template <class Response>
struct Typed : OrderCall {
  static constexpr bool kIsEnd = std::is_same_v<Response, absl::Status>;
  using Result = std::conditional_t<kIsEnd, absl::Status, absl::StatusOr<Response>>;
  static constexpr bool kIsGrant = requires(Granted granted, Result& to) { Fill(std::move(granted), to); };

  template <class... Args>
  explicit Typed(Result& into, const Args&... args) : OrderCall(args...), answer(into) {}

  void Make(Granted&& granted) override {
    if constexpr (kIsGrant) Fill(std::move(granted), answer);
  }
  void Make(OrderInfo&& found) override {
    if constexpr (std::is_same_v<Response, OrderInfo>) answer = std::move(found);
  }
  void Make(std::vector<ReturnedLine>&& returned) override {
    if constexpr (std::is_same_v<Response, std::vector<ReturnedLine>>) answer = std::move(returned);
  }
  void CopyAnswer(const OrderCall& other) override {
    answer = static_cast<const Typed&>(other).answer;
    status = other.status;
  }
  // Once there is an answer.
  void Finish() {
    if constexpr (std::is_same_v<Response, absl::Time>) {
      if (status.ok()) answer = expires_at;
    }
    if (kIsEnd || !status.ok()) answer = std::move(status);
  }

  Result& answer;
};

// The place of the answer, for a call that outlives its caller.
template <class Response>
struct Kept {
  typename Typed<Response>::Result result;
};

// With its callback. It is allocated before it is asked for. The core, the time-out and the stop may answer it; the
// first answer counts.
template <class Response>
struct Notified final : Kept<Response>, Typed<Response> {
  using Result = typename Typed<Response>::Result;

  template <class... Args>
  Notified(std::string_view what, Executor& on, const Args&... args)
      : Typed<Response>(this->result, args...), name(what), executor(on) {}

  struct OnStop {
    std::weak_ptr<Notified> call;
    void operator()() const { GiveUp(call, absl::StatusCode::kCancelled, kStopped); }
  };

  // Before the call begins. Throws std::bad_alloc.
  static void Watch(const std::shared_ptr<Notified>& call, base_internal::TimerQueue& timers, Instant deadline,
                    const std::stop_token& stop) {
    if (deadline != Instant::InfiniteFuture()) {
      call->timers = &timers;
      call->timer = timers.Schedule(
          deadline, [late = std::weak_ptr(call)] { GiveUp(late, absl::StatusCode::kDeadlineExceeded, kLate); });
    }
    if (stop.stop_possible()) call->on_stop.emplace(stop, OnStop{call});
  }
  static void GiveUp(const std::weak_ptr<Notified>& waiting, absl::StatusCode code, std::string_view why) {
    const std::shared_ptr<Notified> call = waiting.lock();
    if (call == nullptr || call->answered.exchange(true)) return;
    call->gave_up = call->EndedEarly(code, why, /*begun=*/true);
    call->Pass(call);
  }
  absl::Status EndedEarly(absl::StatusCode code, std::string_view why, bool begun) const {
    constexpr bool kChanges = !std::is_same_v<Response, OrderInfo>;
    if (kChanges && begun) {
      return base_internal::StatusOfUnknownOutcome(
          code, [&] { return Concat(name, "(): ", why, "; the outcome is unknown: send it again"); });
    }
    return base_internal::StatusWithText(
        code, [&] { return Concat(name, "(): ", why, kChanges ? "; nothing has changed" : ""); });
  }
  void Deliver(const std::shared_ptr<OrderCall>& self) override {
    if (answered.exchange(true)) return;
    if (timer.has_value()) timers->Cancel(*timer);
    Pass(self);
  }
  void Pass(const std::shared_ptr<OrderCall>& self) {
    try {
      executor.Schedule([self] { static_cast<Notified&>(*self).Invoke(); });
    } catch (const std::bad_alloc&) {
      Invoke();
    }
  }
  void Invoke() {
    if (!gave_up.ok()) return std::move(done)(Result(std::move(gave_up)));
    this->Finish();
    std::move(done)(std::move(this->answer));
  }

  static constexpr std::string_view kStopped = "the stop was requested";
  static constexpr std::string_view kLate = "the time-out has passed";
  const std::string_view name;
  Executor& executor;
  absl::AnyInvocable<void(Result)> done;
  std::atomic<bool> answered{false};
  absl::Status gave_up = absl::OkStatus();  // Of the thread that has set `answered`.
  base_internal::TimerQueue* timers = nullptr;
  std::optional<base_internal::TimerQueue::Id> timer;
  std::optional<std::stop_callback<OnStop>> on_stop;
};

template <class Response, class... Args>
typename Typed<Response>::Result Ask(InventoryCore& core, const Args&... args) {
  return Guarded(core, [&] {
    typename Typed<Response>::Result answer = Unanswered();
    Typed<Response> call(answer, args...);
    OrderCall* const asked = &call;
    core.Await({&asked, 1});
    call.Finish();
    return answer;
  });
}

// Without memory for the answers nothing is asked for.
template <class Response, class Request, class... Kinds>
std::vector<typename Typed<Response>::Result> AskAll(InventoryCore& core, std::span<const Request> requests,
                                                     Kinds... kind) {
  return Guarded(core, [&] {
    std::vector<Typed<Response>> calls;
    std::vector<OrderCall*> asked;
    std::vector<typename Typed<Response>::Result> results;
    calls.reserve(requests.size());
    asked.reserve(requests.size());
    results.reserve(requests.size());
    for (const Request& request : requests) {
      asked.push_back(&calls.emplace_back(results.emplace_back(), kind..., request));
    }
    core.Await(asked);
    for (Typed<Response>& call : calls) call.Finish();
    return results;
  });
}

template <class Response, class Done, class... Args>
void AskLater(InventoryCore& core, std::string_view name, Executor& executor, Done done,
              const InventoryCallOptions& options, const Args&... args) {
  using Call = Notified<Response>;
  // Before anything has changed: nobody could use the order.
  if (!done) base_internal::Fatal(Concat("Inventory: ", name, "() was called without a callback"));
  std::shared_ptr<Call> call;
  Instant deadline = Instant::InfiniteFuture();
  const absl::Status ready = Guarded(core, [&] {
    call = std::make_shared<Call>(name, executor, args...);
    if (options.stop.stop_requested()) return call->EndedEarly(absl::StatusCode::kCancelled, Call::kStopped, false);
    if (options.timeout == absl::InfiniteDuration()) return absl::OkStatus();
    if (options.timeout <= absl::ZeroDuration()) {
      return call->EndedEarly(absl::StatusCode::kDeadlineExceeded, Call::kLate, false);
    }
    deadline = core.clock().Now() + options.timeout;
    return core.timers().Start();
  });
  if (!ready.ok()) return std::move(done)(ready);  // Not on the executor, which would need memory.
  call->done = std::move(done);
  try {
    Call::Watch(call, core.timers(), deadline, options.stop);
    core.Notify(call);
  } catch (const std::bad_alloc&) {
    if (call->answered.exchange(true)) return;
    call->status = core.NoMemory();
    call->Invoke();
  }
}

absl::Status Change(InventoryCore& core, const SkuCall& call) {
  return Guarded(core, [&] { return core.ChangeSku(call); });
}

// `answer`: what the call returns of a ReadCall that was answered.
template <class Answer>
auto Read(InventoryCore& core, ReadCall call, Answer answer) {
  return Guarded(core, [&]() -> absl::StatusOr<std::decay_t<decltype(answer(call))>> {
    if (absl::Status read = core.Read(call); !read.ok()) return read;
    return answer(call);
  });
}

}  // namespace

absl::Status Inventory::AddSku(std::string_view sku, const SkuOptions& options) {
  return Change(*core_, {.kind = SkuCall::Kind::kAdd, .name = "AddSku", .sku = sku, .options = &options});
}

absl::Status Inventory::EnsureSku(std::string_view sku, const SkuOptions& options) {
  return Change(*core_, {.kind = SkuCall::Kind::kEnsure, .name = "EnsureSku", .sku = sku, .options = &options});
}

absl::Status Inventory::RemoveSku(std::string_view sku) {
  return Change(*core_, {.kind = SkuCall::Kind::kRemove, .name = "RemoveSku", .sku = sku});
}

absl::Status Inventory::Restock(const RestockRequest& request) {
  return Change(*core_, {.kind = SkuCall::Kind::kRestock,
                         .name = "Restock",
                         .sku = request.sku,
                         .units = request.quantity,
                         .request_id = &request.request_id});
}

absl::Status Inventory::Restock(std::string_view sku, int64_t units) {
  return Change(*core_, {.kind = SkuCall::Kind::kRestock, .name = "Restock", .sku = sku, .units = units});
}

absl::Status Inventory::Reshard(std::string_view sku, int32_t shards) {
  return Change(*core_, {.kind = SkuCall::Kind::kReshard, .name = "Reshard", .sku = sku, .shards = shards});
}

absl::StatusOr<Reservation> Inventory::Reserve(const ReserveRequest& request) {
  return Ask<Reservation>(*core_, request);
}

void Inventory::ReserveAsync(const ReserveRequest& request, Executor& executor,
                             absl::AnyInvocable<void(absl::StatusOr<Reservation>)> done,
                             const InventoryCallOptions& options) {
  AskLater<Reservation>(*core_, "ReserveAsync", executor, std::move(done), options, request);
}

std::vector<absl::StatusOr<Reservation>> Inventory::ReserveMany(std::span<const ReserveRequest> requests) {
  return AskAll<Reservation>(*core_, requests);
}

absl::StatusOr<BasketReservation> Inventory::ReserveBasket(const BasketRequest& request) {
  return Ask<BasketReservation>(*core_, request);
}

void Inventory::ReserveBasketAsync(const BasketRequest& request, Executor& executor,
                                   absl::AnyInvocable<void(absl::StatusOr<BasketReservation>)> done,
                                   const InventoryCallOptions& options) {
  AskLater<BasketReservation>(*core_, "ReserveBasketAsync", executor, std::move(done), options, request);
}

absl::StatusOr<Order> Inventory::Take(const TakeRequest& request) { return Ask<Order>(*core_, request); }

void Inventory::TakeAsync(const TakeRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<Order>)> done, const InventoryCallOptions& options) {
  AskLater<Order>(*core_, "TakeAsync", executor, std::move(done), options, request);
}

std::vector<absl::StatusOr<Order>> Inventory::TakeMany(std::span<const TakeRequest> requests) {
  return AskAll<Order>(*core_, requests);
}

absl::Status Inventory::Commit(OrderId id) { return Ask<absl::Status>(*core_, Kind::kCommit, id); }

void Inventory::CommitAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done,
                            const InventoryCallOptions& options) {
  AskLater<absl::Status>(*core_, "CommitAsync", executor, std::move(done), options, Kind::kCommit, id);
}

std::vector<absl::Status> Inventory::CommitMany(std::span<const OrderId> ids) {
  return AskAll<absl::Status>(*core_, ids, Kind::kCommit);
}

absl::Status Inventory::Cancel(OrderId id) { return Ask<absl::Status>(*core_, Kind::kCancel, id); }

void Inventory::CancelAsync(OrderId id, Executor& executor, absl::AnyInvocable<void(absl::Status)> done,
                            const InventoryCallOptions& options) {
  AskLater<absl::Status>(*core_, "CancelAsync", executor, std::move(done), options, Kind::kCancel, id);
}

std::vector<absl::Status> Inventory::CancelMany(std::span<const OrderId> ids) {
  return AskAll<absl::Status>(*core_, ids, Kind::kCancel);
}

absl::StatusOr<absl::Time> Inventory::Extend(const ExtendRequest& request) { return Ask<absl::Time>(*core_, request); }

void Inventory::ExtendAsync(const ExtendRequest& request, Executor& executor,
                            absl::AnyInvocable<void(absl::StatusOr<absl::Time>)> done,
                            const InventoryCallOptions& options) {
  AskLater<absl::Time>(*core_, "ExtendAsync", executor, std::move(done), options, request);
}

std::vector<absl::StatusOr<absl::Time>> Inventory::ExtendMany(std::span<const ExtendRequest> requests) {
  return AskAll<absl::Time>(*core_, requests);
}

using Returned = std::vector<ReturnedLine>;

absl::StatusOr<Returned> Inventory::Return(const ReturnRequest& request) { return Ask<Returned>(*core_, request); }

void Inventory::ReturnAsync(const ReturnRequest& request, Executor& executor,
                            absl::AnyInvocable<void(absl::StatusOr<Returned>)> done,
                            const InventoryCallOptions& options) {
  AskLater<Returned>(*core_, "ReturnAsync", executor, std::move(done), options, request);
}

std::vector<absl::StatusOr<Returned>> Inventory::ReturnMany(std::span<const ReturnRequest> requests) {
  return AskAll<Returned>(*core_, requests);
}

absl::StatusOr<OrderInfo> Inventory::Find(const FindRequest& request) const { return Ask<OrderInfo>(*core_, request); }

void Inventory::FindAsync(const FindRequest& request, Executor& executor,
                          absl::AnyInvocable<void(absl::StatusOr<OrderInfo>)> done,
                          const InventoryCallOptions& options) const {
  AskLater<OrderInfo>(*core_, "FindAsync", executor, std::move(done), options, request);
}

absl::StatusOr<OrderState> Inventory::StateOf(OrderId id) const {
  return Read(*core_, {.kind = ReadCall::Kind::kState, .order = id}, [](ReadCall& call) { return call.state; });
}

absl::StatusOr<int64_t> Inventory::Available(std::string_view sku) const {
  return Read(*core_, {.kind = ReadCall::Kind::kAvailable, .name = "Available", .sku = sku},
              [](ReadCall& call) { return call.of_sku.available; });
}

absl::StatusOr<StockFigures> Inventory::Figures(std::string_view sku) const {
  return Read(*core_, {.kind = ReadCall::Kind::kFigures, .name = "Figures", .sku = sku}, [](ReadCall& call) {
    const SkuSnapshot& read = call.of_sku;
    return StockFigures{.granted = read.granted, .available = read.available, .held = read.held, .sold = read.sold};
  });
}

absl::StatusOr<SkuSnapshot> Inventory::Snapshot(std::string_view sku) const {
  return Read(*core_, {.kind = ReadCall::Kind::kSnapshot, .name = "Snapshot", .sku = sku},
              [](ReadCall& call) { return std::move(call.of_sku); });
}

std::vector<SkuSnapshot> Inventory::Snapshot() const {
  auto all = Read(*core_, {.kind = ReadCall::Kind::kSnapshots}, [](ReadCall& call) { return std::move(call.all); });
  return all.ok() ? *std::move(all) : std::vector<SkuSnapshot>();
}

absl::Status Inventory::Health() const {
  return Guarded(*core_, [&] { return core_->Health(); });
}

}  // namespace stockade

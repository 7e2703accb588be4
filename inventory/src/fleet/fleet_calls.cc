// How calls come into the queues of the lanes, and how callers wait for their answers.

#include <algorithm>
#include <new>
#include <utility>

#include "fleet_core.h"
#include "request_fingerprint.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Calls that other threads answer.
class Batch {
 public:
  explicit Batch(size_t count) : missing_(count) {}

  void NoteAnswer() {
    const MutexLock lock(mutex_);
    if (--missing_ == 0) complete_.NotifyAll();
  }
  void Wait() {
    const MutexLock lock(mutex_);
    while (missing_ > 0) complete_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar complete_;
  size_t missing_ STOCKADE_GUARDED_BY(mutex_);
};

// `ask` gets what it has called with the answer.
template <class Ask>
absl::Status AwaitOne(const Ask& ask) {
  absl::Status answer;
  Batch batch(1);
  ask([&](absl::Status status) {
    answer = std::move(status);
    batch.NoteAnswer();
  });
  batch.Wait();
  return answer;
}

OrderKind KindOf(LedgerRecord::Kind kind) {
  if (kind == LedgerRecord::Kind::kTake) return OrderKind::kTake;
  return kind == LedgerRecord::Kind::kReserve ? OrderKind::kReserve : OrderKind::kBasket;
}

// When a call is asked for.
struct Turn {
  OrderCall* call;
  size_t round = 0;
  const OrderCall* repeats = nullptr;  // It is not asked for, and gets the answer of this one.
};

// Of one id, each request waits for the one before. Otherwise another lane could refuse the second one for lack of
// units, while the first one takes some.
std::vector<Turn> TurnsOf(std::span<OrderCall* const> calls) {
  std::vector<Turn> turns;
  turns.reserve(calls.size());
  absl::flat_hash_map<std::string_view, const Turn*> last;
  for (OrderCall* const call : calls) {
    Turn& turn = turns.emplace_back(Turn{.call = call});
    if (!call->is_request()) continue;
    const auto [found, is_first] = last.try_emplace(*call->request_id, &turn);
    if (is_first) continue;
    if (call->Equals(*found->second->call)) {
      turn.repeats = found->second->call;
    } else {
      turn.round = std::exchange(found->second, &turn)->round + 1;
    }
  }
  std::ranges::stable_sort(turns, {}, &Turn::round);
  return turns;
}

}  // namespace

void FleetCore::Await(std::span<OrderCall* const> calls) {
  const std::vector<Turn> turns = TurnsOf(calls);
  for (auto next = turns.begin(); next != turns.end();) {
    const auto end = std::find_if(next, turns.end(), [&](const Turn& turn) { return turn.round != next->round; });
    Batch batch(static_cast<size_t>(end - next));
    for (; next != end; ++next) {
      OrderCall* const call = next->call;
      const auto answer = [call, &batch](absl::Status status) {
        call->status = std::move(status);
        batch.NoteAnswer();
      };
      if (next->repeats != nullptr) {
        answer(absl::OkStatus());
        continue;
      }
      try {
        Ask(*call, answer);
      } catch (const std::bad_alloc&) {
        answer(checks_.NoMemory());  // It was not asked for.
      }
    }
    batch.Wait();
  }
  for (const auto& [call, round, repeats] : turns) {
    if (repeats == nullptr) continue;
    metrics_.Add(repeats->status.ok() ? kRepeats : RefusalMetric(RefusalOf(repeats->status)));
    try {
      call->CopyAnswer(*repeats);
    } catch (const std::bad_alloc&) {
      call->status = checks_.NoMemory();
    }
  }
}

void FleetCore::Notify(std::shared_ptr<OrderCall> call) {
  OrderCall& asker = *call;
  Ask(asker, [this, call = std::move(call)](absl::Status status) {
    call->status = std::move(status);
    try {
      notifier_.Schedule([call] { call->Deliver(call); });
    } catch (const std::bad_alloc&) {
      call->Deliver(call);
    }
  });
}

void FleetCore::Ask(OrderCall& asker, Done done) {
  if (!asker.is_request()) {
    return End(asker.id, asker.kind == LedgerRecord::Kind::kCommit ? OrderState::kSold : OrderState::kCancelled,
               std::move(done));
  }
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> call = NewGrant(asker);
  if (!call.ok()) {
    metrics_.Add(RefusalMetric(RefusalOf(call.status())));
    return done(std::move(call).status());
  }
  (*call)->done = std::move(done);
  Enqueue(&Queues::grants, *std::move(call));
}

absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::NewGrant(OrderCall& asker) {
  if (absl::Status valid = checks_.Check(asker); !valid.ok()) return valid;
  if (auto refused = RefuseByLease(*asker.request_id, *asker.buyer, asker.lines); refused.has_value()) {
    return *std::move(refused);
  }
  auto call = std::make_unique<FleetGrantCall>();
  call->start = clock_.Now();
  call->asker = &asker;
  call->kind = KindOf(asker.kind);
  for (const RequestLine& line : asker.lines) {
    call->lines.push_back({.sku = std::string(line.sku), .quantity = line.quantity});
    call->skus.push_back(ledger_.keys.SkuId(line.sku));
  }
  call->request_id = *asker.request_id;
  call->buyer = *asker.buyer;
  call->ttl = asker.ttl;
  call->request = ledger_.keys.RequestHash(call->request_id);
  call->buyer_hash = ledger_.keys.BuyerHash(call->buyer);
  if (ledger_.keys.imported.has_value()) {
    call->imported_fingerprint = RequestFingerprint(*ledger_.keys.imported)(call->request_id);
  }
  return call;
}

void FleetCore::End(OrderId id, OrderState to, Done done) {
  auto call = std::make_unique<FleetEndCall>();
  call->start = clock_.Now();
  call->id = id;
  call->to = to;
  call->done = std::move(done);
  Enqueue(&Queues::ends, std::move(call));
}

absl::Status FleetCore::RunStep(std::function<std::optional<absl::Status>(FleetLane&)> step, bool reads) {
  return AwaitOne([&](Done done) {
    auto call = std::make_unique<FleetStepCall>();
    call->start = clock_.Now();
    call->reads = reads;
    call->run = std::move(step);
    call->done = std::move(done);
    Enqueue(&Queues::steps, std::move(call));
  });
}

absl::Status FleetCore::ReadState(ReadCall& read) {
  const OrderId id = read.order;
  for (int attempt = 0; attempt < FleetCall::kMaxSurprises; ++attempt) {
    bool due = false;
    absl::Status asked = RunStep(
        [&](FleetLane& writer) -> std::optional<absl::Status> {
          FleetOrderRows orders;
          int64_t now = 0;
          if (!ReadOrders(writer, Concat("o.order_id=", id), orders, now)) return std::nullopt;
          if (orders.empty() || orders.begin()->second.kind == OrderKind::kRestock) return checks_.NoSuchOrder(id);
          const FleetOrderRow& order = orders.begin()->second;
          if (!order.damage.empty()) {
            return checks_.Refused(Refusal::kUnavailable,
                                   Concat("the ledger is damaged: order ", id, " has ", order.damage));
          }
          read.state = order.state;
          due = order.state == OrderState::kHeld && order.at <= now;
          return absl::OkStatus();
        },
        /*reads=*/true);
    if (!asked.ok() || !due) return asked;
    // The answer will say that it has expired, so the ledger has to say it first.
    absl::Status expired = AwaitOne([&](Done done) { End(id, OrderState::kExpired, std::move(done)); });
    if (!expired.ok()) return expired;
  }
  return checks_.Refused(Refusal::kUnavailable, Concat("order ", id, " does not end in the ledger"));
}

}  // namespace stockade::inventory_internal

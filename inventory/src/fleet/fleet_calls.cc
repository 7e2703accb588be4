// The threads of the lanes; how calls come into the queues of the lanes, and how callers wait for their answers.

#include <algorithm>
#include <new>
#include <utility>

#include "fleet_core.h"
#include "fleet_sql.h"
#include "fleet_workers.h"
#include "order_rules.h"
#include "request_fingerprint.h"
#include "stockade/base/backoff.h"
#include "stockade/base/start_thread.h"
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
    if (call->request_id == nullptr) continue;
    const auto [found, is_first] = last.try_emplace(*call->request_id, &turn);
    if (is_first) continue;
    const OrderCall& before = *found->second->call;
    if (call->is_request() && before.is_request() && call->Equals(before)) {
      turn.repeats = found->second->call;
    } else {
      turn.round = std::exchange(found->second, &turn)->round + 1;
    }
  }
  std::ranges::stable_sort(turns, {}, &Turn::round);
  return turns;
}

}  // namespace

FleetCore::~FleetCore() {
  shared_.queues.Stop();
  for (std::thread& thread : threads_) thread.join();
  shared_.sold_out.EndWaits(/*all=*/true);
  shared_.queues.Close();
  notifier_.Finish();  // Its callbacks may call the inventory.
}

absl::Status FleetCore::Start() {
  threads_.reserve(static_cast<size_t>(shared_.options.lanes));
  for (int32_t i = 0; i < shared_.options.lanes; ++i) {
    std::thread thread;
    absl::Status started = StartThread(thread, [this, i] { RunLane(i); });
    if (!started.ok()) return started;
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

void FleetCore::RunLane(int32_t index) {
  FleetQueues& queues = shared_.queues;
  FleetLane lane(
      shared_.ledger, first_index_ + index,
      [&] {
        shared_.sold_out.EndWaits();
        return queues.GiveUpWhileConnecting();
      },
      [&](const absl::Status& status) { queues.NoteHealth(status); });
  FleetEnder ender(shared_, lane);
  FleetLatcher latcher(shared_, lane);
  FleetGranter granter(shared_, lane, latcher);
  FleetJanitor janitor(shared_, lane, ender);
  const auto serve = [&](FleetWork work) {
    if (work.step != nullptr) {
      if (Stepped answer = work.step->run(lane); answer.has_value()) {
        work.step->done(*std::move(answer));
        return true;
      }
      if (lane.usable() && ++work.step->surprises >= work.step->max_surprises) {
        work.step->done(queues.TooManySurprises());
        return true;
      }
      queues.PutBack(std::move(work.step));
      return lane.usable();
    }
    if (!work.grants.empty()) return granter.Serve(std::move(work.grants));
    if (!work.large_ends.empty()) {
      const bool is_usable = ender.ServeLarge(std::move(work.large_ends));
      queues.EndLargeEnds();
      return is_usable;
    }
    if (work.ends.empty()) return true;
    const bool is_usable = ender.Serve(std::move(work.ends));
    queues.WakeForLargeEnds();
    return is_usable;
  };

  // The first lane does what no call asks for.
  FleetSoldOut* const sold_out = index == 0 ? &shared_.sold_out : nullptr;
  Instant upkeep = index == 0 ? shared_.clock.Now() : Instant::InfiniteFuture();
  Backoff backoff(kFleetFirstPause, kFleetLongestPause, static_cast<uint64_t>(index));
  int turn = 0;
  bool is_calls_turn = false;
  for (;;) {
    const FleetQueues::Next next = queues.Await(is_calls_turn, upkeep, sold_out);
    if (next == FleetQueues::Next::kStop) return;
    const Instant unasked = sold_out == nullptr ? Instant::InfiniteFuture() : sold_out->NextWork();
    if (next == FleetQueues::Next::kUnasked) {
      if (!lane.connected()) (void)lane.Connect();  // For as long as it takes: no caller waits for this work.
      const Instant now = shared_.clock.Now();
      if (now >= unasked) latcher.ServeSoldOut();
      if (now >= upkeep) upkeep = shared_.clock.Now() + janitor.Run();
    } else if ((lane.connected() || lane.Connect().ok()) &&
               serve(queues.Take(turn, lane.most_lines(), std::min(upkeep, unasked)))) {
      // Calls are in the queues while the lane connects, and are given up there.
      backoff.Reset();
    } else {
      shared_.sold_out.EndWaits();
      queues.WaitAway(backoff.Next());
    }
  }
}

void FleetCore::Await(std::span<OrderCall* const> calls) {
  const std::vector<Turn> turns = TurnsOf(calls);
  for (auto next = turns.begin(); next != turns.end();) {
    const auto end = std::find_if(next, turns.end(), [&](const Turn& turn) { return turn.round != next->round; });
    Batch batch(static_cast<size_t>(end - next));
    for (; next != end; ++next) {
      OrderCall* const call = next->call;
      if (next->repeats != nullptr) {
        batch.NoteAnswer();
        continue;
      }
      try {
        Ask(*call, [call, &batch](absl::Status status) {
          TakeAnswer(*call, std::move(status));
          batch.NoteAnswer();
        });
      } catch (const std::bad_alloc&) {
        call->status = NoMemory();  // It was not asked for.
        batch.NoteAnswer();
      }
    }
    batch.Wait();
  }
  for (const auto& [call, round, repeats] : turns) {
    if (repeats == nullptr) continue;
    const Refusal refusal = RefusalOf(repeats->status);
    shared_.metrics.Add(repeats->status.ok() ? kRepeats : RefusalMetric(refusal));
    if (refusal == Refusal::kSoldOut || refusal == Refusal::kAllHeld) {
      shared_.fleet_metrics.Add(repeats->timed ? kRefusedByLedger : kRefusedByLease);
    }
    try {
      call->CopyAnswer(*repeats);
    } catch (const std::bad_alloc&) {
      call->status = NoMemory();
    }
  }
}

void FleetCore::Notify(std::shared_ptr<OrderCall> call) {
  OrderCall& asker = *call;
  Ask(asker, [call = std::move(call)](absl::Status status) {
    TakeAnswer(*call, std::move(status));
    try {
      static_cast<FleetCore*>(call->core)->notifier_.Schedule([call] { call->Deliver(call); });
    } catch (const std::bad_alloc&) {
      call->Deliver(call);
    }
  });
}

void FleetCore::Ask(OrderCall& asker, Done done) {
  asker.core = this;
  if (asker.find != nullptr) {
    if (absl::Status valid = shared_.checks.CheckFind(*asker.find); !valid.ok()) return done(std::move(valid));
    return AskUnlessDue(
        [this, &asker, find = *asker.find](FleetLane& lane, OrderId& due) { return FindOnce(lane, asker, find, due); },
        shared_.clock.Now(), /*reads=*/true, std::move(done));
  }
  if (asker.is_return()) return Return(asker, std::move(done));
  if (!asker.is_request()) return AskForChange(asker, std::move(done));
  absl::StatusOr<std::unique_ptr<FleetGrantCall>> call = NewGrant(asker);
  if (!call.ok()) {
    shared_.metrics.Add(RefusalMetric(RefusalOf(call.status())));
    return done(std::move(call).status());
  }
  asker.timed = true;
  asker.start = (*call)->start;
  (*call)->done = std::move(done);
  shared_.queues.Enqueue(*std::move(call));
}

void FleetCore::TakeAnswer(OrderCall& call, absl::Status status) {
  call.status = std::move(status);
  if (!call.timed) return;
  FleetShared& shared = static_cast<FleetCore*>(call.core)->shared_;
  if (call.status.ok()) return shared.metrics.ObserveSpan(kReserveSeconds, call.start, shared.clock.Now());
  const Refusal refusal = RefusalOf(call.status);
  shared.metrics.Add(RefusalMetric(refusal));
  if (refusal == Refusal::kSoldOut || refusal == Refusal::kAllHeld) shared.fleet_metrics.Add(kRefusedByLedger);
}

FleetCore::Stepped FleetCore::RefuseByLease(const OrderCall& asker) {
  if (!shared_.sold_out.HasLeases()) return std::nullopt;
  const uint64_t print = shared_.ledger.keys.RequestPrint(*asker.request_id);
  for (const RequestLine& line : asker.lines) {
    const std::optional<int64_t> unsold =
        shared_.sold_out.Refuses(shared_.ledger.keys.SkuId(line.sku), print, !asker.buyer->empty());
    if (!unsold.has_value()) continue;
    shared_.fleet_metrics.Add(kRefusedByLease);
    return shared_.checks.Short(line, *unsold);
  }
  return std::nullopt;
}

absl::StatusOr<std::unique_ptr<FleetGrantCall>> FleetCore::NewGrant(OrderCall& asker) {
  if (absl::Status valid = shared_.checks.Check(asker); !valid.ok()) return valid;
  if (Stepped refused = RefuseByLease(asker); refused.has_value()) return *std::move(refused);
  const FleetKeys& keys = shared_.ledger.keys;
  auto call = std::make_unique<FleetGrantCall>();
  call->start = shared_.clock.Now();
  call->asker = &asker;
  call->kind = KindOf(asker.kind);
  for (const RequestLine& line : asker.lines) {
    call->lines.push_back({.sku = std::string(line.sku), .quantity = line.quantity});
    call->skus.push_back(keys.SkuId(line.sku));
  }
  call->request_id = *asker.request_id;
  call->buyer = *asker.buyer;
  call->ttl = asker.ttl;
  call->request = keys.RequestHash(call->request_id);
  call->buyer_hash = keys.BuyerHash(call->buyer);
  if (keys.imported.has_value()) call->imported_fingerprint = RequestFingerprint(*keys.imported)(call->request_id);
  return call;
}

void FleetCore::AskForChange(OrderCall& asker, Done done) {
  using Kind = LedgerRecord::Kind;
  if (asker.kind == Kind::kExtend) {
    if (absl::Status valid = shared_.checks.CheckExtend(asker); !valid.ok()) return done(std::move(valid));
  }
  auto call = NewEnd(asker.id, *StateAfter(asker.kind), std::move(done));
  if (asker.kind == Kind::kExtend) {
    call->ttl_us = FleetMicros(asker.ttl);
    call->asker = &asker;
  }
  shared_.queues.Enqueue(std::move(call));
}

std::unique_ptr<FleetEndCall> FleetCore::NewEnd(OrderId id, OrderState to, Done done) const {
  auto call = std::make_unique<FleetEndCall>();
  call->start = shared_.clock.Now();
  call->id = id;
  call->to = to;
  call->done = std::move(done);
  return call;
}

absl::Status FleetCore::AwaitOne(absl::FunctionRef<void(Done)> ask) {
  absl::Status answer;
  Batch batch(1);
  ask([&](absl::Status status) {
    answer = std::move(status);
    batch.NoteAnswer();
  });
  batch.Wait();
  return answer;
}

absl::Status FleetCore::RunStep(std::function<Stepped(FleetLane&)> step, bool reads) {
  return AwaitOne([&](Done done) {
    auto call = std::make_unique<FleetStepCall>();
    call->start = shared_.clock.Now();
    call->reads = reads;
    call->run = std::move(step);
    call->done = std::move(done);
    shared_.queues.Enqueue(std::move(call));
  });
}

FleetCore::Stepped FleetCore::ReadOrder(FleetLane& lane, const FindRequest& find, OrderId id, FleetOrderRow& order,
                                        bool& due) {
  const RequestChecks& checks = shared_.checks;
  FleetOrderRows orders;
  int64_t now = 0;
  if (!ReadOrderRows(lane, {{id}}, orders, now)) return std::nullopt;
  const bool by_id = find.order != 0;
  const auto found = orders.find(id);
  if (found == orders.end()) {
    return by_id || find.buyer.has_value() ? checks.NoSuchOrder(find) : checks.ForgottenOrder(find);
  }
  order = std::move(found->second);
  if (find.buyer.has_value() && order.buyer != shared_.ledger.keys.BuyerHash(*find.buyer)) {
    return checks.NoSuchOrder(find);
  }
  if (order.kind == OrderKind::kRestock) {
    return by_id ? checks.NoSuchOrder(find) : checks.IsNoOrder(find, /*is_return=*/false);
  }
  if (order.lines.size() > kMaxBasketLines) order.damage = Concat(order.lines.size(), " lines");
  if (!order.damage.empty()) {
    return checks.Refused(Refusal::kUnavailable, Concat("the ledger is damaged: order ", id, " has ", order.damage));
  }
  due = order.state == OrderState::kHeld && order.at <= now;
  return absl::OkStatus();
}

bool FleetCore::LookUpRequest(FleetLane& lane, const std::string& request_id, const FleetHash& request,
                              FleetRequestRow& used) {
  std::optional<uint64_t> fingerprint;
  if (const auto& key = shared_.ledger.keys.imported; key.has_value()) {
    fingerprint = RequestFingerprint(*key)(request_id);
  }
  return ReadRequest(lane, request, fingerprint, used);
}

FleetCore::Stepped FleetCore::FindOnce(FleetLane& lane, OrderCall& asker, const FindRequest& find, OrderId& due) {
  const RequestChecks& checks = shared_.checks;
  OrderId id = find.order;
  if (id == 0) {
    FleetRequestRow used;
    if (!LookUpRequest(lane, find.request_id, shared_.ledger.keys.RequestHash(find.request_id), used)) {
      return std::nullopt;
    }
    if (used.is_forgotten && !find.buyer.has_value()) return checks.ForgottenOrder(find);
    if (used.is_change && !find.buyer.has_value()) return checks.IsNoOrder(find, /*is_return=*/true);
    if (used.is_forgotten || used.is_change || used.order == 0) return checks.NoSuchOrder(find);
    id = used.order;
  }
  FleetOrderRow order;
  bool is_due = false;
  Stepped read = ReadOrder(lane, find, id, order, is_due);
  if (is_due) due = id;
  if (!read.has_value() || !read->ok() || is_due) return read;
  std::vector<uint64_t> ids;
  ids.reserve(order.lines.size());
  for (const auto& [sku, quantity] : order.lines) ids.push_back(sku);
  FleetSkuRows skus;
  if (!shared_.ReadSkus(lane, TheseSkus(ids), skus)) return std::nullopt;
  const bool expires = order.state == OrderState::kHeld && order.at != kNever;
  OrderInfo info{.id = id,
                 .state = order.state,
                 .request_id = find.request_id,
                 .buyer = find.buyer.value_or(""),
                 .expires_at = expires ? absl::FromUnixMicros(FleetClamp(order.at)) : absl::InfiniteFuture()};
  info.lines.reserve(order.lines.size());
  for (const auto& [sku, quantity] : order.lines) {
    info.lines.push_back({.sku = skus[sku].name, .quantity = quantity, .returned = quantity - order.Left(sku)});
  }
  std::ranges::sort(info.lines, {}, &OrderInfoLine::sku);
  if (info.lines[0].sku.empty()) {
    return checks.Refused(Refusal::kUnavailable,
                          Concat("the ledger is damaged: order ", id, " has units of a SKU that is not there"));
  }
  asker.Make(std::move(info));
  return absl::OkStatus();
}

void FleetCore::AskUnlessDue(StepUnlessDue step, Instant start, bool reads, Done done, int expired) {
  const auto due = std::make_shared<OrderId>(0);
  auto call = std::make_unique<FleetStepCall>();
  call->start = start;
  call->reads = reads;
  call->run = [step, due](FleetLane& lane) { return step(lane, *due); };
  call->done = [this, step = std::move(step), start, reads, due, expired,
                done = std::move(done)](absl::Status answer) mutable {
    if (!answer.ok() || *due == 0) return done(std::move(answer));
    if (expired == FleetCall::kMaxSurprises) return done(DoesNotEnd(*due));
    // The answer will say that it has expired, so the ledger has to say it first.
    auto expiry = NewEnd(*due, OrderState::kExpired, {});
    expiry->start = start;
    expiry->reads = reads;
    expiry->done = [this, step = std::move(step), start, reads, expired,
                    done = std::move(done)](absl::Status ended) mutable {
      if (!ended.ok()) return done(std::move(ended));
      AskUnlessDue(std::move(step), start, reads, std::move(done), expired + 1);
    };
    shared_.queues.Enqueue(std::move(expiry));
  };
  shared_.queues.Enqueue(std::move(call));
}

absl::Status FleetCore::DoesNotEnd(OrderId id) const {
  return shared_.checks.Refused(Refusal::kUnavailable, Concat("order ", id, " does not end in the ledger"));
}

absl::Status FleetCore::ReadState(ReadCall& read) {
  if (read.order == 0) return shared_.checks.NoSuchOrder(read.order);
  const FindRequest find = {.order = read.order};
  return AwaitOne([&](Done done) {
    AskUnlessDue(
        [&](FleetLane& lane, OrderId& due) {
          FleetOrderRow order;
          bool is_due = false;
          Stepped asked = ReadOrder(lane, find, find.order, order, is_due);
          if (is_due) due = find.order;
          read.state = order.state;
          return asked;
        },
        shared_.clock.Now(), /*reads=*/true, std::move(done));
  });
}

}  // namespace stockade::inventory_internal

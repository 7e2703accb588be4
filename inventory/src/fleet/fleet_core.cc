#include "fleet_core.h"

#include <algorithm>

#include "stockade/base/backoff.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// Between attempts to use a ledger that cannot be used.
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

// How long large orders wait for their turn after others: a lane whose turn it is may hang.
constexpr absl::Duration kLargeTurn = absl::Seconds(2);

// The URL of a node, as Redacted() writes it, without its user.
std::string NodeLabel(std::string_view name) {
  std::string label(name);
  const size_t user = label.find("://") + 3;
  if (const size_t end = label.find('@'); end != label.npos) label.erase(user, end + 1 - user);
  return label;
}

}  // namespace

FleetCore::FleetCore(FleetInventoryOptions options, FleetLedger ledger, std::unique_ptr<FleetDispenser> dispenser)
    : options_(std::move(options)),
      ledger_(std::move(ledger)),
      dispenser_(std::move(dispenser)),
      checks_(options_.name),
      clock_(*options_.clock),
      sold_out_(clock_, static_cast<size_t>(options_.max_known_ids)),
      stock_(options_),
      metrics_(options_.metrics, InventoryMetricDefs(), {{"inventory", options_.name}}),
      fleet_metrics_(options_.metrics, kFleetMetricDefs, {{"inventory", options_.name}}) {
  fleet_metrics_.AddGauge(kLeasedSkus, [this] { return static_cast<double>(sold_out_.Read().leased_skus); });
  fleet_metrics_.AddGauge(kLeaseAge, [this] { return absl::ToDoubleSeconds(sold_out_.Read().oldest_lease); });
  fleet_metrics_.AddGauge(kLimboUnits, [this] { return static_cast<double>(sold_out_.Read().limbo_units); });
  fleet_metrics_.AddGauge(kOverdue, [this] { return OverdueSeconds(); });
  for (size_t node = 0; dispenser_ != nullptr && node < dispenser_->size(); ++node) {
    node_metrics_.push_back(std::make_unique<ComponentMetrics>(
        options_.metrics, kFleetNodeMetricDefs,
        MetricLabels{{"inventory", options_.name}, {"node", NodeLabel(dispenser_->name(node))}}));
    node_metrics_.back()->AddGauge(0, [this, node] { return dispenser_->away(node) ? 1.0 : 0.0; });
  }
}

void FleetCore::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  WakeUp();
}

FleetCore::~FleetCore() {
  Stop();
  for (std::thread& thread : threads_) thread.join();
  notifier_.Finish();
}

absl::Status FleetCore::Start() {
  threads_.reserve(static_cast<size_t>(options_.lanes));
  for (int32_t i = 0; i < options_.lanes; ++i) {
    std::thread thread;
    absl::Status started = StartThread(thread, [this, i] { RunLane(i); });
    if (!started.ok()) return started;
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

void FleetCore::RunLane(int32_t index) {
  Lane lane{.writer = FleetLane(ledger_, [this] { return GiveUpWhileConnecting(); }), .index = first_index_ + index};
  Backoff backoff(kFirstPause, kLongestPause, static_cast<uint64_t>(index));
  Instant upkeep = index == 0 ? clock_.Now() : Instant::InfiniteFuture();
  bool is_calls_turn = false;
  const MutexLock lock(mutex_);
  for (;;) {
    const bool idle = queues_.size() == 0;
    if (stopping_ && idle) return;
    // The first lane does what no call asks for.
    const Instant sold_out = index == 0 ? sold_out_.NextWork() : Instant::InfiniteFuture();
    const Instant now = clock_.Now();
    // Large orders wait until somebody has looked whether small ones are due.
    if (index == 0 && watching_ && !stopping_ && small_ends_first_ && !queues_.large_ends.empty()) upkeep = now;
    if (!stopping_ && now >= std::min(upkeep, sold_out) && (idle || !is_calls_turn)) {
      is_calls_turn = true;
      if (!idle) called_.NotifyOne();  // This lane may be the only one that was woken for a call.
      const MutexUnlock unlocked(mutex_);
      if (now >= sold_out) ServeSoldOut(lane);
      if (now >= upkeep) upkeep = clock_.Now() + Upkeep(lane);
    } else if (idle) {
      called_.WaitUntil(clock_, mutex_, std::min(upkeep, sold_out));
    } else if (is_calls_turn = false; Connect(lane) && ServeNext(lane, std::min(upkeep, sold_out))) {
      backoff.Reset();
    } else {
      called_.NotifyAll();  // Another lane's connection may be all right.
      WaitAway(backoff.Next());
    }
  }
}

bool FleetCore::Connect(Lane& lane) {
  if (lane.writer.connected()) return true;
  const MutexUnlock unlocked(mutex_);
  const absl::Status prepared = lane.writer.Prepare();
  if (!prepared.ok()) NoteHealth(prepared);
  return prepared.ok();
}

absl::Duration FleetCore::GiveUpWhileConnecting() {
  const MutexLock lock(mutex_);
  GiveUpLate();
  // Calls that come later wake nobody here, and the clock may be one that stands still.
  return std::clamp(EndOfPatience() - clock_.Now(), absl::Milliseconds(1), options_.patience / 8);
}

Instant FleetCore::EndOfPatience() const {
  return std::min({EndOfPatience(queues_.steps), EndOfPatience(queues_.ends), EndOfPatience(queues_.large_ends),
                   EndOfPatience(queues_.grants)});
}

bool FleetCore::ServeNext(Lane& lane, Instant until) {
  GiveUpLate();
  constexpr int kQueues = 4;
  for (int i = 0; i < kQueues; ++i) {
    lane.turn = (lane.turn + 1) % kQueues;
    if (lane.turn == 0 && !queues_.steps.empty()) {
      std::unique_ptr<FleetStepCall> step = std::move(queues_.steps.front());
      queues_.steps.pop_front();
      const MutexUnlock unlocked(mutex_);
      return ServeStep(lane, std::move(step));
    }
    if (lane.turn == 1 && !queues_.ends.empty()) {
      FleetEnds ends = TakeCalls(lane, &Queues::ends);
      bool is_usable = false;
      {
        const MutexUnlock unlocked(mutex_);
        is_usable = ServeEnds(lane, std::move(ends));
      }
      if (!queues_.large_ends.empty()) called_.NotifyOne();
      return is_usable;
    }
    if (lane.turn == 2 && !queues_.grants.empty()) {
      FleetGrants grants = TakeCalls(lane, &Queues::grants);
      const MutexUnlock unlocked(mutex_);
      return ServeGrants(lane, std::move(grants));
    }
    if (lane.turn == 3 && !queues_.large_ends.empty() && BeginLargeEnds(/*by_upkeep=*/false)) {
      FleetEnds ends = TakeCalls(lane, &Queues::large_ends);
      bool is_usable = false;
      {
        const MutexUnlock unlocked(mutex_);
        is_usable = ServeLargeEnds(lane, std::move(ends));
      }
      EndLargeEnds();
      return is_usable;
    }
  }
  // Large orders wait for their turn.
  if (queues_.size() > 0) {
    Instant end = std::min(stopping_ ? Instant::InfiniteFuture() : until, EndOfPatience(queues_.large_ends));
    if (const Instant turn = last_large_end_ + kLargeTurn; turn > clock_.Now()) end = std::min(end, turn);
    called_.WaitUntil(clock_, mutex_, end);
  }
  return true;
}

bool FleetCore::BeginLargeEnds(bool by_upkeep) {
  if (large_ends_run_) return false;
  if (clock_.Now() < last_large_end_ + kLargeTurn) {
    const bool looks = watching_ && !stopping_;
    if (small_ends_first_ && (looks || !queues_.ends.empty())) return false;
    // Calls and upkeep take turns.
    if (by_upkeep && large_ends_by_upkeep_ && !queues_.large_ends.empty()) return false;
    if (!by_upkeep && !large_ends_by_upkeep_ && large_are_due_ && looks) return false;
  }
  large_ends_run_ = true;
  large_ends_by_upkeep_ = by_upkeep;
  return true;
}

void FleetCore::EndLargeEnds() {
  large_ends_run_ = false;
  small_ends_first_ = true;
  last_large_end_ = clock_.Now();
  WakeUp();
}

template <typename Call>
std::vector<std::unique_ptr<Call>> FleetCore::TakeCalls(const Lane& lane,
                                                        std::deque<std::unique_ptr<Call>> Queues::*queue) {
  std::deque<std::unique_ptr<Call>>& waiting = queues_.*queue;
  std::vector<std::unique_ptr<Call>> calls;
  size_t lines = 0;
  while (!waiting.empty() && calls.size() < static_cast<size_t>(options_.max_batch)) {
    const Call& next = *waiting.front();
    const bool alone = next.surprises >= FleetCall::kSurprisesInCompany;
    lines += LinesOf(next);
    if (!calls.empty() && (alone || lines > lane.most_lines)) break;
    calls.push_back(std::move(waiting.front()));
    waiting.pop_front();
    if (alone) break;
  }
  return calls;
}

void FleetCore::NoteSize(Lane& lane, size_t lines, const FleetOutcome& outcome) {
  if (outcome.is_lost()) {
    NoteLost(lane, lines);
  } else {
    NotePassed(lane);
  }
}

bool FleetCore::ServeStep(Lane& lane, std::unique_ptr<FleetStepCall> call) {
  std::optional<absl::Status> answer = call->run(lane.writer);
  if (answer.has_value()) {
    call->done(*std::move(answer));
    return true;
  }
  std::vector<std::unique_ptr<FleetStepCall>> again;
  again.push_back(std::move(call));
  PutBack(&Queues::steps, std::move(again));
  return lane.writer.usable();
}

FleetOutcome FleetCore::RunUntilKnown(FleetLane& writer, const FleetPacket& packet) {
  const Instant start = clock_.Now();
  FleetOutcome outcome = writer.Run(packet);
  Backoff backoff(kFirstPause, kLongestPause, 0);
  while (outcome.kind == FleetOutcome::Kind::kUnknown && !writer.settled() &&
         clock_.Now() < start + options_.patience) {
    NoteHealth(outcome.status);
    {
      const MutexLock lock(mutex_);
      called_.NotifyAll();
      WaitAway(backoff.Next());
      if (stopping_) break;
    }
    outcome = writer.Resume();
  }
  // Before the calls are answered, so that Health() agrees with the answers.
  const bool failed = outcome.kind == FleetOutcome::Kind::kAway || outcome.kind == FleetOutcome::Kind::kUnknown;
  NoteHealth(failed ? outcome.status : absl::OkStatus());
  return outcome;
}

void FleetCore::WaitAway(absl::Duration pause) {
  const Instant until = clock_.Now() + pause;
  do {
    GiveUpLate();
    const Instant next = std::min(until, EndOfPatience());
    if (clock_.Now() < next) changed_.WaitUntil(clock_, mutex_, next);
  } while (clock_.Now() < until && !stopping_);
}

template <typename Call>
void FleetCore::GiveUpLate(std::deque<std::unique_ptr<Call>> Queues::*queue) {
  std::deque<std::unique_ptr<Call>>& calls = queues_.*queue;
  // Those that were put back are at the front, and began before those behind them.
  while (!calls.empty() && (IsLate(*calls.front()) || (stopping_ && !health_.ok()))) {
    const std::unique_ptr<Call> call = std::move(calls.front());
    calls.pop_front();
    const absl::Status why = health_.ok() ? absl::UnavailableError("the ledger did not get to it in time") : health_;
    absl::Status status = call->in_doubt ? InDoubt(why) : NotDone(*call, std::string(why.message()));
    const MutexUnlock unlocked(mutex_);
    AnswerUnavailable(*call, std::move(status));
  }
}

void FleetCore::GiveUpLate() {
  GiveUpLate(&Queues::steps);
  GiveUpLate(&Queues::ends);
  GiveUpLate(&Queues::large_ends);
  GiveUpLate(&Queues::grants);
}

absl::Status FleetCore::NotDone(const FleetCall& call, std::string_view why) const {
  return checks_.Refused(Refusal::kUnavailable, Concat(call.reads ? "" : "nothing has changed: ", why));
}

absl::Status FleetCore::TooManySurprises() const {
  return checks_.Refused(
      Refusal::kUnavailable,
      Concat("nothing has changed: the ledger's rows were not as they were read ", FleetCall::kMaxSurprises,
             " times; docs/fleet_audit.sql shows whether they are damaged"));
}

absl::Status FleetCore::InDoubt(const absl::Status& why) const {
  return checks_.Refused(Refusal::kUnavailable, Concat("not known to be durable: ", why.message(),
                                                       "; the same request shows the outcome once "
                                                       "the ledger is back"));
}

void FleetCore::NoteHealth(const absl::Status& status) {
  const MutexLock lock(mutex_);
  health_ = status;
}

absl::Status FleetCore::Health() const {
  const MutexLock lock(mutex_);
  return health_.ok() ? health_ : checks_.Refused(Refusal::kUnavailable, Concat(health_.message()));
}

}  // namespace stockade::inventory_internal

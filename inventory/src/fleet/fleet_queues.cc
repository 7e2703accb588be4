#include "fleet_queues.h"

#include "stockade/base/backoff.h"
#include "stockade/base/strings.h"

namespace stockade::inventory_internal {
namespace {

// How long large orders wait for their turn after others: a lane whose turn it is may hang.
constexpr absl::Duration kLargeTurn = absl::Seconds(2);

}  // namespace

FleetQueues::Next FleetQueues::Await(bool& is_calls_turn, Instant& upkeep, const FleetSoldOut* sold_out) {
  const MutexLock lock(mutex_);
  for (;;) {
    const bool idle = size() == 0;
    if (stopping_ && idle) return Next::kStop;
    const Instant now = clock_.Now();
    // Large orders wait until somebody has looked whether small ones are due.
    if (sold_out != nullptr && watching_ && !stopping_ && small_ends_first_ && !large_ends_.empty()) upkeep = now;
    const Instant unasked = std::min(upkeep, sold_out != nullptr ? sold_out->NextWork() : Instant::InfiniteFuture());
    if (!stopping_ && now >= unasked && (idle || !is_calls_turn)) {
      is_calls_turn = true;
      if (!idle) called_.NotifyOne();  // This lane may be the only one that was woken for a call.
      return Next::kUnasked;
    }
    if (!idle) {
      is_calls_turn = false;
      return Next::kCalls;
    }
    called_.WaitUntil(clock_, mutex_, unasked);
  }
}

FleetWork FleetQueues::Take(int& turn, size_t most_lines, Instant until) {
  const MutexLock lock(mutex_);
  GiveUpLate();
  constexpr int kQueues = 4;
  for (int i = 0; i < kQueues; ++i) {
    turn = (turn + 1) % kQueues;
    if (turn == 0 && !steps_.empty()) {
      FleetWork work{.step = std::move(steps_.front())};
      steps_.pop_front();
      return work;
    }
    if (turn == 1 && !ends_.empty()) return {.ends = TakeCalls(ends_, most_lines)};
    if (turn == 2 && !grants_.empty()) return {.grants = TakeCalls(grants_, most_lines)};
    if (turn == 3 && !large_ends_.empty() && TakeLargeTurn(/*by_upkeep=*/false)) {
      return {.large_ends = TakeCalls(large_ends_, most_lines)};
    }
  }
  // Large orders wait for their turn.
  if (size() > 0) {
    Instant end = std::min(stopping_ ? Instant::InfiniteFuture() : until, EndOfPatience(large_ends_));
    if (const Instant large_turn = last_large_end_ + kLargeTurn; large_turn > clock_.Now()) {
      end = std::min(end, large_turn);
    }
    called_.WaitUntil(clock_, mutex_, end);
  }
  return {};
}

template <typename Call>
std::vector<std::unique_ptr<Call>> FleetQueues::TakeCalls(Queue<Call>& queue, size_t most_lines) const {
  std::vector<std::unique_ptr<Call>> calls;
  size_t lines = 0;
  while (!queue.empty() && calls.size() < static_cast<size_t>(options_.max_batch)) {
    const Call& next = *queue.front();
    const bool alone = next.surprises >= FleetCall::kSurprisesInCompany;
    lines += LinesOf(next);
    if (!calls.empty() && (alone || lines > most_lines)) break;
    calls.push_back(std::move(queue.front()));
    queue.pop_front();
    if (alone) break;
  }
  return calls;
}

bool FleetQueues::TakeLargeTurn(bool by_upkeep) {
  if (large_ends_run_) return false;
  if (clock_.Now() < last_large_end_ + kLargeTurn) {
    const bool looks = watching_ && !stopping_;
    if (small_ends_first_ && (looks || !ends_.empty())) return false;
    // Calls and upkeep take turns.
    if (by_upkeep && large_ends_by_upkeep_ && !large_ends_.empty()) return false;
    if (!by_upkeep && !large_ends_by_upkeep_ && large_are_due_ && looks) return false;
  }
  large_ends_run_ = true;
  large_ends_by_upkeep_ = by_upkeep;
  return true;
}

void FleetQueues::EndLargeEnds() {
  {
    const MutexLock lock(mutex_);
    large_ends_run_ = false;
    small_ends_first_ = true;
    last_large_end_ = clock_.Now();
  }
  WakeUp();
}

bool FleetQueues::BeginLargeEndsOfUpkeep(bool are_due) {
  const MutexLock lock(mutex_);
  if (ends_.empty()) small_ends_first_ = false;
  large_are_due_ = are_due;
  return are_due && TakeLargeTurn(/*by_upkeep=*/true);
}

void FleetQueues::NoteSmallEnds() {
  const MutexLock lock(mutex_);
  small_ends_first_ = false;
}

void FleetQueues::WakeForLargeEnds() {
  const MutexLock lock(mutex_);
  if (!large_ends_.empty()) called_.NotifyOne();
}

void FleetQueues::SetWatching(bool watching) {
  const MutexLock lock(mutex_);
  watching_ = watching;
}

FleetOutcome FleetQueues::RunUntilKnown(FleetLane& lane, const FleetPacket& packet) {
  const Instant start = clock_.Now();
  FleetOutcome outcome = lane.Run(packet);
  Backoff backoff(kFleetFirstPause, kFleetLongestPause, 0);
  while (outcome.kind == FleetOutcome::Kind::kUnknown && !lane.settled() && clock_.Now() < start + options_.patience) {
    NoteHealth(outcome.status);
    if (!WaitAway(backoff.Next())) break;
    outcome = lane.Resume();
  }
  // Before the calls are answered, so that Health() agrees with the answers.
  NoteHealth(outcome.is_away() ? outcome.status : absl::OkStatus());
  return outcome;
}

bool FleetQueues::WaitAway(absl::Duration pause) {
  const MutexLock lock(mutex_);
  called_.NotifyAll();  // Another lane's connection may be all right.
  const Instant until = clock_.Now() + pause;
  do {
    GiveUpLate();
    const Instant next = std::min(until, EndOfPatience());
    if (clock_.Now() < next) changed_.WaitUntil(clock_, mutex_, next);
  } while (clock_.Now() < until && !stopping_);
  return !stopping_;
}

absl::Duration FleetQueues::GiveUpWhileConnecting() {
  const MutexLock lock(mutex_);
  GiveUpLate();
  // Calls that come later wake nobody here, and the clock may be one that stands still.
  return std::clamp(EndOfPatience() - clock_.Now(), absl::Milliseconds(1), options_.patience / 8);
}

Instant FleetQueues::EndOfPatience() const {
  return std::min({EndOfPatience(steps_), EndOfPatience(ends_), EndOfPatience(large_ends_), EndOfPatience(grants_)});
}

template <typename Call>
void FleetQueues::GiveUpLate(Queue<Call>& queue) {
  // Those that were put back are at the front, and began before those behind them.
  while (!queue.empty() && (clock_.Now() >= EndOfPatience(queue) || (stopping_ && !health_.ok()))) {
    const std::unique_ptr<Call> call = std::move(queue.front());
    queue.pop_front();
    const absl::Status why = health_.ok() ? absl::UnavailableError("the ledger did not get to it in time") : health_;
    absl::Status status = call->in_doubt ? InDoubt(why) : NotDone(*call, Concat(why.message()));
    const MutexUnlock unlocked(mutex_);
    call->done(std::move(status));
  }
}

void FleetQueues::GiveUpLate() {
  GiveUpLate(steps_);
  GiveUpLate(ends_);
  GiveUpLate(large_ends_);
  GiveUpLate(grants_);
}

void FleetQueues::WakeUp() {
  const MutexLock lock(mutex_);  // A lane that has looked for work is waiting already.
  called_.NotifyAll();
  changed_.NotifyAll();
}

void FleetQueues::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  WakeUp();
}

void FleetQueues::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  health_ = absl::UnavailableError("it is being destroyed");
  GiveUpLate();
}

void FleetQueues::NoteHealth(const absl::Status& status) {
  const MutexLock lock(mutex_);
  health_ = status;
}

absl::Status FleetQueues::Health() const {
  const MutexLock lock(mutex_);
  return health_.ok() ? health_ : checks_.Refused(Refusal::kUnavailable, Concat(health_.message()));
}

absl::Status FleetQueues::NotDone(const FleetCall& call, const std::string& why) const {
  return checks_.Refused(Refusal::kUnavailable, Concat(call.reads ? "" : "nothing has changed: ", why));
}

absl::Status FleetQueues::NoRoom(const FleetCall& call) const {
  const MutexLock lock(mutex_);
  return NotDone(call,
                 closed_ ? "it is being destroyed" : Concat(options_.max_waiting_calls, " calls wait for the ledger"));
}

absl::Status FleetQueues::TooManySurprises() const {
  return checks_.Refused(
      Refusal::kUnavailable,
      Concat("nothing has changed: the ledger's rows were not as they were read ", FleetCall::kMaxSurprises,
             " times; docs/fleet_audit.sql shows whether they are damaged"));
}

absl::Status FleetQueues::InDoubt(const absl::Status& why) const {
  return checks_.InDoubt(Concat(why.message(), "; the same request shows the outcome once the ledger is back"));
}

}  // namespace stockade::inventory_internal

// Flights from their start to their end: who runs them, the loader, the result, and the work that follows when no mutex
// is held.

#include "stockade/cache/internal/single_flight.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <functional>
#include <span>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "tier_side.h"

namespace stockade::cache_internal {

SingleFlight::SingleFlight(LoadingCacheOptions&& options, Has has, Slab::Type slots)
    : EntryStore(std::move(options), has, slots) {}

SingleFlight::~SingleFlight() = default;

// Adds the call to the key's current flight, which it starts if there is none. Otherwise returns the reason why not.
absl::Status SingleFlight::Join(const KeyAt& at, CacheCall& call, Instant now) {
  if (shards_[at.shard].closed) return CancelledError();
  if (absl::Status refusal = CheckNotItsOwn(at.key); !refusal.ok()) return refusal;
  if (call.stop.stop_requested()) return StoppedError();
  if (call.deadline <= now) return DeadlineError();
  call.flight = Current(at);
  if (call.flight != nullptr && !MayJoin(*call.flight, now)) {
    shards_[at.shard].flights.DetachRunning(*call.flight);
    call.flight = nullptr;
  }
  if (call.flight == nullptr) {
    if (call.loader == nullptr && !HasLoader()) {
      return absl::FailedPreconditionError(Named(" has no loader; only GetOrLoad() and Put() fill it"));
    }
    call.flight = StartFlight(at, call.loader, now);
  } else {
    call.result = kRequestCoalesced;
    // Others wait for the mark of the update whose write this is.
    if (LoadsWithin(*call.flight)) call.flight->tier->not_before = now;
  }
  call.joined = call.flight->tag_invalidations;
  call.soft_deadline = Instant::InfiniteFuture();
  if (options_.load_soft_timeout != absl::InfiniteDuration()) {
    const Slot* const entry = FindValue(at);
    if (entry != nullptr && now < TimesOf(*entry).stale_until) {
      call.soft_deadline = call.begun + options_.load_soft_timeout;
    }
  }
  ChooseQueue(call);
  return absl::OkStatus();
}

// Waits for the flight that the call has joined, or runs it. Returns nothing if the flight's result is
// not valid for this call, which must look up the key again.
//
// A call within a loader, or on a thread of the executor itself, never waits for a thread of an executor: it runs the
// flight itself if that has not started, so that a full executor cannot block it.
std::optional<Answer> SingleFlight::Wait(CacheCall& call) {
  AfterUnlock after(*this);
  const FlightPtr flight = call.flight;
  std::optional<Answer> answer = AwaitOrRun(call, after);
  after.Run();
  const Flight::Result& result = flight->FinalResult();
  if (answer.has_value() || call.joined >= result.valid_for_joins_before) return answer;
  if (result.stale) call.result = kRequestStale;
  call.expires_at = result.expires_at;
  return result.answer;
}

// Returns nothing if the flight has its answer, which then counts for the call.
std::optional<Answer> SingleFlight::AwaitOrRun(CacheCall& call, AfterUnlock& after) {
  const FlightPtr& flight = call.flight;
  Shard& shard = shards_[flight->key.shard];
  const LoadQueue queue = call.queue;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
  std::optional<Answer> answer;
  FlightWait wait;
  bool waits = false;
  const absl::Cleanup leaves = [&] {
    if (waits) waiters_.fetch_sub(1, std::memory_order_relaxed);
  };
  if (std::exchange(call.has_begun, false)) answer = Run({&flight, 1}, false, {call.deadline, call.stop});
  for (;;) {
    ShardLock lock(shard);
    call.waiter->parked = false;
    const Instant now = Now();
    if (!answer.has_value() && !flight->answered()) answer = GiveUp(call, now, after);
    if (answer.has_value() || flight->answered()) {
      Leave(shard, *flight, *call.waiter, after);
      return answer;
    }
    const bool ready = flight->IsReady(now);
    if (ready && queue == LoadQueue::kNone && MayRunHere(call)) {
      Begin(*flight, now);
      lock.Unlock();
      answer = Run({&flight, 1}, false, {call.deadline, call.stop});
    } else if (ready && queue != LoadQueue::kNone && !flight->In(queue)) {
      QueuedLoad load(*this, queue, {flight}, false);
      EnterQueue(*flight, queue, now);
      lock.Unlock();
      Offer(queue, std::move(load));
    } else if (call.stop.stop_possible() && !on_stop.has_value()) {
      on_stop.emplace(call.stop, [waiter = call.waiter] { waiter->Wake(false); });
    } else if (std::string circle; !waits && !wait.TryBegin(flight.get(), circle)) {
      answer = CircleError(circle);
    } else {
      if (!std::exchange(waits, true)) waiters_.fetch_add(1, std::memory_order_relaxed);
      call.waited = call.waiter->parked = true;
      Instant until = std::min({call.deadline, call.soft_deadline, flight->times.hard_deadline});
      if (now < flight->NotBefore() && MayRunHere(call)) until = std::min(until, flight->NotBefore());
      lock.Unlock();
      if (call.waiter->Wait(until)) return std::nullopt;
    }
  }
}

// The answer for a call that its caller has stopped, or whose deadline has passed.
std::optional<Answer> SingleFlight::Expired(const CacheCall& call, Instant now) const {
  if (call.stop.stop_requested()) return StoppedError();
  if (now >= call.deadline) return DeadlineError();
  return std::nullopt;
}

// The answer for a call that has waited long enough for its flight. Returns nothing if the call continues to wait, or
// if the flight has timed out and has its answer.
std::optional<Answer> SingleFlight::GiveUp(CacheCall& call, Instant now, AfterUnlock& after) {
  if (std::optional<Answer> expired = Expired(call, now)) return expired;
  if (IsHung(*call.flight, now)) {
    FailHung(call.flight, now, after);
  } else if (now >= call.soft_deadline) {
    call.soft_deadline = Instant::InfiniteFuture();
    const Slot* const entry = FindValue(call.flight->key.at());
    if (entry != nullptr && now < TimesOf(*entry).stale_until) {
      call.result = kRequestStale;
      call.expires_at = entry->expires_at();
      return ValueOf(*entry);
    }
  }
  return std::nullopt;
}

absl::Status SingleFlight::CircleError(std::string_view circle) const {
  return absl::FailedPreconditionError(
      Named(Concat(": a loader requested a key whose load waits for the loader's own: ", circle)));
}

// Refuses a key whose loader this thread already runs, also if that flight is detached.
absl::Status SingleFlight::CheckNotItsOwn(const void* key) const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() != this || !frame->flight()->IsFor(key)) continue;
    std::string circle = Concat("'", options_.name, "' key ", TextOf(key));
    for (const LoaderFrame* f = LoaderFrame::Innermost(); f != frame->outer(); f = f->outer()) {
      circle = Concat(f->flight()->Text(), " -> ", circle);
    }
    return CircleError(circle);
  }
  return absl::OkStatus();
}

void SingleFlight::Leave(Shard& shard, Flight& flight, Waiter& waiter, AfterUnlock& after) noexcept {
  if (waiter.waits()) waiter.Leave();
  if (flight.phase == Flight::Phase::kReady && flight.chosen_runner == &waiter) ChooseRunner(flight, flight.relayed);
  DropIfUnwanted(shard, flight, after);
}

// Called in a catch clause, without the mutex: gives up the call's place with a flight. Returns the exception as an
// error.
Answer SingleFlight::Abandon(CacheCall& call) noexcept {
  Answer thrown = ThrownError();
  if (call.flight == nullptr) return thrown;
  AfterUnlock after(*this);
  const FlightPtr flight = std::move(call.flight);
  Shard& shard = shards_[flight->key.shard];
  {
    const ShardLock lock(shard);
    if (call.waiter != nullptr) {
      Leave(shard, *flight, *call.waiter, after);
    } else {
      DropIfUnwanted(shard, *flight, after);
    }
  }
  after.Run();
  return thrown;
}

bool SingleFlight::MayRunHere(const CacheCall& call) {
  return !call.flight->relayed || call.flight->chosen_runner == call.waiter.get() || call.must_run_here;
}

Executor* SingleFlight::ExecutorOf(LoadQueue queue) {
  return queue == LoadQueue::kLoad ? options_.load_executor : RefreshExecutor();
}

// The queue for loads of the call, independent of the calling thread; none for the caller's own thread.
LoadQueue SingleFlight::PreferredQueue(const CacheCall& call) {
  if (options_.load_executor != nullptr) return LoadQueue::kLoad;
  // If no threads can be started, the call cannot return before its load.
  const bool returns_early = call.soft_deadline != Instant::InfiniteFuture() && StartRefreshThreads().ok();
  return returns_early ? LoadQueue::kRefresh : LoadQueue::kNone;
}

// Decides who may run the call's flight. A call within a loader, or on a thread that the executor needs, must not wait
// for an executor.
void SingleFlight::ChooseQueue(CacheCall& call) {
  call.queue = PreferredQueue(call);
  // The write of a strict update waits for nobody who waits for its mark.
  call.must_run_here = LoaderFrame::Innermost() != nullptr || (strict_in_fleet() && UpdateFrame::InAny()) ||
                       (call.queue != LoadQueue::kNone && ExecutorOf(call.queue)->RunningInThisThread());
  if (call.must_run_here) call.queue = LoadQueue::kNone;
}

void FlightTable::Start(const FlightPtr& flight) {
  const KeyAt at = flight->key.at();
  auto record = Find(flights_, at.hash, at.key);
  if (record == flights_.end()) {
    OfKey of_key;
    of_key.detached.reserve(2);  // DetachRunning() must not throw.
    record = flights_.emplace(at.hash, std::move(of_key));
  }
  OfKey& of_key = record->second;
  of_key.current = flight;
  if (of_key.detached.size() == 2) {
    flight->phase = Phase::kBlocked;
    flight->BlockBy(of_key.detached[0].get(), of_key.detached[1].get());
  }
}

FlightPtr SingleFlight::NewFlight(const KeyAt& at, LoaderPtr loader, bool in_background) const {
  return std::make_shared<Flight>(this, options_.name, Keep(at), std::move(loader), in_background, tier_ != nullptr);
}

FlightPtr SingleFlight::StartFlight(const KeyAt& at, LoaderPtr loader, Instant now, bool in_background) {
  FlightPtr flight = NewFlight(at, std::move(loader), in_background);
  shards_[at.shard].flights.Start(flight);
  flight->times.hard_deadline = now + options_.load_hard_timeout;
  flights_.fetch_add(1, std::memory_order_relaxed);
  return flight;
}

// The calling thread is going to run the flight, which is ready.
void SingleFlight::Begin(Flight& flight, Instant now) {
  const Slot* const entry = FindValue(flight.key.at());
  const bool has_value = entry != nullptr && shards_[flight.key.shard].clearings == 0;
  flight.Begin(now, HardDeadline(flight, now), has_value ? ValueOf(*entry) : nullptr,
               has_value ? entry->TagNames() : std::vector<std::string>());
  if (flight.tier == nullptr) return;
  const bool refreshes = entry != nullptr && !flight.tier->checks && MayServe(*entry, now);
  flight.tier->known_version = refreshes ? entry->stamp().version : 0;
}

// Called for a flight that became ready while its waiters are parked, or about to look at it. Wakes the parked waiter
// with the latest deadline, so that the next runner does not give up as well. With `relay`, only that waiter or a
// loader that needs the flight may run it. Waiters within loaders are woken, too, because the chosen one may pass the
// flight to an executor, which loaders must not wait for. O(waiters).
void SingleFlight::ChooseRunner(Flight& flight, bool relay) {
  Waiter* longest = nullptr;
  for (const auto& waiter : flight.waiters) {
    if (!waiter->parked) continue;
    if (waiter->nested) waiter->Wake(false);
    if (longest == nullptr || waiter->deadline > longest->deadline) longest = waiter.get();
  }
  flight.chosen_runner = longest;
  flight.relayed = relay && longest != nullptr;
  if (longest != nullptr) longest->Wake(false);
}

// Ends a flight that has not started and has no thread left to run it. A ready background flight is in a queue.
void SingleFlight::DropIfUnwanted(Shard& shard, Flight& flight, AfterUnlock& after) noexcept {
  if (flight.started() || !flight.waiters.empty() || flight.queued() || flight.in_background) return;
  Drop(shard, flight, after);
}

void SingleFlight::Drop(Shard& shard, Flight& flight, AfterUnlock& after) noexcept {
  FlightPtr dropped = shard.flights.Drop(flight);
  GiveBackLease(dropped, after);
  after.dropped.Add(std::move(dropped));
  flights_.fetch_sub(1, std::memory_order_relaxed);
}

// Called once per flight.
void SingleFlight::AnswerFlight(Flight& flight, Answer answer, AfterUnlock& after) noexcept {
  flight.SetAnswer(std::move(answer));
  Waiter::MoveAll(flight.waiters, after.answered, false);
}

// The flight, which has its answer, stops being the current one.
void SingleFlight::RemoveCurrent(Shard& shard, Flight& flight, AfterUnlock& after) noexcept {
  if (flight.running()) {
    shard.flights.DetachRunning(flight);
  } else {
    Drop(shard, flight, after);
  }
}

// The hard time-out of a step that begins now. The steps in which a flight asks for a key that another process loads
// count as one.
Instant SingleFlight::HardDeadline(const Flight& flight, Instant now) const {
  return std::min(now, flight.times.busy_since) + options_.load_hard_timeout;
}

// Whether the flight is past its hard time-out. A flight that only waits for its turn on a caller's thread gets a new
// deadline.
bool SingleFlight::IsHung(Flight& flight, Instant now) const {
  if (flight.answered() || now < flight.times.hard_deadline) return false;
  if (flight.phase != Flight::Phase::kReady || flight.queued() || flight.times.IsBusy()) return true;
  flight.times.hard_deadline = HardDeadline(flight, now);
  return false;
}

// Frees the key of a current flight if that is past its hard time-out. Returns whether it was.
bool SingleFlight::TimeOutIfHung(const FlightPtr& current, Instant now, AfterUnlock& after) {
  if (!IsHung(*current, now)) return false;
  FailHung(current, now, after);
  return true;
}

// Answers a flight that is past its hard time-out, and gives its lease back: the result of its load is discarded, so
// other processes need not wait for it.
void SingleFlight::FailHung(const FlightPtr& flight, Instant now, AfterUnlock& after) {
  const absl::Status error = HardTimeoutError();
  NoteFailure(flight, error, after);
  Fail(*flight, error, now, after);
  GiveBackLease(flight, after);
}

// Answers a flight that has no answer yet: its loader has not begun, has not ended, or has ended too late. `entry` has
// the loader's options for the result.
void SingleFlight::Fail(Flight& flight, Answer error, Instant now, AfterUnlock& after,
                        const EntryOptions& entry) noexcept {
  Shard& shard = shards_[flight.key.shard];
  const bool is_current = shard.flights.IsCurrent(flight);
  Slot* old = nullptr;
  if (is_current && TryFindEntry(flight.key.at(), old)) {
    EntryPtr remembered;
    const bool stays = old != nullptr && !TimesOf(*old).Over(now);
    const bool is_invalidated = flight.FirstInvalidation(entry.tags) != Flight::kNeverInvalidated;
    if (!stays && !is_invalidated && absl::IsDeadlineExceeded(error.status())) {
      remembered = MakeAbsence(flight.key.at(), {.answer = error, .entry = entry}, now);
    }
    ReplaceError(flight, old, now, error, remembered.get(), after);
  }
  AnswerFlight(flight, std::move(error), after);
  if (is_current) RemoveCurrent(shard, flight, after);
}

// For on_load_error. Without memory, the load is not reported, which is logged.
void SingleFlight::NoteFailure(const FlightPtr& flight, const absl::Status& error, AfterUnlock& after) const noexcept {
  if (!has_.on_load_error) return;
  try {
    after.failed.emplace_back(flight, error);
  } catch (const std::bad_alloc&) {
    LogThrown("a failed load is not reported");
  }
}

// Replaces the error by the value of the key's entry, `old` or null, if that may still be returned, and sets the time
// of the next try. Removes an entry that is past all its deadlines. If the key then has no entry, stores `remembered`,
// unless that is null. Without memory, the error is not replaced, and the next call tries again.
void SingleFlight::ReplaceError(Flight& flight, Slot* old, Instant now, Answer& error, NewEntry* remembered,
                                AfterUnlock& after) noexcept {
  if (old != nullptr && TimesOf(*old).Over(now)) {
    Remove(shards_[flight.key.shard], *old, RemovalCause::kExpired, after);
    old = nullptr;
  }
  if (old == nullptr) {
    if (remembered == nullptr) return;
    Replace(flight.key.at(), nullptr, remembered, RemovalCause::kReplaced, false, after, now);
    after.may_exceed = true;
    return;
  }
  try {
    EntryTimes& times = KeptTimesOf(*old);
    times.retry_at = now + options_.retry_backoff;
    if (!old->has_value() || now >= times.stale_until) return;
    if (!MayServe(*old, now) && options_.stale_if_error == absl::ZeroDuration()) return;
    error = ValueOf(*old);
    flight.result.stale = now >= times.expires_at;
    flight.result.expires_at = times.expires_at;
  } catch (const std::bad_alloc&) {
    LogThrown("a failed load is not replaced by an old value");
  }
}

void SingleFlight::Offer(LoadQueue queue, QueuedLoad load) noexcept {
  try {
    ExecutorOf(queue)->Schedule(std::move(load));
  } catch (...) {  // The task has been destroyed or will be, which answers its flights.
    LogThrownBy("an executor, which was to run a load,");
  }
}

// The executor may hold a mutex of its own, and waiters of the flights may be called back on that executor. The timers'
// thread therefore answers the flights.
void SingleFlight::Dropped(LoadQueue queue, Flights flights) noexcept {
  try {
    if (timers_->Start().ok()) {
      timers_->Schedule(Instant::InfinitePast(), [this, gate = gate_, queue, flights] {
        CallGate::Call inside(*gate, 0);
        if (inside.inside()) Refused(queue, flights);
      });
      return;
    }
  } catch (...) {  // Out of memory.
  }
  Refused(queue, flights);
}

// Answers the flights that no thread has begun.
void SingleFlight::Refused(LoadQueue queue, std::span<const FlightPtr> flights) noexcept {
  const absl::Status refusal = StatusWithText(absl::StatusCode::kResourceExhausted, [&] {
    return Named(Concat(": the ", queue == LoadQueue::kLoad ? "load_executor" : "refresh_executor", " dropped a load"));
  });
  for (const FlightPtr& flight : flights) {
    AfterUnlock after(*this);
    ShardLock lock(shards_[flight->key.shard]);
    flight->Leave(queue);
    if (flight->started() || flight->queued()) continue;
    if (flight->in_background) LogParts(LogSeverity::kError, refusal.message());
    NoteFailure(flight, refusal, after);
    Fail(*flight, refusal, Now(), after);
    lock.Unlock();
    after.Run();
  }
}

// Whether the calling thread is to run the flight: no other thread does, and it is still wanted. The flight
// leaves `queue`. Without memory, it is answered.
bool SingleFlight::BeginQueued(Flight& flight, LoadQueue queue) noexcept {
  AfterUnlock after(*this);
  Shard& shard = shards_[flight.key.shard];
  ShardLock lock(shard);
  flight.Leave(queue);
  bool begins = flight.phase == Flight::Phase::kReady;
  if (begins && flight.waiters.empty() && !flight.in_background) {
    begins = false;
    if (!flight.queued()) Drop(shard, flight, after);
  }
  try {
    if (begins) Begin(flight, Now());
  } catch (const std::bad_alloc&) {
    begins = false;
    Fail(flight, ThrownError(), Now(), after);
  }
  lock.Unlock();
  after.Run();
  return begins;
}

// Begins the flights that this thread is to run, and returns them: they are at the beginning of `flights` now. See
// BeginQueued().
std::span<const FlightPtr> SingleFlight::BeginAll(Flights& flights, LoadQueue queue) noexcept {
  size_t begun = 0;
  for (FlightPtr& flight : flights) {
    if (BeginQueued(*flight, queue)) std::swap(flight, flights[begun++]);
  }
  return std::span(flights).first(begun);
}

// A running batch. Its flights wait for everything that its loader waits for, until each is published.
class SingleFlight::BatchNode final : public FlightNode {
 public:
  BatchNode(const SingleFlight* cache, std::span<const FlightPtr> flights) : FlightNode(cache), flights_(flights) {
    for (const FlightPtr& flight : flights_) flight->RunWithin(this);
  }

  bool IsFor(const void* key) const override {
    return std::any_of(flights_.begin(), flights_.end(), [&](const FlightPtr& flight) { return flight->IsFor(key); });
  }

  std::string Text() const override {
    constexpr size_t kNamed = 8;
    std::string text = flights_.size() == 1 ? "a batch of " : Concat("a batch of ", flights_.size(), ", with ");
    for (size_t i = 0; i < std::min(flights_.size(), kNamed); ++i) {
      text += Concat(i == 0 ? "" : ", ", flights_[i]->Text());
    }
    return text;
  }

 private:
  const std::span<const FlightPtr> flights_;
};

// Runs flights that this thread has begun. A tier may have the values already, or another process
// may be loading them. For one flight, returns the runner's answer if it differs from the flight's.
std::optional<Answer> SingleFlight::Run(std::span<const FlightPtr> flights, bool as_batch,
                                        const Runner& runner) noexcept {
  AfterUnlock after(*this);
  std::optional<Answer> own;
  {
    const FlightPtr& first = flights.front();
    as_batch = as_batch || (first->loader == nullptr && !has_.load);
    const bool nested = LoaderFrame::Innermost() != nullptr;
    std::optional<BatchNode> together;
    if (as_batch || flights.size() > 1) together.emplace(this, flights);
    LoaderFrame frame(together.has_value() ? static_cast<FlightNode*>(&*together)
                                           : first.get());  // Other callbacks, too.
    const size_t most = as_batch && options_.max_batch > 0 ? options_.max_batch : flights.size();
    for (std::span<const FlightPtr> rest = flights; !rest.empty();) {
      const std::span<const FlightPtr> batch = rest.first(std::min(most, rest.size()));
      rest = rest.subspan(batch.size());
      if (batch.data() != flights.data() && !BeginBatch(batch, runner, after)) continue;
      std::vector<FlightPtr> missing;
      if (tier_ != nullptr) missing = tier_->Ask(batch, as_batch, nested, runner, after);
      const std::span<const FlightPtr> loaded_here = tier_ != nullptr ? missing : batch;
      if (!loaded_here.empty()) own = RunLoader(loaded_here, as_batch, runner, after);
    }
  }
  after.Run();  // When all is published, because user code must not need a flight of this thread.
  return own;
}

// For a batch that had to wait for others of its call. False: the caller has given up, so other calls load its keys; or
// the cache is being destroyed.
bool SingleFlight::BeginBatch(std::span<const FlightPtr> batch, const Runner& runner, AfterUnlock& after) noexcept {
  const Instant now = Now();
  const bool closed = gate_->closed();
  const bool begins = !closed && !runner.GaveUp(now);
  for (const FlightPtr& flight : batch) {
    if (!begins) {
      const absl::Status error = closed                         ? CancelledError()
                                 : runner.stop.stop_requested() ? StoppedError()
                                                                : DeadlineError();
      (void)Publish(flight, {.answer = error, .ended = now}, runner, after);
      continue;
    }
    const ShardLock lock(shards_[flight->key.shard]);
    if (!flight->answered()) flight->times.hard_deadline = now + options_.load_hard_timeout;
  }
  return begins;
}

// Loads all flights by the batch loader, or one by its own loader, and publishes the results.
std::optional<Answer> SingleFlight::RunLoader(std::span<const FlightPtr> flights, bool as_batch, const Runner& runner,
                                              AfterUnlock& after) noexcept {
  const FlightPtr& first = flights.front();
  Instant hard_deadline = Instant::InfiniteFuture();
  for (const FlightPtr& flight : flights) hard_deadline = std::min(hard_deadline, flight->RunnersTimes().hard_deadline);
  const Instant deadline = std::min(runner.deadline, hard_deadline);
  const Instant started = Now();
  bool threw = true;
  std::vector<LoadResult> results;
  std::vector<Loaded> loaded;
  absl::Status done = Guarded<absl::Status>(loader_label_, [&]() -> absl::Status {
    std::vector<LoadRequest> requests;
    requests.reserve(flights.size());
    results.reserve(1);
    loaded = std::vector<Loaded>(flights.size());
    for (const FlightPtr& flight : flights) requests.push_back({flight->key.holder->key(), flight->previous.box()});
    if (as_batch) return LoadAll(requests, deadline, runner.stop, results, threw);
    results.push_back(Load(requests.front(), first->loader, deadline, runner.stop, threw));
    return results.front().answer->status();
  });
  const Instant ended = Now();
  EndLoad(done, ended - started, ended >= hard_deadline, threw && first->in_background);
  if (done.ok() && as_batch) {
    done = StatusWithText(absl::StatusCode::kNotFound, [&] { return Named(": the batch loader found no value"); });
  }
  for (size_t i = 0; i < loaded.size(); ++i) {
    Loaded& result = loaded[i];
    result.took = ended - started;
    result.ended = ended;
    if (!results.empty()) result.entry = std::move(results[i].entry);
    if (!results.empty() && results[i].answer.has_value()) {
      result.answer = *std::move(results[i].answer);
    } else {
      result.answer = done;
    }
    Resolve(*flights[i], result);
  }
  std::optional<Answer> own;
  for (size_t i = 0; i < flights.size();) {
    size_t end = flights.size();
    if (tier_ != nullptr && !loaded.empty()) end = i + tier_->Fill(flights.subspan(i), std::span(loaded).subspan(i));
    for (; i < end; ++i) {
      own = Publish(flights[i], loaded.empty() ? Loaded{.answer = done, .ended = ended} : std::move(loaded[i]), runner,
                    after);
    }
  }
  return own;
}

// The answer of a loader that has renewed the previous value is that value, with its tags.
void SingleFlight::Resolve(Flight& flight, Loaded& loaded) const noexcept {
  loaded.previous = std::move(flight.previous);  // Only the runner uses it, and releases it without the mutex.
  if (!IsNotModified(loaded.answer.status())) return;
  loaded.renews = loaded.previous != nullptr;
  if (!loaded.renews) {
    loaded.answer = StatusWithText(absl::StatusCode::kInternal, [&] {
      return Concat(loader_label_, " returned NotModified() although there was no previous value");
    });
    return;
  }
  try {
    loaded.entry.tags.insert(loaded.entry.tags.end(), flight.previous_tags.begin(), flight.previous_tags.end());
    loaded.answer = loaded.previous;
  } catch (const std::bad_alloc&) {
    loaded.renews = false;
    loaded.answer = ThrownError();
  }
}

// Counts the run of a loader, and logs its exception if no call may receive that.
void SingleFlight::EndLoad(const absl::Status& result, absl::Duration took, bool late, bool failed_refresh) noexcept {
  if (failed_refresh) LogParts(LogSeverity::kError, result.message(), "; a refresh fails");
  Count(late                       ? kLoadTimeout
        : result.ok()              ? kLoadSuccess
        : absl::IsNotFound(result) ? kLoadNotFound
        : IsNotModified(result)    ? kLoadNotModified
                                   : kLoadError);
  Observe(kLoadSeconds, took);
}

// Stores the result and answers the flight in one step, so that a call finds either the flight or its result. Returns
// the runner's own answer if its caller gave up and others load again.
std::optional<Answer> SingleFlight::Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                            AfterUnlock& after) noexcept {
  const bool late = loaded.ended >= flight->RunnersTimes().hard_deadline;
  const bool absent = absl::IsNotFound(loaded.answer.status());
  const bool conclusive = loaded.answer.ok() || absent;
  const bool gave_up = (absl::IsDeadlineExceeded(loaded.answer.status()) && loaded.ended >= runner.deadline) ||
                       (absl::IsCancelled(loaded.answer.status()) && runner.stop.stop_requested());
  const Instant now = Now();
  EntryPtr fresh;
  if (!late && loaded.answer.ok()) fresh = MakeEntry(flight->key.at(), loaded, now);
  const bool fails = !conclusive && !gave_up && !absl::IsCancelled(loaded.answer.status());
  if (!late && (absent || fails)) fresh = MakeAbsence(flight->key.at(), loaded, now);
  flight->RunWithin(nullptr);
  std::optional<Answer> own;
  const Slot* stored = nullptr;
  Shard& shard = shards_[flight->key.shard];
  {
    const ShardLock lock(shard);
    if (late && !flight->answered()) {
      const absl::Status error = HardTimeoutError();
      NoteFailure(flight, error, after);
      Fail(*flight, error, now, after, loaded.entry);
    }
    if (!late && fails) NoteFailure(flight, loaded.answer.status(), after);
    if (gave_up && !flight->answered() && flight->waiters.size() > 1) {
      own = loaded.answer;
      if (shard.flights.IsCurrent(*flight)) {
        HandOn(flight, now, after);
        return own;
      }
      flight->result.valid_for_joins_before = 0;  // They look up the key again.
    }
    Slot* old = nullptr;
    const bool found = TryFindEntry(flight->key.at(), old);
    const bool answered = flight->answered();
    const bool was_current = Finish(flight, now, after);
    const uint64_t first_invalidation =
        conclusive ? flight->FirstInvalidation(loaded.entry.tags) : Flight::kNeverInvalidated;
    const bool outdated =
        loaded.refused || (loaded.stamp.version != 0 && !loaded.unstored && !tier_->MayStore(loaded.stamp));
    if (!was_current || !found || outdated) {
      // Stores nothing.
    } else if (!conclusive) {
      // That a caller gave up says nothing about the key. A flight that is answered keeps its answer.
      const bool is_invalidated = flight->FirstInvalidation(loaded.entry.tags) != Flight::kNeverInvalidated;
      if (!gave_up && !answered) {
        ReplaceError(*flight, old, now, loaded.answer, is_invalidated ? nullptr : fresh.get(), after);
      }
    } else if (first_invalidation == Flight::kNeverInvalidated) {
      if (fresh != nullptr) fresh->is_use = !flight->in_background || !flight->waiters.empty();
      stored = Replace(flight->key.at(), old, fresh.get(), RemovalCause::kReplaced, loaded.renews, after, now);
      if (stored != nullptr && !answered) flight->result.expires_at = stored->expires_at();
    } else if (old != nullptr) {
      Remove(shard, *old, RemovalCause::kInvalidated, after);
    }
    if (!answered) {
      flight->result.valid_for_joins_before = std::min(flight->result.valid_for_joins_before, first_invalidation);
      AnswerFlight(*flight, std::move(loaded.answer), after);
    }
  }
  flights_.fetch_sub(1, std::memory_order_relaxed);
  Wake(after);
  if (stored != nullptr) Trim(stored, after);
  return own;
}

// Ends a flight that runs; it is answered now or before the mutex is released. Its lease goes back to the tier, and a
// flight that it has blocked becomes ready. Returns whether it was its key's current one. The caller counts it as ended
// when its result can be seen: flights_.
bool SingleFlight::Finish(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept {
  const auto [was_current, unblocked] = shards_[flight->key.shard].flights.Finish(*flight);
  GiveBackLease(flight, after);
  if (unblocked != nullptr) {
    if (options_.load_executor != nullptr || unblocked->NeedsExecutor()) QueueUp(unblocked, now, after);
    ChooseRunner(*unblocked, false);
  }
  return was_current;
}

// The runner's caller gave up, and others still wait for the flight.
void SingleFlight::HandOn(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept {
  flight->phase = Flight::Phase::kReady;
  flight->times.hard_deadline = now + options_.load_hard_timeout;
  if (flight->NeedsExecutor()) QueueUp(flight, now, after);
  ChooseRunner(*flight, true);
}

// Queues a ready flight on an executor: that for loads if a call waits for it, although its refresh may be queued.
void SingleFlight::QueueUp(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept {
  const bool has_call = !flight->in_background || !flight->waiters.empty();
  const bool load = options_.load_executor != nullptr && has_call;
  const LoadQueue queue = load ? LoadQueue::kLoad : LoadQueue::kRefresh;
  if (flight->In(queue)) return;
  load ? after.for_load.Add(flight) : after.for_refresh.Add(flight);
  EnterQueue(*flight, queue, now);
}

// The same if the caller passes the flight to the executor.
void SingleFlight::EnterQueue(Flight& flight, LoadQueue queue, Instant now) {
  flight.Enter(queue);
  flight.times.hard_deadline = HardDeadline(flight, now);
}

// Wakes threads, and leaves callbacks in the list. Runs no user code.
void SingleFlight::Wake(AfterUnlock& after) {
  after.answered.remove_if([](const std::shared_ptr<Waiter>& waiter) {
    waiter->Wake(true);
    return !waiter->is_callback;
  });
}

AfterUnlock::~AfterUnlock() {
  assert(idle() || std::uncaught_exceptions() > uncaught);
  Run();
}

// Does all the work in `after`. This thread may not run a flight.
void SingleFlight::Settle(AfterUnlock& after) noexcept {
  Wake(after);
  const auto offer = [&](LoadQueue queue, FlightPtr flight) {
    Flights flights;
    flights.push_back(std::move(flight));
    Offer(queue, QueuedLoad(*this, queue, std::move(flights), false));
  };
  while (!after.for_load.empty()) offer(LoadQueue::kLoad, after.for_load.Pop());
  while (!after.for_refresh.empty()) offer(LoadQueue::kRefresh, after.for_refresh.Pop());
  for (const std::shared_ptr<Waiter>& waiter : std::exchange(after.answered, {})) {
    AnswerAsync(std::static_pointer_cast<AsyncCall>(waiter));
  }
  const bool sweeps = std::exchange(after.needs_sweep, false) && !sweep_planned_.load(std::memory_order_relaxed);
  if (sweeps) PlanSweep();
  if (std::exchange(after.may_exceed, false)) Trim(nullptr, after);
  if (!after.released.empty()) tier_->Release(std::exchange(after.released, {}));
  for (const auto& [flight, error] : std::exchange(after.failed, {})) {
    const absl::Status told = GuardCallback<absl::Status>("on_load_error", [&] {
      TellLoadError(flight->key.holder->key(), error);
      return absl::OkStatus();
    });
    if (!told.ok()) LogParts(LogSeverity::kError, "LoadingCache '", options_.name, "': ", told.message());
  }
  after.dropped.Clear();
  if (std::exchange(after.crowded, false)) LogCrowd();
  if (const size_t unreported = std::exchange(after.unreported, 0); unreported > 0) {
    LogParts(LogSeverity::kError, "LoadingCache '", options_.name, "': there is no memory to report ", unreported,
             " removals to the listener");
  }
  if (!after.removed.empty()) Notify(std::exchange(after.removed, {}));
  if (!after.boxes.empty()) FreeBoxes(std::move(after.boxes));
  if (std::exchange(after.retired, false)) PlanReclaim();
}

void SingleFlight::CheckNotInLoader() const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() == this) DestroyedFromWithin("loader");
  }
}

// Whether the entry is not older than the tier promises.
bool SingleFlight::MayServe(const Slot& entry, Instant now) const {
  return tier_ == nullptr || entry.stamp().version == 0 || tier_->Trusts(now);
}

// Leaves it to `after` to give the flight's lease back, if it has one.
void SingleFlight::GiveBackLease(const FlightPtr& flight, AfterUnlock& after) {
  if (flight->tier != nullptr && !flight->tier->lease.token.empty()) tier_->GiveBackLease(flight, after);
}

// Whether this thread runs the write of a strict update of the flight's key.
bool SingleFlight::LoadsWithin(const Flight& flight) const {
  return strict_in_fleet() && UpdateFrame::Updates(this, flight.key.hash);
}

// Whether the result of a flight that runs is not older than the tier promises.
bool SingleFlight::MayJoin(const Flight& flight, Instant now) const {
  if (tier_ == nullptr || flight.phase != Flight::Phase::kRunning) return true;
  if (options_.strict) return tier_->Trusts(now) && !flight.tier->unleased;
  return tier_->Trusts(now) || now < flight.times.begun + tier_->cache->max_staleness();
}

}  // namespace stockade::cache_internal

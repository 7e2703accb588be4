// Many keys at once.

#include <algorithm>
#include <atomic>
#include <span>
#include <unordered_map>

#include "flight_graph.h"
#include "loads.h"
#include "shard.h"
#include "stockade/base/executor.h"
#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"
#include "strict.h"

namespace stockade::cache_internal {

// The flights that a call for many keys has started, to be loaded by one batch. A thread that gets to them first may
// run them.
struct CacheCore::Claimed {
  std::vector<FlightPtr> here;
  std::vector<FlightPtr> elsewhere;
  Executor* executor = nullptr;  // For `elsewhere`.
};

// A running batch. Its flights wait for everything that its loader waits for, until each is published.
class CacheCore::BatchNode final : public FlightNode {
 public:
  BatchNode(const CacheBase* cache, const std::vector<FlightPtr>& flights) : FlightNode(cache), flights_(flights) {
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
  const std::vector<FlightPtr>& flights_;
};

std::vector<Answer> CacheCore::FindAll(const std::vector<KeyAt>& keys, const CacheGetOptions& options) {
  const CacheCall call = NewCall(options);
  std::vector<Part> parts = PartsOf(keys, call);
  LockGuards reading;
  std::optional<StrictReadFrame> frame;
  if (options_.strict) TakeReadLocks(parts, call.deadline, reading);
  if (!reading.empty()) frame.emplace();
  FindAll(parts, {call.deadline, call.stop}, false);
  for (const Part& part : parts) CountRequest(part.call);
  std::vector<Answer> answers;
  answers.reserve(parts.size());
  for (Part& part : parts) answers.push_back(*std::move(part.answer));
  return answers;
}

std::vector<CacheCore::Part> CacheCore::PartsOf(const std::vector<KeyAt>& keys, const CacheCall& call) const {
  std::vector<Part> parts;
  parts.reserve(keys.size());
  for (const KeyAt& at : keys) parts.push_back(Part{at, call, std::nullopt});
  return parts;
}

// Answers each part that has no answer yet. It first looks up all of them and claims the missing ones without waiting
// in between, then runs the batch, and only then waits for loads of other threads. Two calls that need each other's
// keys therefore do not deadlock.
void CacheCore::FindAll(std::span<Part> parts, const Runner& runner, bool warm_up) {
  Claimed claimed;
  claimed.here.reserve(parts.size());
  claimed.elsewhere.reserve(parts.size());
  for (Part& part : parts) {
    if (!part.answer.has_value()) Open(part, warm_up, claimed);
  }
  if (!claimed.elsewhere.empty()) QueueBatch(claimed.executor, std::move(claimed.elsewhere));
  if (const auto begun = BeginAll(claimed.here, nullptr); !begun.empty()) RunBatch(begun, runner);
  for (Part& part : parts) {
    if (!part.answer.has_value()) part.answer = AwaitPart(part);
  }
}

// Waits for the flight of a part, or runs it.
Answer CacheCore::AwaitPart(Part& part) noexcept {
  try {
    Aftermath after(*this);
    ShardLock lock = Lock(shards_[part.at.shard]);
    if (std::optional<Answer> answer = Await(part.call, lock, after)) return *std::move(answer);
  } catch (...) {
    Answer thrown = ThrownError();
    Abandon(part.call);
    return thrown;
  }
  part.call.flight.reset();
  return Find(part.at, part.call, nullptr);
}

// Looks up a part, or adds it to a flight.
void CacheCore::Open(Part& part, bool warm_up, Claimed& claimed) noexcept {
  try {
    OpenOrThrow(part, warm_up, claimed);
  } catch (...) {
    part.answer = ThrownError();
    Abandon(part.call);
  }
}

void CacheCore::OpenOrThrow(Part& part, bool warm_up, Claimed& claimed) {
  const KeyAt& at = part.at;
  Shard& shard = shards_[part.at.shard];
  CacheCall& call = part.call;
  for (;;) {
    const Instant now = Now();
    std::optional<RefreshTrigger> due;
    Aftermath after(*this);
    ShardLock lock = Lock(shard);
    part.answer = Serve(at, now, true, call.result, due);
    if (part.answer.has_value()) {
      lock.unlock();
      if (due.has_value()) StartRefresh(at, *due, nullptr);
      return;
    }
    call.result = kRequestMiss;
    if (TimeOutHung(at, now, after)) continue;
    if (absl::Status refusal = Join(at, call, now); !refusal.ok()) {
      part.answer = refusal;
      return;
    }
    Sit(call);
    if (call.result != kRequestMiss) return;
    if (warm_up) Count(kRefreshWarmUp);
    if (call.flight->phase != Flight::Phase::kReady) return;
    Executor* const executor = ExecutorFor(call);
    if (!has_.load_all) {
      if (executor != nullptr) QueueUp(call.flight, now, after);
    } else if (executor == nullptr) {
      claimed.here.push_back(call.flight);
    } else {
      claimed.executor = executor;
      claimed.elsewhere.push_back(call.flight);
    }
    return;
  }
}

void CacheCore::QueueBatch(Executor* executor, std::vector<FlightPtr> flights) {
  bool Flight::*const queued = QueuedFlag(executor);
  std::erase_if(flights, [&](const FlightPtr& flight) {
    const ShardLock lock = Lock(shards_[flight->key.shard]);
    if (flight->phase != Flight::Phase::kReady || (*flight).*queued) return true;
    MarkQueued(*flight, queued, Now());
    return false;
  });
  if (!flights.empty()) Offer(executor, QueuedLoad(*this, queued, std::move(flights), true));
}

// Begins the flights that this thread is to run, and returns them. `queued` as in BeginQueued(); null if they were not
// in a queue.
std::vector<FlightPtr> CacheCore::BeginAll(const std::vector<FlightPtr>& flights, bool Flight::*queued) {
  std::vector<FlightPtr> begun;
  begun.reserve(flights.size());
  for (const FlightPtr& flight : flights) {
    if (BeginQueued(*flight, queued)) begun.push_back(flight);
  }
  return begun;
}

// Runs the batch loader for flights that this thread has begun; no mutex is held. For one flight, returns the same as
// Run().
std::optional<Answer> CacheCore::RunBatch(const std::vector<FlightPtr>& flights, const Runner& runner) noexcept {
  Instant hard_deadline = Instant::InfiniteFuture();
  for (const FlightPtr& flight : flights) hard_deadline = std::min(hard_deadline, flight->hard_deadline);
  const Instant started = Now();
  Aftermath after(*this);  // Done when all is published, because user code must not need a flight of this thread.
  BatchNode node(this, flights);
  LoaderFrame frame(&node);
  bool threw = true;
  std::vector<LoadResult> results;
  std::vector<LoadRequest> requests;
  absl::Status done = GuardCallback<absl::Status>(loader_label_, [&] {
    requests.reserve(flights.size());
    for (const FlightPtr& flight : flights) requests.push_back({flight->key.holder->key(), flight->previous.box()});
    return LoadAll(requests, std::min(runner.deadline, hard_deadline), runner.stop, results, threw);
  });
  if (threw && flights.front()->in_background) LogFailedRefresh(done);
  const Instant ended = Now();
  CountLoad(done, ended - started, ended >= hard_deadline);
  if (done.ok()) done = BatchMissError();
  std::optional<Answer> own;
  for (size_t i = 0; i < flights.size(); ++i) {
    Loaded loaded{done, {}, ended - started, ended};
    if (!results.empty()) {
      if (results[i].answer.has_value()) loaded.answer = *std::move(results[i].answer);
      loaded.entry = std::move(results[i].entry);
    }
    own = Publish(flights[i], std::move(loaded), runner, after);
  }
  return own;
}

absl::StatusOr<WarmUpReport> CacheCore::WarmUp(const std::vector<KeyAt>& keys, const WarmUpOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (IsNested()) return WarmUpRefusedError();
  const CacheCall call = NewCall({.timeout = options.timeout});
  std::vector<Part> parts = PartsOf(keys, call);
  const size_t step = has_.load_all ? options.batch_size : 1;
  const size_t steps = parts.size() / step + (parts.size() % step != 0 ? 1 : 0);
  if (steps > 0) {
    std::atomic<size_t> next{0};
    const absl::StatusOr<std::unique_ptr<ThreadPool>> threads =
        ThreadPool::Create(std::min(options.parallelism, steps));  // Its destructor waits for the tasks.
    if (!threads.ok()) return threads.status();
    for (size_t thread = 0; thread < std::min(options.parallelism, steps); ++thread) {
      (*threads)->Schedule([&] {
        for (size_t i = next++; i < steps; i = next++) {
          FindAll(std::span(parts).subspan(i * step, std::min(step, parts.size() - i * step)),
                  {call.deadline, call.stop}, true);
        }
      });
    }
  }
  WarmUpReport report;
  for (const Part& part : parts) {
    if (part.answer->ok()) {
      ++report.present;
    } else if (absl::IsNotFound(part.answer->status())) {
      ++report.not_found;
    } else {
      ++report.failed;
      report.first_error.Update(part.answer->status());
    }
  }
  return report;
}

}  // namespace stockade::cache_internal

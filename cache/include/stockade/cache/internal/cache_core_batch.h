#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_BATCH_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_BATCH_H_

// Bodies of CacheCore: many keys at once. Included by cache_core.h.

#include <algorithm>
#include <atomic>
#include <span>
#include <unordered_map>

#include "stockade/base/executor.h"
#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// One distinct key of a call for many keys.
template <typename Key, typename Value, typename Hash, typename Eq>
struct CacheCore<Key, Value, Hash, Eq>::Part {
  const Key& key;
  uint64_t hash;
  size_t shard;
  Call call;
  std::optional<Answer> answer;
};

// The flights that a call for many keys has started, to be loaded by one batch. A thread that gets to them first may
// run them.
template <typename Key, typename Value, typename Hash, typename Eq>
struct CacheCore<Key, Value, Hash, Eq>::Claimed {
  std::vector<FlightPtr> here;
  std::vector<FlightPtr> elsewhere;
  Executor* executor = nullptr;  // For `elsewhere`.
};

// A running batch. Its flights wait for everything that its loader waits for, until each is published.
template <typename Key, typename Value, typename Hash, typename Eq>
class CacheCore<Key, Value, Hash, Eq>::BatchNode final : public FlightNode {
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

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::GetAll(const std::vector<Key>& keys, const CacheGetOptions& options)
    -> std::vector<absl::StatusOr<Handle>> {
  CheckFork();
  try {
    return FindAll(keys, options);
  } catch (...) {
    return std::vector<absl::StatusOr<Handle>>(keys.size(), ThrownError());
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::FindAll(const std::vector<Key>& keys, const CacheGetOptions& options)
    -> std::vector<absl::StatusOr<Handle>> {
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return std::vector<absl::StatusOr<Handle>>(keys.size(), CancelledError());
  const Call call = NewCall(options);
  std::vector<size_t> part_of;  // The part of each key.
  std::vector<Part> parts = PartsOf(keys, call, part_of);
  std::vector<typename KeyLocks::Guard> reading;
  std::optional<StrictReadFrame> frame;
  if (options_.strict) TakeReadLocks(parts, call.deadline, reading);
  if (!reading.empty()) frame.emplace();
  FindAll(parts, {call.deadline, call.stop}, false);
  for (const Part& part : parts) CountRequest(part.call);
  std::vector<absl::StatusOr<Handle>> answers;
  answers.reserve(keys.size());
  for (const size_t part : part_of) {
    const Answer& answer = *parts[part].answer;
    if (answer.ok()) {
      answers.push_back(Handle(*answer));
    } else {
      answers.push_back(answer.status());
    }
  }
  return answers;
}

// Each distinct key once; `part_of` gets the index of each key's part.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::PartsOf(const std::vector<Key>& keys, const Call& call,
                                              std::vector<size_t>& part_of) const -> std::vector<Part> {
  const auto hash = [](const Key* key) { return static_cast<size_t>(HashOf(*key)); };
  const auto equal = [](const Key* a, const Key* b) { return Eq()(*a, *b); };
  std::unordered_map<const Key*, size_t, decltype(hash), decltype(equal)> seen(keys.size(), hash, equal);
  std::vector<Part> parts;
  parts.reserve(keys.size());
  part_of.reserve(keys.size());
  for (const Key& key : keys) {
    const auto [found, added] = seen.try_emplace(&key, parts.size());
    if (added) {
      const HashedKey at = Hashed(key);
      parts.push_back(Part{key, at.hash, at.shard, call, std::nullopt});
    }
    part_of.push_back(found->second);
  }
  return parts;
}

// Answers each part that has no answer yet. It first looks up all of them and claims the missing ones without waiting
// in between, then runs the batch, and only then waits for loads of other threads. Two calls that need each other's
// keys therefore do not deadlock.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::FindAll(std::span<Part> parts, const Runner& runner, bool warm_up) {
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
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::AwaitPart(Part& part) noexcept -> Answer {
  try {
    Aftermath after(*this);
    ShardLock lock = Lock(shards_[part.shard]);
    if (std::optional<Answer> answer = Await(part.call, lock, after)) return *std::move(answer);
  } catch (...) {
    Answer thrown = ThrownError();
    Abandon(part.call);
    return thrown;
  }
  part.call.flight.reset();
  return Find(KeyOf(part), part.call, nullptr);
}

// Looks up a part, or adds it to a flight.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Open(Part& part, bool warm_up, Claimed& claimed) noexcept {
  try {
    OpenOrThrow(part, warm_up, claimed);
  } catch (...) {
    part.answer = ThrownError();
    Abandon(part.call);
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::OpenOrThrow(Part& part, bool warm_up, Claimed& claimed) {
  const HashedKey at = KeyOf(part);
  Shard& shard = shards_[part.shard];
  Call& call = part.call;
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
    if (call.flight->phase != Phase::kReady) return;
    Executor* const executor = ExecutorFor(call);
    if (!callbacks_.load_all) {
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

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::QueueBatch(Executor* executor, std::vector<FlightPtr> flights) {
  bool FlightT::*const queued = QueuedFlag(executor);
  std::erase_if(flights, [&](const FlightPtr& flight) {
    const ShardLock lock = Lock(shards_[flight->shard]);
    if (flight->phase != Phase::kReady || (*flight).*queued) return true;
    MarkQueued(*flight, queued, Now());
    return false;
  });
  if (!flights.empty()) Offer(executor, QueuedLoad(*this, queued, std::move(flights), true));
}

// Begins the flights that this thread is to run, and returns them. `queued` as in BeginQueued(); null if they were not
// in a queue.
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::BeginAll(const std::vector<FlightPtr>& flights, bool FlightT::*queued)
    -> std::vector<FlightPtr> {
  std::vector<FlightPtr> begun;
  begun.reserve(flights.size());
  for (const FlightPtr& flight : flights) {
    if (BeginQueued(*flight, queued)) begun.push_back(flight);
  }
  return begun;
}

// Runs the batch loader for flights that this thread has begun; no mutex is held. For one flight, returns the same as
// Run().
template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::RunBatch(const std::vector<FlightPtr>& flights, const Runner& runner) noexcept
    -> std::optional<Answer> {
  Instant hard_deadline = Instant::InfiniteFuture();
  for (const FlightPtr& flight : flights) hard_deadline = std::min(hard_deadline, flight->hard_deadline);
  const Instant started = Now();
  Aftermath after(*this);  // Done when all is published, because user code must not need a flight of this thread.
  BatchNode node(this, flights);
  LoaderFrame frame(&node);
  std::optional<Batch> batch;
  bool threw = true;
  std::vector<typename Batch::Item*> items;  // By flight, so that no key is looked up after the loader has run.
  absl::Status done = GuardCallback<absl::Status>(loader_label_, [&] {
    std::vector<Key> keys;
    keys.reserve(flights.size());
    for (const FlightPtr& flight : flights) keys.push_back(flight->key);
    batch.emplace(options_.clock, std::min(runner.deadline, hard_deadline), runner.stop, keys);
    batch->asked_ = &previous_asked_;
    std::vector<typename Batch::Item*> found;
    for (const FlightPtr& flight : flights) {
      found.push_back(&batch->items_.find(flight->key)->second);
      found.back()->previous = flight->previous;
    }
    items = std::move(found);
    absl::Status loaded = callbacks_.load_all(keys, *batch);
    threw = false;
    return loaded;
  });
  if (threw && flights.front()->in_background) LogFailedRefresh(done);
  const Instant ended = Now();
  CountLoad(done, ended - started, ended >= hard_deadline);
  if (done.ok()) done = BatchMissError();
  std::optional<Answer> own;
  for (size_t i = 0; i < flights.size(); ++i) {
    Loaded loaded{done, {}, ended - started, ended};
    if (!items.empty()) {
      if (items[i]->result.has_value()) loaded.answer = *std::move(items[i]->result);
      loaded.entry = std::move(items[i]->entry);
    }
    own = Publish(flights[i], std::move(loaded), runner, after);
  }
  return own;
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::WarmUp(const std::vector<Key>& keys, const WarmUpOptions& options)
    -> absl::StatusOr<WarmUpReport> {
  CheckFork();
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (LoaderFrame::Innermost() != nullptr || StrictReadFrame::InAny() || UpdateFrame::InAny()) {
    return WarmUpRefusedError();
  }
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return CancelledError();
  try {
    return LoadMissing(keys, options);
  } catch (...) {
    return ThrownError();
  }
}

template <typename Key, typename Value, typename Hash, typename Eq>
auto CacheCore<Key, Value, Hash, Eq>::LoadMissing(const std::vector<Key>& keys, const WarmUpOptions& options)
    -> absl::StatusOr<WarmUpReport> {
  const Call call = NewCall({.timeout = options.timeout});
  std::vector<size_t> part_of;
  std::vector<Part> parts = PartsOf(keys, call, part_of);
  const size_t step = callbacks_.load_all ? options.batch_size : 1;
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

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_BATCH_H_

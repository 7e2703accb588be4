// Many keys at once.

#include <algorithm>
#include <atomic>
#include <span>
#include <unordered_map>

#include "shard.h"
#include "stockade/base/executor.h"
#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"
#include "tier_side.h"

namespace stockade::cache_internal {

// The flights that a call for many keys has started, to be loaded by one batch. A thread that gets to them first may
// run them.
struct CacheCore::Claimed {
  Flights here;
  Flights elsewhere;
  LoadQueue queue = LoadQueue::kNone;  // For `elsewhere`.
};

std::vector<Answer> CacheCore::FindAll(const std::vector<KeyAt>& keys, const CacheGetOptions& options) {
  const CacheCall call = NewCall(options);
  std::vector<Part> parts = PartsOf(keys, call);
  LockGuards reading;
  std::optional<StrictReadFrame> frame;
  if (locks_reads()) TakeReadLocks(parts, call.deadline, reading);
  if (!reading.empty()) frame.emplace();
  std::vector<Answer> answers;
  answers.reserve(parts.size());
  FindAll(parts, {call.deadline, call.stop}, false);
  for (const Part& part : parts) CountRequest(part.call);
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
// keys therefore do not deadlock. Throws only before the first one.
void CacheCore::FindAll(std::span<Part> parts, const Runner& runner, bool warm_up) {
  Claimed claimed;
  claimed.here.reserve(parts.size());
  claimed.elsewhere.reserve(parts.size());
  for (Part& part : parts) {
    if (!part.answer.has_value()) LookUp(part, warm_up, claimed);
  }
  if (!claimed.elsewhere.empty()) QueueBatch(claimed.queue, std::move(claimed.elsewhere));
  const std::span<const FlightPtr> begun = BeginAll(claimed.here, LoadQueue::kNone);
  if (!begun.empty()) Run(begun, has_.load_all, runner);
  // First the keys that this thread can load now. Others wait for their leases, while it may wait for keys that other
  // processes load or write.
  for (const bool now : {true, false}) {
    for (Part& part : parts) {
      if (!part.answer.has_value() && (!now || CanLoadNow(part))) part.answer = FindOrLoad(part.at, part.call, nullptr);
    }
  }
}

bool CacheCore::CanLoadNow(const Part& part) const {
  if (tier_ == nullptr || part.call.flight == nullptr) return false;
  const ShardLock lock(shards_[part.at.shard]);
  return part.call.flight->IsReady(Now());
}

// Answers a part, or adds it to a flight, which it claims if it has started it.
void CacheCore::LookUp(Part& part, bool warm_up, Claimed& claimed) noexcept try {
  CacheCall& call = part.call;
  part.answer = ServeOrJoin(part.at, call, nullptr, [&](Instant, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex) {
    EnqueueWaiter(call);
    if (call.result == kRequestMiss) {
      if (warm_up) Count(kRefreshWarmUp);
      Claim(call, claimed, after);
    }
    return absl::OkStatus();
  });
} catch (...) {
  part.answer = Abandon(part.call);
}

// `call` has started its flight.
void CacheCore::Claim(const CacheCall& call, Claimed& claimed, AfterUnlock& after) {
  if (call.flight->phase != Flight::Phase::kReady) return;
  const LoadQueue queue = call.queue;
  if (!has_.load_all && (queue != LoadQueue::kNone || tier_ == nullptr)) {
    if (queue != LoadQueue::kNone) QueueUp(call.flight, Now(), after);
  } else if (queue == LoadQueue::kNone) {
    claimed.here.push_back(call.flight);
  } else {
    claimed.queue = queue;
    claimed.elsewhere.push_back(call.flight);
  }
}

void CacheCore::QueueBatch(LoadQueue queue, Flights flights) noexcept {
  flights.EraseIf([&](const FlightPtr& flight) {
    const ShardLock lock(shards_[flight->key.shard]);
    if (flight->phase != Flight::Phase::kReady || flight->In(queue)) return true;
    EnterQueue(*flight, queue, Now());
    return false;
  });
  const size_t most = options_.max_batch > 0 ? options_.max_batch : flights.size();
  auto rest = flights.begin();
  try {
    for (; static_cast<size_t>(flights.end() - rest) > most; rest += static_cast<std::ptrdiff_t>(most)) {
      Flights batch(rest, rest + static_cast<std::ptrdiff_t>(most));
      Offer(queue, QueuedLoad(*this, queue, std::move(batch), true));
    }
  } catch (const std::bad_alloc&) {  // Then the rest is one task, which runs them one batch after another.
  }
  flights.erase(flights.begin(), rest);
  if (!flights.empty()) Offer(queue, QueuedLoad(*this, queue, std::move(flights), true));
}

absl::StatusOr<WarmUpReport> CacheCore::WarmUp(const std::vector<KeyAt>& keys, const WarmUpOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  if (IsNested()) {
    return absl::FailedPreconditionError(Named(": WarmUp() was called within a loader, an update or a strict read"));
  }
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

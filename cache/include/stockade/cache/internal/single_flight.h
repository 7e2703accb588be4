#ifndef STOCKADE_CACHE_INTERNAL_SINGLE_FLIGHT_H_
#define STOCKADE_CACHE_INTERNAL_SINGLE_FLIGHT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/cache/internal/entry_store.h"
#include "stockade/cache/internal/erased.h"

namespace stockade::cache_internal {

struct AsyncCall;
struct CacheCall;
struct Flight;
class Flights;
class QueuedLoad;
struct Runner;
class TierSide;
class Waiter;
enum class LoadQueue : uint8_t;

// Single-flight: calls that need a key's value share one load of it. A *flight* is one load of one key (flight.h). This
// class begins and ends flights, decides which thread runs them, and lets calls join them and wait.
class STOCKADE_EXPORT SingleFlight : public EntryStore {
 public:
  SingleFlight(LoadingCacheOptions&& options, Has has, Slab::Type slots);
  ~SingleFlight() override;

 protected:
  friend class QueuedLoad;
  friend class TierSide;

  using FlightPtr = std::shared_ptr<Flight>;
  using AsyncPtr = std::shared_ptr<AsyncCall>;

  // Answers a call that waits without a thread, whose flight is answered.
  virtual void AnswerAsync(const AsyncPtr& async) noexcept STOCKADE_EXCLUDES(kShardMutex) = 0;

  KeptKey Keep(const KeyAt& at) const { return {KeepKey(at.key), at.hash, at.shard}; }
  FlightPtr Current(const KeyAt& at) const STOCKADE_REQUIRES(kShardMutex);
  void Settle(AfterUnlock& after) noexcept override STOCKADE_EXCLUDES(kShardMutex);
  static void Wake(AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);

  absl::Status Join(const KeyAt& at, CacheCall& call, Instant now) STOCKADE_REQUIRES(kShardMutex);
  FlightPtr NewFlight(const KeyAt& at, LoaderPtr loader, bool in_background) const;
  FlightPtr StartFlight(const KeyAt& at, LoaderPtr loader, Instant now, bool in_background = false)
      STOCKADE_REQUIRES(kShardMutex);
  void Begin(Flight& flight, Instant now) STOCKADE_REQUIRES(kShardMutex);
  std::optional<Answer> Wait(CacheCall& call) STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> AwaitOrRun(CacheCall& call, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> Expired(const CacheCall& call, Instant now) const;
  std::optional<Answer> GiveUp(CacheCall& call, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void DropIfUnwanted(Shard& shard, Flight& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void Drop(Shard& shard, Flight& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  Instant HardDeadline(const Flight& flight, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  bool IsHung(Flight& flight, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  static void ChooseRunner(Flight& flight, bool relay) STOCKADE_REQUIRES(kShardMutex);
  Executor* ExecutorOf(LoadQueue queue);
  LoadQueue PreferredQueue(const CacheCall& call);
  bool MayRunHere(const CacheCall& call) STOCKADE_REQUIRES(kShardMutex);
  void ChooseQueue(CacheCall& call);
  void Leave(Shard& shard, Flight& flight, Waiter& waiter, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  Answer Abandon(CacheCall& call) noexcept STOCKADE_EXCLUDES(kShardMutex);
  absl::Status CircleError(std::string_view circle) const;
  absl::Status CheckNotItsOwn(const void* key) const;
  void AnswerFlight(Flight& flight, Answer answer, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void RemoveCurrent(Shard& shard, Flight& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  bool TimeOutIfHung(const FlightPtr& current, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void FailHung(const FlightPtr& flight, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  void Fail(Flight& flight, Answer error, Instant now, AfterUnlock& after, const EntryOptions& entry = {}) noexcept
      STOCKADE_REQUIRES(kShardMutex);
  void NoteFailure(const FlightPtr& flight, const absl::Status& error, AfterUnlock& after) const noexcept;
  void ReplaceError(Flight& flight, Slot* old, Instant now, Answer& error, NewEntry* remembered,
                    AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);

  void Offer(LoadQueue queue, QueuedLoad load) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Dropped(LoadQueue queue, Flights flights) noexcept;
  void Refused(LoadQueue queue, std::span<const FlightPtr> flights) noexcept STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> Run(std::span<const FlightPtr> flights, bool as_batch, const Runner& runner) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  bool BeginBatch(std::span<const FlightPtr> batch, const Runner& runner, AfterUnlock& after) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  std::optional<Answer> RunLoader(std::span<const FlightPtr> flights, bool as_batch, const Runner& runner,
                                  AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void Resolve(Flight& flight, Loaded& loaded) const noexcept;
  std::optional<Answer> Publish(const FlightPtr& flight, Loaded loaded, const Runner& runner,
                                AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool Finish(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void EndLoad(const absl::Status& result, absl::Duration took, bool late, bool failed_refresh) noexcept;
  bool BeginQueued(Flight& flight, LoadQueue queue) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void HandOn(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void QueueUp(const FlightPtr& flight, Instant now, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  void EnterQueue(Flight& flight, LoadQueue queue, Instant now) STOCKADE_REQUIRES(kShardMutex);
  std::span<const FlightPtr> BeginAll(Flights& flights, LoadQueue queue) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void CheckNotInLoader() const;

  // With a tier or without.
  bool MayServe(const Slot& entry, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  bool MayJoin(const Flight& flight, Instant now) const STOCKADE_REQUIRES(kShardMutex);
  bool LoadsWithin(const Flight& flight) const;
  void GiveBackLease(const FlightPtr& flight, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);

  std::unique_ptr<TierSide> tier_;  // Null: there is none.

 private:
  class BatchNode;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_SINGLE_FLIGHT_H_

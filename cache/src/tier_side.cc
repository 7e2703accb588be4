// A cache with a tier: the way of a key to the other processes and back.
//
// A flight asks the tier when it runs, and then loads only with the tier's lease, or if the tier is away. A key that
// another process loads makes its flight ready again, with a time before which no thread runs it. What a loader returns
// goes to the tier first, which refuses it if it may be outdated. A value that comes from the tier has a stamp: it is
// stored only if no later invalidation has been applied, and served only while the tier trusts that all are applied. A
// value without a stamp was loaded while the tier was away. It is served until max_staleness() after its load began.

#include "tier_side.h"

#include <algorithm>
#include <utility>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/internal/cache_core.h"
#include "stockade/locks/lock_lease.h"

namespace stockade::cache_internal {
namespace {

// How long a call within a loader waits for another process. A circle of loads over two processes ends after it.
constexpr absl::Duration kNestedWait = absl::Milliseconds(250);

// Many keys are asked for, and stored, in pieces: each has a time-out of its own, and other calls pass in between. A
// piece has at most so many keys, and bytes in its questions, its values, and its answers as far as they can be
// foreseen.
constexpr size_t kKeysAtOnce = 256;
constexpr size_t kQuestionBytesAtOnce = size_t{256} << 10;
constexpr size_t kValueBytesAtOnce = size_t{1} << 20;
constexpr size_t kAnswerBytesAtOnce = size_t{4} << 20;

}  // namespace

// Asks the tier for flights that this thread has begun, piece by piece. Publishes what the tier has, puts back what
// other processes load, and returns what this thread must load.
std::vector<FlightPtr> TierSide::Ask(std::span<const FlightPtr> flights, bool as_batch, bool nested,
                                     const Runner& runner, AfterUnlock& after) noexcept {
  // Several flights without a batch loader are loaded one by one by the thread that looks them up, which may be another
  // one meanwhile.
  const bool here = as_batch || flights.size() == 1;
  std::vector<FlightPtr> missing;
  try {
    missing.reserve(flights.size());
  } catch (const std::bad_alloc&) {
    const absl::Status thrown = core.ThrownError();
    for (const FlightPtr& flight : flights)
      core.Publish(flight, {.answer = thrown, .ended = core.Now()}, runner, after);
    return missing;
  }
  while (!flights.empty()) {
    flights = flights.subspan(AskPiece(flights, nested, missing, after));
    const bool gave_up = !flights.empty() && runner.GaveUp(core.Now());
    if (here && !gave_up) continue;
    // Other calls may wait for them.
    for (const FlightPtr& flight : missing) HandOnAsked(flight, true, after);
    missing.clear();
    if (!gave_up) continue;
    for (const FlightPtr& flight : flights) HandOnAsked(flight, false, after);
    return missing;
  }
  for (const FlightPtr& flight : missing) {
    if (!flight->RunnersTimes().IsBusy() && !core.options_.strict) continue;
    const ShardLock lock(core.shards_[flight->key.shard]);
    if (flight->times.IsBusy()) EndBusy(*flight);
    flight->tier->unleased = flight->tier->lease.token.empty();
  }
  return missing;
}

// Whether a flight that this thread has begun is loaded although another process may load it, or writes it.
bool TierSide::LoadsAlone(const Flight& flight, bool nested, Instant now) const {
  return (nested && now >= flight.RunnersTimes().busy_since + kNestedWait) || core.LoadsWithin(flight);
}

// Asks the tier for some of `flights`, from the first one on, and returns their number. Adds those that are to be
// loaded to `missing`, which has room for them.
size_t TierSide::AskPiece(std::span<const FlightPtr> flights, bool nested, std::vector<FlightPtr>& missing,
                          AfterUnlock& after) noexcept {
  const size_t mean = mean_answer.load(std::memory_order_relaxed);
  const size_t most = std::min(flights.size(), std::clamp<size_t>(kAnswerBytesAtOnce / (mean + 1), 1, kKeysAtOnce));
  std::vector<FlightPtr> asking;
  size_t taken = 0;
  try {
    std::vector<TierAsk> questions;
    asking.reserve(most);
    questions.reserve(most);
    const Instant sent = core.Now();
    for (size_t bytes = 0; taken < most && bytes < kQuestionBytesAtOnce; ++taken) {
      const FlightPtr& flight = flights[taken];
      if (HoldsLease(*flight) || std::exchange(flight->tier->loads_alone, false) || LoadsAlone(*flight, nested, sent) ||
          !TryEncodeKey(*flight)) {
        missing.push_back(flight);
        continue;
      }
      asking.push_back(flight);
      questions.push_back(
          {.key = *flight->tier->key, .known_version = flight->in_background ? flight->tier->known_version : 0});
      bytes += flight->tier->key->size();
    }
    if (questions.empty()) return taken;
    std::vector<TierAnswer> answers = cache->Ask(questions);  // What follows does not throw.
    size_t bytes = 0;
    for (const TierAnswer& answer : answers) bytes += answer.record.has_value() ? answer.record->bytes.size() : 0;
    if (flights.size() > 1) mean_answer.store((mean + 3 * (bytes / answers.size())) / 4, std::memory_order_relaxed);
    for (size_t i = 0; i < asking.size(); ++i) {
      if (TakeAnswer(asking[i], std::move(answers[i]), sent, after)) missing.push_back(asking[i]);
    }
  } catch (...) {  // Out of memory, before the first answer.
    core.LogThrown("a load does not ask the tier");
    missing.insert(missing.end(), asking.begin(), asking.end());
    if (taken == 0) missing.push_back(flights[taken++]);
  }
  return taken;
}

// Leaves a flight that this thread has begun to the calls that wait for it. `asked`: the tier has granted a lease, or
// is away.
void TierSide::HandOnAsked(const FlightPtr& flight, bool asked, AfterUnlock& after) noexcept {
  const ShardLock lock(core.shards_[flight->key.shard]);
  if (flight->answered() || !core.shards_[flight->key.shard].flights.IsCurrent(*flight)) {
    return LookUpAgain(flight, core.Now(), after);
  }
  flight->RunWithin(nullptr);
  if (asked) {
    flight->tier->loads_alone = flight->tier->lease.token.empty();
    flight->times.busy_since = Instant::InfiniteFuture();
  }
  core.HandOn(flight, core.Now(), after);
}

// False: the codec has no bytes for the key, or throws.
bool TierSide::TryEncodeKey(Flight& flight) const {
  if (flight.tier->key.has_value()) return true;
  return GuardCallback<absl::Status>(codec_label,
                                     [&] {
                                       std::string key;
                                       absl::Status encoded = core.EncodeKey(flight.key.holder->key(), &key);
                                       if (encoded.ok()) flight.tier->key = std::move(key);
                                       return encoded;
                                     })
      .ok();
}

// Whether this thread must load the key.
bool TierSide::TakeAnswer(const FlightPtr& flight, TierAnswer answer, Instant sent, AfterUnlock& after) noexcept try {
  switch (answer.kind) {
    case TierAnswer::Kind::kAway: return !EndIfUseless(flight, after);
    case TierAnswer::Kind::kHit: {
      if (StoreCopy(flight, *answer.record, sent, true, after)) return false;
      // It cannot be decoded: this is a refresh of just that value.
      const TierAsk again{.key = *flight->tier->key, .known_version = answer.record->version, .undecodable = true};
      TierAnswer second = std::move(cache->Ask({&again, 1}).front());
      if (second.kind == TierAnswer::Kind::kHit)
        second = {.kind = TierAnswer::Kind::kAway};  // Another one of its kind.
      second.record.reset();
      return TakeAnswer(flight, std::move(second), sent, after);
    }
    case TierAnswer::Kind::kGranted: {
      Shard& shard = core.shards_[flight->key.shard];
      {
        const ShardLock lock(shard);
        flight->tier->lease = std::move(answer.lease);
        EndBusy(*flight);
      }
      return !answer.record.has_value() || !StoreCopy(flight, *answer.record, sent, false, after) ||
             !AnswerStale(flight, after);
    }
    case TierAnswer::Kind::kBusy:
      if (answer.record.has_value() && StoreCopy(flight, *answer.record, sent, false, after)) {
        if (AnswerStale(flight, after)) return false;
      }
      Postpone(flight, answer.retry_after, after);
      return false;
  }
  return true;
} catch (...) {  // Before the flight was answered or given up.
  core.LogThrown("an answer of the tier is not used");
  return true;
}

// Ends a flight whose value a strict cache would not store, as it has no lease, if no call waits for it. Returns
// whether it does.
bool TierSide::EndIfUseless(const FlightPtr& flight, AfterUnlock& after) {
  if (!core.options_.strict || !flight->in_background) return false;
  const ShardLock lock(core.shards_[flight->key.shard]);
  if (flight->answered() || !flight->waiters.empty()) return false;
  LookUpAgain(flight, core.Now(), after);
  return true;
}

// Stores what the tier has for the key of the flight. `answers`: it is also the flight's answer. Returns false if it
// cannot be decoded.
bool TierSide::StoreCopy(const FlightPtr& flight, const TierRecord& record, Instant sent, bool answers,
                         AfterUnlock& after) {
  Loaded copy{.took = record.load_time, .ended = sent, .stamp = {record.position, record.version}};
  copy.entry = {.ttl = record.ttl, .tags = record.tags};
  if (record.absent) {
    copy.answer = absl::NotFoundError(record.bytes);
  } else {
    const absl::Status decoded = GuardCallback<absl::Status>(codec_label, [&] {
      absl::StatusOr<Pinned> value = core.DecodeValue(flight->key.holder->key(), record.bytes);
      if (!value.ok()) return value.status();
      copy.answer = *std::move(value);
      return absl::OkStatus();
    });
    if (!decoded.ok()) {
      Log(LogSeverity::kError, core.Named(Concat(": a value of the tier is loaded again: ", decoded.message())));
      return false;
    }
  }
  // As if it had been stored when the tier stored it.
  const Instant stored_at = sent - (record.ttl - record.left);
  copy.times = record.absent ? core.freshness_.OfAbsence(stored_at, record.ttl)
                             : core.freshness_.OfValue(stored_at, record.ttl, record.load_time);
  if (answers) {
    core.Publish(flight, std::move(copy), Runner(), after);
    return true;
  }
  const Instant now = core.Now();
  const KeyAt at = flight->key.at();
  const EntryPtr fresh = record.absent ? nullptr : core.MakeEntry(at, copy, now);
  if (fresh == nullptr) return true;
  Shard& shard = core.shards_[at.shard];
  const ShardLock lock(shard);
  Slot* old = nullptr;
  if (!shard.flights.IsCurrent(*flight) || !core.TryFindEntry(at, old) || !MayStore(copy.stamp)) return true;
  // This process has invalidated a tag since, and MayStore() compares with what heartbeats have reported.
  if (flight->FirstInvalidation(copy.entry.tags) != Flight::kNeverInvalidated) return true;
  if (old != nullptr && core.MayServe(*old, now)) {
    // Is this process's own not older? Of two values of the tier, the record is the later one. A value that the tier
    // does not have is compared by the time.
    const uint64_t version = old->stamp().version;
    const bool was_in_tier = version > kUnstoredVersion;
    if (now < old->expires_at() || version == record.version) return true;
    if (!was_in_tier && old->expires_at() >= stored_at + record.ttl) return true;
  }
  fresh->is_use = !flight->in_background || !flight->waiters.empty();
  core.Replace(at, old, fresh.get(), RemovalCause::kReplaced, false, after, now);
  after.may_exceed = true;
  if (flight->previous == nullptr) {
    flight->previous = *copy.answer;
    flight->previous_tags = std::move(copy.entry.tags);
  }
  return true;
}

// Answers a flight whose key is loaded by another process, or by this one if it has the lease, if an expired value may
// be served meanwhile. A lease goes to a refresh in the background.
bool TierSide::AnswerStale(const FlightPtr& flight, AfterUnlock& after) {
  const Instant now = core.Now();
  Shard& shard = core.shards_[flight->key.shard];
  const ShardLock lock(shard);
  const Slot* const entry = core.FindValue(flight->key.at());
  if (flight->answered() || flight->in_background || entry == nullptr || !core.MayServe(*entry, now)) return false;
  if (now >= core.TimesOf(*entry).revalidate_until) return false;
  const bool loads = !flight->tier->lease.token.empty();
  if (loads && (!shard.flights.IsCurrent(*flight) || !core.StartRefreshThreads().ok())) return false;
  Answer value = core.ValueOf(*entry);
  after.released.reserve(after.released.size() + 1);  // From here on only the refresh throws.
  flight->RunWithin(nullptr);
  flight->result.stale = now >= entry->expires_at();
  flight->result.expires_at = entry->expires_at();
  TierLease lease = std::exchange(flight->tier->lease, {});
  core.Finish(flight, now, after);
  core.AnswerFlight(*flight, std::move(value), after);
  core.flights_.fetch_sub(1, std::memory_order_relaxed);
  if (loads) try {
      const FlightPtr refresh = core.StartFlight(flight->key.at(), flight->loader, now, true);
      refresh->tier->key = flight->tier->key;
      refresh->tier->lease = std::move(lease);
      core.QueueUp(refresh, now, after);
      core.Count(static_cast<CacheMetric>(kRefreshAhead + static_cast<size_t>(RefreshTrigger::kStale)));
    } catch (...) {  // Out of memory.
      core.LogThrown("a refresh does not start");
      after.released.emplace_back(flight, std::move(lease));
    }
  return true;
}

// Another process loads the key of the flight, which runs on this thread. It is ready again after `delay`. A refresh
// without waiters just ends.
void TierSide::Postpone(const FlightPtr& flight, absl::Duration delay, AfterUnlock& after) {
  const Instant now = core.Now();
  Shard& shard = core.shards_[flight->key.shard];
  const ShardLock lock(shard);
  Slot* entry = nullptr;
  if (flight->in_background && flight->waiters.empty() && core.TryFindEntry(flight->key.at(), entry) &&
      entry != nullptr) {
    core.KeptTimesOf(*entry).retry_at = now + delay;
  }
  const bool wanted = !flight->answered() && !flight->waiters.empty();
  if (!wanted || !shard.flights.IsCurrent(*flight)) return LookUpAgain(flight, now, after);
  // If the other load ended after the question was answered, the tier sends no second message.
  flight->tier->not_before = std::exchange(flight->tier->lease_ended, false) ? now : now + delay;
  if (flight->NeedsExecutor()) QueueUpLater(flight);
  flight->RunWithin(nullptr);
  flight->times.busy_since = std::min(flight->times.busy_since, now);
  flight->phase = Flight::Phase::kReady;
  flight->times.hard_deadline = core.HardDeadline(*flight, now);
  SingleFlight::ChooseRunner(*flight, true);
}

// From now on this process loads the key.
void TierSide::EndBusy(Flight& flight) {
  flight.times.busy_since = Instant::InfiniteFuture();
  flight.times.hard_deadline = core.HardDeadline(flight, core.Now());
}

// Ends a flight that runs without a result. Calls that wait for it look up the key again.
void TierSide::LookUpAgain(const FlightPtr& flight, Instant now, AfterUnlock& after) {
  flight->RunWithin(nullptr);
  if (!flight->answered()) {
    flight->result.valid_for_joins_before = 0;
    core.AnswerFlight(*flight, absl::UnknownError(""), after);
  }
  core.Finish(flight, now, after);
  core.flights_.fetch_sub(1, std::memory_order_relaxed);
}

// Gives results of loaders to the tier, which says whether they are current: some, from the first one on. Returns their
// number.
size_t TierSide::Fill(std::span<const FlightPtr> flights, std::span<Loaded> loaded) noexcept {
  const Instant now = core.Now();
  const absl::Duration grace =
      std::max<absl::Duration>(core.options_.stale_while_revalidate, core.options_.stale_if_error);
  const size_t most = std::min(flights.size(), kKeysAtOnce);
  const bool strict = core.options_.strict;
  const auto has_result = [](const Loaded& result) {
    return result.answer.ok() || absl::IsNotFound(result.answer.status());
  };
  for (size_t n = 0; n < most; ++n) {
    loaded[n].kept_until = flights[n]->RunnersTimes().begun + cache->max_staleness();
    loaded[n].refused = strict && has_result(loaded[n]);  // Unless the tier takes it.
  }
  size_t taken = 0;
  try {
    std::vector<size_t> filled;
    std::vector<std::string> values;
    std::vector<TierFill> fills;
    values.reserve(most);  // Its strings do not move.
    for (size_t bytes = 0; taken < most && bytes < kValueBytesAtOnce; ++taken) {
      const FlightPtr& flight = flights[taken];
      Loaded& result = loaded[taken];
      if (!has_result(result) || !HoldsLease(*flight)) continue;
      const bool absent = !result.answer.ok();
      std::string& value = values.emplace_back(absent ? std::string(result.answer.status().message()) : "");
      const absl::Status encoded = GuardCallback<absl::Status>(
          codec_label, [&] { return absent ? absl::OkStatus() : core.EncodeValue(*result.answer, &value); });
      if (!encoded.ok()) {
        Log(LogSeverity::kError, core.Named(Concat(": a value is not shared: ", encoded.message())));
        continue;
      }
      TierLease lease = TakeLease(*flight);
      if (lease.token.empty()) continue;                   // The load's hard time-out has given it back.
      std::vector<std::string>& tags = result.entry.tags;  // The tier counts them.
      std::sort(tags.begin(), tags.end());
      tags.erase(std::unique(tags.begin(), tags.end()), tags.end());
      result.times = absent ? core.freshness_.OfAbsence(now, result.entry.ttl)
                            : core.freshness_.OfValue(now, result.entry.ttl, result.took);
      const absl::Duration ttl = result.times.has_value() ? result.times->expires_at - now : absl::ZeroDuration();
      fills.push_back({.key = *flight->tier->key,
                       .lease = std::move(lease),
                       .absent = absent,
                       .bytes = value,
                       .tags = result.entry.tags,
                       .ttl = std::min(ttl, cache->max_ttl()),
                       .grace = absent ? absl::ZeroDuration() : grace,
                       .load_time = result.took});
      filled.push_back(taken);
      bytes += value.size();
    }
    if (fills.empty()) return taken;
    const std::vector<TierFilled> results = cache->Fill(fills);
    for (size_t n = 0; n < filled.size(); ++n) {
      Loaded& result = loaded[filled[n]];
      result.refused =
          results[n].kind == TierFilled::Kind::kRefused || (strict && results[n].kind == TierFilled::Kind::kAway);
      result.unstored = results[n].kind == TierFilled::Kind::kUnstored;
      if (results[n].kind == TierFilled::Kind::kStored) {
        result.stamp = {results[n].position, results[n].version};
      } else if (result.unstored) {
        result.stamp = {fills[n].lease.position, kUnstoredVersion};
      }
      if (result.stamp.version != 0) result.kept_until = now + cache->max_ttl();
    }
  } catch (...) {
    core.LogThrown("values are not shared");
  }
  return std::max<size_t>(taken, 1);
}

bool TierSide::HoldsLease(const Flight& flight) {
  const ShardLock lock(core.shards_[flight.key.shard]);
  return !flight.tier->lease.token.empty();
}

// The lease ends with the fill. Its position stays known, for invalidations that come before the result is published.
TierLease TierSide::TakeLease(Flight& flight) {
  const ShardLock lock(core.shards_[flight.key.shard]);
  return {std::exchange(flight.tier->lease.token, {}), flight.tier->lease.position};
}

// Gives leases back that led to no value.
void TierSide::Release(const std::vector<std::pair<FlightPtr, TierLease>>& leases) noexcept {
  for (const auto& [flight, lease] : leases) {
    try {
      cache->Fail(*flight->tier->key, lease);
    } catch (...) {
      core.LogThrown("a lease lapses");
    }
  }
}

void TierSide::GiveBackLease(const FlightPtr& flight, AfterUnlock& after) noexcept {
  TierLease lease = std::exchange(flight->tier->lease, {});
  try {
    after.released.emplace_back(flight, std::move(lease));
  } catch (const std::bad_alloc&) {
    core.LogThrown("a lease lapses");
  }
}

// Removes what this process has by `locally`, and then in the tier. In between, what this process asks the tier
// for is not older than the invalidation.
TierInvalidated TierSide::Invalidate(const TierTarget& target, absl::FunctionRef<void()> locally, bool with_lease) {
  const uint64_t queued = cache->Queue(target);
  locally();
  return cache->Await(queued, with_lease);
}

// The same for a key, which it encodes into `key`.
TierInvalidated TierSide::InvalidateKey(const KeyAt& at, absl::FunctionRef<void()> locally, std::string& key,
                                        bool with_lease) {
  if (core.EncodeKey(at.key, &key).ok()) return Invalidate({TierTarget::Kind::kKey, key}, locally, with_lease);
  locally();  // It is not shared.
  return {};
}

// The same for many keys, with a result for each; a key that is not shared counts as accepted. What is removed is
// destroyed in steps.
std::vector<TierInvalidated> TierSide::InvalidateEach(std::span<const KeyAt> keys,
                                                      absl::FunctionRef<void(size_t index, AfterUnlock& after)> locally,
                                                      bool with_lease) {
  std::vector<TierInvalidated> results(keys.size());
  std::vector<uint64_t> queued;
  std::vector<size_t> shared;
  for (size_t index = 0; index < keys.size(); ++index) {
    std::string key;
    results[index].accepted = !core.EncodeKey(keys[index].key, &key).ok();
    if (results[index].accepted) continue;
    queued.push_back(cache->Queue({TierTarget::Kind::kKey, key}));
    shared.push_back(index);
  }
  core.InSteps(keys.size(), locally);
  std::vector<TierInvalidated> awaited = cache->AwaitMany(queued, with_lease);
  for (size_t n = 0; n < shared.size(); ++n) results[shared[n]] = std::move(awaited[n]);
  core.InSteps(keys.size(), [&](size_t index, AfterUnlock& after) {
    if (results[index].accepted) core.ClearKey(keys[index], results[index].position, after);
  });
  return results;
}

void TierSide::InvalidateKeys(std::span<const KeyAt> keys) {
  const auto clear = [&](size_t index, AfterUnlock& after) {
    core.ClearKey(keys[index], CacheCore::kAnyPosition, after);
  };
  InvalidateEach(keys, clear, /*with_lease=*/false);
}

// A Put is an invalidation that is granted the lease, and a fill. If the tier does not confirm both, nothing is stored:
// then an invalidation that came in between would not be noticed, and the next lookup loads.
void TierSide::Put(const KeyAt& at, const Pinned& box, const EntryOptions& entry) {
  AfterUnlock after(core);
  const uint64_t resets_before = resets.load(std::memory_order_relaxed);
  const bool stores = Stores(entry);
  std::string key;
  TierInvalidated done = InvalidateKey(
      at, [&] { MakeWay(at, box, stores, after); }, key, stores);
  if (done.accepted) core.ClearKey(at, done.position, after);
  if (!done.lease.token.empty()) {
    const FlightPtr flight = PutFlight(at, std::move(key), std::move(done.lease));
    Loaded put{.answer = box, .entry = entry};
    Fill({&flight, 1}, {&put, 1});
    StorePut(flight, put, resets_before, after);
  }
  after.Run();
}

// In pieces, each of which is invalidated with leases and then filled. When one is not accepted, the tier is too slow
// or away: then the others are invalidated together, and not stored.
void TierSide::PutAll(std::span<const KeyAt> keys, std::span<const Pinned> boxes, const EntryOptions& entry) {
  while (!keys.empty()) {
    const size_t count = std::min(kKeysAtOnce, keys.size());
    const bool accepted = PutPiece(keys.first(count), boxes.first(count), entry, Stores(entry));
    keys = keys.subspan(count);
    boxes = boxes.subspan(count);
    if (accepted) continue;
    PutPiece(keys, boxes, entry, /*stores=*/false);
    return;
  }
}

// Returns whether all invalidations were accepted.
bool TierSide::PutPiece(std::span<const KeyAt> keys, std::span<const Pinned> boxes, const EntryOptions& entry,
                        bool stores) {
  const uint64_t resets_before = resets.load(std::memory_order_relaxed);
  std::vector<TierInvalidated> results = InvalidateEach(
      keys, [&](size_t index, AfterUnlock& after) { MakeWay(keys[index], boxes[index], Stores(entry), after); },
      stores);
  std::vector<FlightPtr> flights;
  std::vector<Loaded> puts;
  bool accepted = true;
  for (size_t index = 0; index < keys.size(); ++index) {
    accepted = accepted && results[index].accepted;
    std::string key;
    if (results[index].lease.token.empty() || !core.EncodeKey(keys[index].key, &key).ok()) continue;
    flights.push_back(PutFlight(keys[index], std::move(key), std::move(results[index].lease)));
    puts.push_back({.answer = boxes[index], .entry = entry});
  }
  for (size_t filled = 0; filled < flights.size();) {
    const size_t end = filled + Fill(std::span(flights).subspan(filled), std::span(puts).subspan(filled));
    AfterUnlock after(core);
    for (; filled < end; ++filled) {
      if (!puts[filled].unstored) StorePut(flights[filled], puts[filled], resets_before, after);
    }
    after.Run();
  }
  // What the tier does not take stays in memory if nothing was invalidated since its lease: not so after this piece.
  for (size_t n = 0; n < flights.size(); ++n) {
    if (puts[n].unstored) Put(flights[n]->key.at(), *puts[n].answer, entry);
  }
  return accepted;
}

bool TierSide::Stores(const EntryOptions& entry) const {
  return entry.ttl.value_or(core.options_.ttl) > absl::ZeroDuration();
}

// Removes what a Put replaces. Calls that wait for a load get its value.
void TierSide::MakeWay(const KeyAt& at, const Pinned& box, bool stores, AfterUnlock& after) {
  Shard& shard = core.shards_[at.shard];
  const ShardLock lock(shard);
  ReplaceFlight(at, box, after);
  Slot* const old = core.FindEntry(at);
  if (old != nullptr) core.Remove(shard, *old, stores ? RemovalCause::kReplaced : RemovalCause::kInvalidated, after);
}

void TierSide::ReplaceFlight(const KeyAt& at, const Pinned& box, AfterUnlock& after) {
  const FlightPtr flight = core.Current(at);
  if (flight == nullptr) return;
  if (!flight->answered()) core.AnswerFlight(*flight, box, after);
  core.RemoveCurrent(core.shards_[at.shard], *flight, after);
}

// No call can find it: it carries the value to Fill().
FlightPtr TierSide::PutFlight(const KeyAt& at, std::string key, TierLease lease) {
  FlightPtr flight = core.NewFlight(at, nullptr, false);
  flight->tier->key = std::move(key);
  const ShardLock lock(core.shards_[at.shard]);
  flight->tier->lease = std::move(lease);
  return flight;
}

// After the fill.
void TierSide::StorePut(const FlightPtr& flight, const Loaded& put, uint64_t resets_before, AfterUnlock& after) {
  const KeyAt at = flight->key.at();
  const Instant now = core.Now();
  const EntryPtr fresh = put.stamp.version != 0 ? core.MakeEntry(at, put, now) : nullptr;
  const ShardLock lock(core.shards_[at.shard]);
  core.GiveBackLease(flight, after);
  if (fresh == nullptr) return;
  if (!MayStore(put.stamp) || resets.load(std::memory_order_relaxed) != resets_before) return;
  ReplaceFlight(at, *put.answer, after);
  core.Replace(at, core.FindEntry(at), fresh.get(), RemovalCause::kReplaced, false, after, now);
  after.may_exceed = true;
}

void TierSide::OnInvalidated(uint64_t position, const TierTarget& target) {
  CallGate::Call inside(*core.gate_, 0);
  if (!inside.inside()) return;
  // Before the first mutex: see the invariants.
  applied.store(std::max(applied.load(std::memory_order_relaxed), position), std::memory_order_relaxed);
  NotifyLater([&] {
    if (target.kind == TierTarget::Kind::kTag) return core.ClearTag(target.text, position);
    if (target.kind == TierTarget::Kind::kAll) return core.ClearAll(position);
    const absl::Status cleared = GuardCallback<absl::Status>(codec_label, [&] {
      return core.WithKey(target.text, [&](const KeyAt& at) {
        AfterUnlock after(core);
        core.ClearKey(at, position, after);
        after.Run();
      });
    });
    if (!cleared.ok()) core.ClearAll(position);  // The key is unknown.
  });
}

void TierSide::OnReset() {
  CallGate::Call inside(*core.gate_, 0);
  if (!inside.inside()) return;
  applied.store(0, std::memory_order_relaxed);
  resets.fetch_add(1, std::memory_order_relaxed);
  NotifyLater([&] { core.ClearAll(CacheCore::kAnyPosition); });
}

void TierSide::OnLeaseEnded(std::string_view key) {
  CallGate::Call inside(*core.gate_, 0);
  if (!inside.inside()) return;
  // If that fails, the waiters ask again after a while.
  GuardCallback<absl::Status>(codec_label, [&] {
    return core.WithKey(key, [&](const KeyAt& at) { AskAgainNow(at); });
  }).IgnoreError();
}

// Ends the pause of a flight whose key another process has loaded.
void TierSide::AskAgainNow(const KeyAt& at) {
  AfterUnlock after(core);
  ShardLock lock(core.shards_[at.shard]);
  const FlightPtr flight = core.Current(at);
  if (flight == nullptr || flight->answered()) return;
  if (flight->phase == Flight::Phase::kRunning) {
    flight->tier->lease_ended = true;
    return;
  }
  const Instant now = core.Now();
  if (flight->phase != Flight::Phase::kReady || flight->tier->not_before <= now) return;
  flight->tier->not_before = now;
  if (flight->NeedsExecutor()) core.QueueUp(flight, now, after);
  SingleFlight::ChooseRunner(*flight, true);
  lock.Unlock();
  after.Run();
}

// Runs `body`, and leaves the listener's part of it to another thread.
void TierSide::NotifyLater(absl::FunctionRef<void()> body) {
  std::list<Removal> removed = core.RemovalsBy(body);
  if (removed.empty()) return;
  notifier.Schedule([this, removed = std::move(removed)]() mutable { core.Notify(std::move(removed)); });
}

// Has an executor run a flight when it is time to ask again.
void TierSide::QueueUpLater(const FlightPtr& flight) {
  if (flight->tier->queued_up_at == flight->tier->not_before) return;
  core.timers_->Schedule(flight->tier->not_before, [this, gate = core.gate_, weak = std::weak_ptr(flight)] {
    const FlightPtr postponed = weak.lock();
    if (postponed == nullptr) return;
    CallGate::Call inside(*gate, postponed->key.shard);
    if (!inside.inside()) return;
    AfterUnlock after(core);
    ShardLock lock(core.shards_[postponed->key.shard]);
    const Instant now = core.Now();
    if (postponed->IsReady(now)) core.QueueUp(postponed, now, after);
    lock.Unlock();
    after.Run();
  });
  flight->tier->queued_up_at = flight->tier->not_before;
}

absl::Status TierSide::AwaitInvalidations(absl::Duration timeout) {
  if (cache->AwaitAll(core.Now() + timeout)) return absl::OkStatus();
  if (core.gate_->closed()) return core.CancelledError();
  return absl::DeadlineExceededError(core.Named(": the tier has not accepted all invalidations within the time-out"));
}

absl::Status CacheCore::JoinTier(CacheCore& core) {
  const std::optional<std::string_view> codec = core.CodecId();
  if (!codec.has_value()) {
    return absl::InvalidArgumentError(
        core.Named(": tier: the codec lacks a function for a type other than std::string, bool and integers"));
  }
  if (codec->empty()) {
    return absl::InvalidArgumentError(
        core.Named(": tier: codec.id = '': must be set, because a function of the codec is not a default"));
  }
  if (absl::Status started = core.timers_->Start(); !started.ok()) return started;
  // The listener needs `tier_`, which calls find only when they begin, after this.
  core.tier_ = std::make_unique<TierSide>(core);
  absl::StatusOr<std::unique_ptr<TierCache>> opened = core.options_.tier->Open(core.options_.name, *codec, *core.tier_);
  if (!opened.ok()) return opened.status();
  core.tier_->cache = *std::move(opened);
  absl::Status suits = core.options_.strict ? core.tier_->cache->CheckStrict() : absl::OkStatus();
  if (!suits.ok()) core.tier_->cache.reset();  // Before the other members of the listener.
  return suits;
}

}  // namespace stockade::cache_internal

namespace stockade {

std::vector<TierInvalidated> TierCache::AwaitMany(std::span<const uint64_t> queued, bool with_lease) {
  std::vector<TierInvalidated> results;
  for (const uint64_t id : queued) results.push_back(Await(id, with_lease));
  return results;
}

absl::StatusOr<LockLease> TierCache::Lock(std::string_view, Duration, const std::stop_token&) {
  return absl::UnimplementedError("the tier has no locks");
}

TierMark TierCache::Hold(uint64_t, int64_t) { return {}; }

TierMark TierCache::Release(uint64_t, const TierMark&) { return {}; }

absl::Status CacheTier::CheckName(std::string_view what, std::string_view name, size_t longest) {
  const bool printable = std::all_of(name.begin(), name.end(),
                                     [](char c) { return c > ' ' && c < 127 && c != '{' && c != '}' && c != ':'; });
  if (!name.empty() && name.size() <= longest && printable) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base_internal::Concat(what, " '", base_internal::Printable(name, 100), "' is not 1 to ", longest,
                            " printable ASCII characters without blanks, braces and colons"));
}

CacheTier::CacheTier() : join_(&cache_internal::CacheCore::JoinTier) {}

}  // namespace stockade

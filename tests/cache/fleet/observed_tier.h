#ifndef STOCKADE_TESTS_CACHE_FLEET_OBSERVED_TIER_H_
#define STOCKADE_TESTS_CACHE_FLEET_OBSERVED_TIER_H_

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "cache/fleet/load_judge.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/locks/lock_lease.h"

namespace stockade::testing {

// Whether all invalidations that this thread has made since it was set to true were accepted at once.
inline thread_local bool invalidations_accepted = true;

// When this thread has begun its lookup. 0: it makes none.
inline thread_local int64_t lookup_began = 0;

// The number of a key that is "k<number>".
inline int FleetKeyOf(std::string_view key) { return std::atoi(std::string(key.substr(1)).c_str()); }

// Records what passes between a cache and its tier, and checks that an absent tier leads to one load per process and
// key within the time for which a value is kept then.
class ObservedCache final : public TierCache, public TierListener {
 public:
  ObservedCache(FleetTables* tables, int process, Breakage breakage, std::function<void(const std::string&)> violation)
      : tables_(*tables), process_(process), breakage_(breakage), violation_(std::move(violation)) {}

  TierListener& ListenFor(TierListener& listener) {
    listener_ = &listener;
    return *this;
  }
  void Observe(std::unique_ptr<TierCache> cache) { cache_ = std::move(cache); }

  ~ObservedCache() override { cache_.reset(); }

  std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) override {
    const int64_t begin = FleetNow();
    std::vector<TierAnswer> answers =
        breakage_ == Breakage::kImpatient ? std::vector<TierAnswer>(questions.size()) : cache_->Ask(questions);
    const int64_t answered = FleetNow();
    const std::lock_guard lock(mutex_);
    for (size_t n = 0; n < questions.size(); ++n) {
      const int key = FleetKeyOf(questions[n].key);
      TierAnswer& answer = answers[n];
      if (breakage_ == Breakage::kGreedy && answer.kind == TierAnswer::Kind::kBusy) {
        answer.kind = TierAnswer::Kind::kGranted;
        answer.lease = {.token = "greedy " + std::to_string(++made_up_), .position = answer.lease.position};
      }
      AwayLoads& away = away_[key];
      switch (answer.kind) {
        case TierAnswer::Kind::kHit:
          ++tables_.hits;
          away.NoteAnswer();
          break;
        case TierAnswer::Kind::kGranted: {
          ++tables_.granted;
          away.NoteAnswer();
          FleetRecord& record = tables_.Add(FleetRecord::Kind::kGrant, key, process_, begin);
          record.answered = answered;
          loads_[answer.lease.token] = &record;
          break;
        }
        case TierAnswer::Kind::kAway:
          ++tables_.away;
          away.NoteAway(begin);
          break;
        case TierAnswer::Kind::kBusy: break;
      }
    }
    return answers;
  }

  void NoteLoad(int key) {
    const std::lock_guard lock(mutex_);
    if (away_[key].NoteLoad(lookup_began)) return;
    violation_("k" + std::to_string(key) + " is loaded twice by one process while Redis is away");
  }

  std::vector<TierFilled> Fill(std::span<const TierFill> fills) override {
    const int64_t begin = FleetNow();
    const std::vector<TierFilled> results = cache_->Fill(fills);
    const int64_t end = FleetNow();
    const std::lock_guard lock(mutex_);
    for (size_t n = 0; n < fills.size(); ++n) {
      const auto load = loads_.find(fills[n].lease.token);
      // A tier that grants two leases would store both values.
      const bool stored = results[n].kind == TierFilled::Kind::kStored || breakage_ == Breakage::kGreedy;
      if (load == loads_.end()) {
        if (!stored) continue;
        FleetRecord& put = tables_.Add(FleetRecord::Kind::kPut, FleetKeyOf(fills[n].key), process_, begin);
        put.fill_begin = begin;
        put.end = end;
        away_[FleetKeyOf(fills[n].key)].NoteDrop();  // The cache replaces what it has.
        continue;
      }
      if (stored) load->second->fill_begin = begin;
      // A fill without an answer may have been stored, and is repeated for at most the time-out.
      load->second->end = end;
      loads_.erase(load);
    }
    return results;
  }

  void Fail(std::string_view key, const TierLease& lease) override {
    cache_->Fail(key, lease);
    const std::lock_guard lock(mutex_);
    const auto load = loads_.find(lease.token);
    if (load == loads_.end()) return;
    load->second->end = FleetNow() + kFleetLease;  // If it cannot be given back, it lapses.
    loads_.erase(load);
  }

  uint64_t Queue(const TierTarget& target) override {
    const std::lock_guard lock(mutex_);
    std::vector<FleetRecord*> records;
    for (int key = 0; key < kFleetKeys; ++key) {
      if (!Concerns(target, key)) continue;
      records.push_back(&tables_.Add(FleetRecord::Kind::kInvalidation, key, process_, FleetNow()));
      away_[key].NoteDrop();
    }
    const uint64_t queued = cache_->Queue(target);
    auto& open = invalidations_[queued];
    open.insert(open.end(), records.begin(), records.end());
    return queued;
  }

  TierInvalidated Await(uint64_t queued, bool with_lease) override {
    const auto drop = [&] {  // With the mutex held.
      const auto open = invalidations_.find(queued);
      if (open == invalidations_.end()) return open;
      for (const FleetRecord* record : open->second) away_[record->key].NoteDrop();
      return open;
    };
    {
      const std::lock_guard lock(mutex_);
      drop();
    }
    TierInvalidated result = cache_->Await(queued, with_lease);
    const std::lock_guard lock(mutex_);
    if (!result.accepted) {
      invalidations_accepted = false;
      return result;
    }
    const auto open = drop();
    if (open == invalidations_.end()) return result;
    for (FleetRecord* record : open->second) record->end = FleetNow();
    invalidations_.erase(open);
    return result;
  }

  absl::StatusOr<LockLease> Lock(std::string_view key, Duration timeout, const std::stop_token& stop) override {
    return cache_->Lock(key, timeout, stop);
  }
  TierMark Hold(uint64_t queued, int64_t fencing_token) override { return cache_->Hold(queued, fencing_token); }
  TierMark Release(uint64_t queued, const TierMark& held) override {
    TierMark released = cache_->Release(queued, held);
    if (released.kind == TierMark::Kind::kLost && !held.token.empty()) {
      ++tables_.marks_lost;
      if (breakage_ == Breakage::kWaitsOnce) released.kind = TierMark::Kind::kStands;
    }
    return released;
  }
  absl::Status CheckStrict() override { return cache_->CheckStrict(); }

  bool AwaitAll(Instant deadline) override {
    std::vector<uint64_t> before;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [queued, records] : invalidations_) before.push_back(queued);
    }
    if (!cache_->AwaitAll(deadline)) return false;
    const std::lock_guard lock(mutex_);
    for (const uint64_t queued : before) {
      const auto open = invalidations_.find(queued);
      if (open == invalidations_.end()) continue;
      for (FleetRecord* record : open->second) record->end = FleetNow();
      invalidations_.erase(open);
    }
    return true;
  }

  void CancelWaits() override { cache_->CancelWaits(); }

  Instant trusted_until() const override { return cache_->trusted_until(); }
  absl::Duration max_staleness() const override {
    return breakage_ == Breakage::kImpatient ? absl::Milliseconds(50) : cache_->max_staleness();
  }
  absl::Duration max_ttl() const override { return cache_->max_ttl(); }

  // The cache drops what it has during the call, and other threads may load and store until it does.
  void OnInvalidated(uint64_t position, const TierTarget& target) override {
    NoteDrop(target);
    if (breakage_ != Breakage::kDeaf) listener_->OnInvalidated(position, target);
    NoteDrop(target);
  }
  void OnReset() override {
    NoteDrop({.kind = TierTarget::Kind::kAll});
    listener_->OnReset();
    NoteDrop({.kind = TierTarget::Kind::kAll});
  }
  void OnLeaseEnded(std::string_view key) override { listener_->OnLeaseEnded(key); }

 private:
  void NoteDrop(const TierTarget& target) {
    const std::lock_guard lock(mutex_);
    for (int key = 0; key < kFleetKeys; ++key) {
      if (Concerns(target, key)) away_[key].NoteDrop();
    }
  }

  // Even keys have the tag "t0", odd ones "t1".
  static bool Concerns(const TierTarget& target, int key) {
    switch (target.kind) {
      case TierTarget::Kind::kKey: return FleetKeyOf(target.text) == key;
      case TierTarget::Kind::kTag: return FleetKeyOf(target.text) == key % 2;
      case TierTarget::Kind::kAll: return true;
    }
    return true;
  }

  FleetTables& tables_;
  const int process_;
  const Breakage breakage_;
  const std::function<void(const std::string&)> violation_;
  TierListener* listener_ = nullptr;
  std::unique_ptr<TierCache> cache_;
  std::mutex mutex_;                                             // Guards what follows.
  std::map<std::string, FleetRecord*> loads_;                    // By the tokens of their leases.
  std::map<uint64_t, std::vector<FleetRecord*>> invalidations_;  // Not accepted yet.
  std::map<int, AwayLoads> away_;
  int made_up_ = 0;
};

class ObservedTier final : public CacheTier {
 public:
  ObservedTier(std::shared_ptr<CacheTier> tier, FleetTables* tables, int process, Breakage breakage,
               std::function<void(const std::string&)> violation)
      : tier_(std::move(tier)),
        tables_(tables),
        process_(process),
        breakage_(breakage),
        violation_(std::move(violation)) {}

  Clock* clock() const override { return tier_->clock(); }
  bool has_locks() const override { return tier_->has_locks(); }

  absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                  TierListener& listener) override {
    auto observed = std::make_unique<ObservedCache>(tables_, process_, breakage_, violation_);
    absl::StatusOr<std::unique_ptr<TierCache>> opened = tier_->Open(cache, codec, observed->ListenFor(listener));
    if (!opened.ok()) return opened.status();
    observed->Observe(*std::move(opened));
    this->observed = observed.get();
    return observed;
  }

  ObservedCache* observed = nullptr;  // The one that was opened.

 private:
  const std::shared_ptr<CacheTier> tier_;
  FleetTables* const tables_;
  const int process_;
  const Breakage breakage_;
  const std::function<void(const std::string&)> violation_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_FLEET_OBSERVED_TIER_H_

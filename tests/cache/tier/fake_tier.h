#ifndef STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_H_
#define STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/cache/cache_tier.h"

namespace stockade::testing {

// A tier in memory: a second implementation of the contract of cache_tier.h, of which a test decides when heartbeats
// come, leases lapse, replies are lost, a process is cut off and a new reign begins. All caches of it have one name;
// each stands for a process. Thread-safe. No call blocks.
class FakeTier final : public CacheTier {
 public:
  static constexpr absl::Duration kMaxStaleness = absl::Seconds(10);
  static constexpr absl::Duration kLease = absl::Seconds(2);

  class Process;

  explicit FakeTier(Clock* clock) : clock_(clock) {}

  Clock* clock() const override { return clock_; }
  absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                  TierListener& listener) override;

  // The process that was opened as the i-th.
  Process& process(size_t i) { return *processes_.at(i); }

  // What happens to the server.
  void LapseLeases() {
    const std::lock_guard lock(mutex_);
    leases_.clear();
  }
  void DropRecords() {
    const std::lock_guard lock(mutex_);
    records_.clear();
  }
  void BeginReign() {
    const std::lock_guard lock(mutex_);
    ++reign_;
    position_ = 1;
    all_ = 0;
    records_.clear();
    leases_.clear();
    tags_.clear();
    journal_.clear();
  }
  void TrimJournal() {
    const std::lock_guard lock(mutex_);
    journal_.clear();
  }
  bool HasRecord(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return records_.contains(key);
  }
  void Corrupt(const std::string& key, std::string bytes) {
    const std::lock_guard lock(mutex_);
    records_.at(key).record.bytes = std::move(bytes);
  }
  size_t leases() {
    const std::lock_guard lock(mutex_);
    return leases_.size();
  }
  int64_t asks() const { return asks_; }

 private:
  struct Record {
    TierRecord record;
    Instant expires_at;
    absl::Duration grace;
  };
  struct Lease {
    std::string token;
    uint64_t position;
    Instant until;
  };
  struct Entry {
    uint64_t position;
    TierTarget::Kind kind;
    std::string text;
  };

  // With the mutex held.
  bool Outdated(uint64_t position, std::span<const std::string> tags) const {
    if (position < all_) return true;
    return std::any_of(tags.begin(), tags.end(), [&](const std::string& tag) {
      const auto found = tags_.find(tag);
      return found != tags_.end() && position < found->second;
    });
  }
  std::string NewToken() { return base_internal::Concat("lease ", ++tokens_); }
  TierAnswer Answer(const TierAsk& question, Instant now);
  TierFilled Store(const TierFill& fill, Instant now);
  uint64_t Append(TierTarget::Kind kind, const std::string& text);

  Clock* const clock_;
  std::mutex mutex_;
  uint64_t reign_ = 1;
  uint64_t position_ = 1;
  uint64_t all_ = 0;
  uint64_t tokens_ = 0;
  uint64_t versions_ = 0;
  std::map<std::string, Record> records_;
  std::map<std::string, Lease> leases_;
  std::map<std::string, uint64_t> tags_;
  std::vector<Entry> journal_;
  std::vector<Process*> processes_;
  std::atomic<int64_t> asks_{0};
};

// One process. The test sets what is wrong with its connection.
class FakeTier::Process final : public TierCache {
 public:
  Process(FakeTier& tier, TierListener& listener) : tier_(tier), listener_(listener), reign_(tier.reign_) {}

  std::atomic<bool> away{false};        // Nothing reaches the server.
  std::atomic<int> replies_to_lose{0};  // The server runs it, and this process does not hear of it.

  // A heartbeat: sends what is queued, applies the journal, and then trusts.
  void Beat() {
    const Instant sent = tier_.clock_->Now();
    if (away) return;
    std::vector<Entry> entries;
    bool reset = false;
    {
      const std::lock_guard lock(tier_.mutex_);
      SendQueue();
      reset = reign_ != tier_.reign_ || HasGap();
      if (reset) {
        reign_ = tier_.reign_;
        applied_ = tier_.position_;
      } else {
        for (const Entry& entry : tier_.journal_) {
          if (entry.position > applied_) entries.push_back(entry);
        }
        applied_ = tier_.position_;
      }
    }
    if (reset) {
      trusted_until_.store(Instant::InfinitePast(), std::memory_order_release);
      listener_.OnReset();
    }
    for (const Entry& entry : entries) listener_.OnInvalidated(entry.position, {entry.kind, entry.text});
    trusted_until_.store(sent + kMaxStaleness, std::memory_order_release);
  }

  std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) override {
    ++tier_.asks_;
    std::vector<TierAnswer> answers(questions.size());
    const std::lock_guard lock(tier_.mutex_);
    if (away || reign_ != tier_.reign_) return answers;
    const bool lost = LosesReply();
    for (size_t i = 0; i < questions.size(); ++i) {
      if (Pends(questions[i].key)) continue;
      TierAnswer answer = tier_.Answer(questions[i], tier_.clock_->Now());
      if (!lost) answers[i] = std::move(answer);
    }
    return answers;
  }

  std::vector<TierFilled> Fill(std::span<const TierFill> fills) override {
    std::vector<TierFilled> results(fills.size());
    const std::lock_guard lock(tier_.mutex_);
    if (away) return results;
    const bool lost = LosesReply();
    for (size_t i = 0; i < fills.size(); ++i) {
      const TierFilled result = reign_ == tier_.reign_ ? tier_.Store(fills[i], tier_.clock_->Now())
                                                       : TierFilled{.kind = TierFilled::Kind::kRefused};
      if (!lost) results[i] = result;
    }
    return results;
  }

  void Fail(std::string_view key, const TierLease& lease) override {
    const std::lock_guard lock(tier_.mutex_);
    const auto found = tier_.leases_.find(std::string(key));
    if (!away && found != tier_.leases_.end() && found->second.token == lease.token) tier_.leases_.erase(found);
  }

  uint64_t Queue(const TierTarget& target) override {
    const std::lock_guard lock(tier_.mutex_);
    queue_.push_back({++queued_, target.kind, std::string(target.text), 0});
    return queued_;
  }

  TierInvalidated Await(uint64_t queued, bool with_lease) override {
    const std::lock_guard lock(tier_.mutex_);
    if (away) return {};
    const auto mine = std::find_if(queue_.begin(), queue_.end(), [&](const Queued& q) { return q.number == queued; });
    if (mine == queue_.end()) return {};  // A heartbeat has sent it.
    const std::string text = mine->text;
    if (LosesReply()) {  // It is sent again.
      tier_.Append(mine->kind, text);
      return {};
    }
    SendQueue();
    TierInvalidated done{.accepted = true, .position = tier_.position_, .lease = {}};
    if (with_lease) {
      done.lease = {tier_.NewToken(), tier_.position_};
      tier_.leases_[text] = {done.lease.token, tier_.position_, tier_.clock_->Now() + kLease};
    }
    return done;
  }

  bool AwaitAll(Instant) override {
    const std::lock_guard lock(tier_.mutex_);
    if (!away) SendQueue();
    return queue_.empty();
  }

  Instant trusted_until() const override { return trusted_until_.load(std::memory_order_acquire); }
  absl::Duration max_staleness() const override { return kMaxStaleness; }
  absl::Duration max_ttl() const override { return absl::Hours(24); }

 private:
  struct Queued {
    uint64_t number;
    TierTarget::Kind kind;
    std::string text;
    uint64_t position;
  };

  // With the tier's mutex held.
  void SendQueue() {
    for (Queued& q : queue_) tier_.Append(q.kind, q.text);
    queue_.clear();
  }
  bool Pends(std::string_view key) const {
    return std::any_of(queue_.begin(), queue_.end(),
                       [&](const Queued& q) { return q.kind != TierTarget::Kind::kKey || q.text == key; });
  }
  bool HasGap() const {
    const uint64_t first = tier_.journal_.empty() ? tier_.position_ + 1 : tier_.journal_.front().position;
    return applied_ + 1 < first;
  }
  bool LosesReply() {
    if (replies_to_lose == 0) return false;
    --replies_to_lose;
    return true;
  }

  FakeTier& tier_;
  TierListener& listener_;
  uint64_t reign_;
  uint64_t applied_ = 1;
  uint64_t queued_ = 0;
  std::list<Queued> queue_;
  std::atomic<Instant> trusted_until_{Instant::InfinitePast()};
};

inline absl::StatusOr<std::unique_ptr<TierCache>> FakeTier::Open(std::string_view, std::string_view,
                                                                 TierListener& listener) {
  auto process = std::make_unique<Process>(*this, listener);
  processes_.push_back(process.get());
  process->Beat();
  return process;
}

inline TierAnswer FakeTier::Answer(const TierAsk& question, Instant now) {
  const std::string key(question.key);
  TierAnswer answer;
  auto found = records_.find(key);
  if (found != records_.end() && (now >= found->second.expires_at + found->second.grace ||
                                  Outdated(found->second.record.position, found->second.record.tags))) {
    records_.erase(found);
    found = records_.end();
  }
  if (found != records_.end()) {
    answer.record = found->second.record;
    answer.record->left = found->second.expires_at - now;
    answer.record->position = position_;
    if (answer.record->left > absl::ZeroDuration() && answer.record->version != question.known_version) {
      answer.kind = TierAnswer::Kind::kHit;
      return answer;
    }
    if (answer.record->left > absl::ZeroDuration()) answer.record.reset();
  }
  const auto lease = leases_.find(key);
  if (lease != leases_.end() && now < lease->second.until) {
    answer.kind = TierAnswer::Kind::kBusy;
    answer.retry_after = absl::Milliseconds(5);
    return answer;
  }
  answer.kind = TierAnswer::Kind::kGranted;
  answer.lease = {NewToken(), position_};
  leases_[key] = {answer.lease.token, position_, now + kLease};
  return answer;
}

inline TierFilled FakeTier::Store(const TierFill& fill, Instant now) {
  const std::string key(fill.key);
  const auto lease = leases_.find(key);
  const bool holds = lease != leases_.end() && lease->second.token == fill.lease.token && now < lease->second.until;
  if (!holds) return {.kind = TierFilled::Kind::kRefused};
  const uint64_t granted = lease->second.position;
  leases_.erase(lease);
  if (Outdated(granted, fill.tags)) return {.kind = TierFilled::Kind::kRefused};
  if (fill.ttl <= absl::ZeroDuration()) return {.kind = TierFilled::Kind::kUnstored};
  TierRecord record{.absent = fill.absent,
                    .bytes = std::string(fill.bytes),
                    .tags = {fill.tags.begin(), fill.tags.end()},
                    .ttl = fill.ttl,
                    .load_time = fill.load_time,
                    .position = granted,
                    .version = ++versions_};
  records_[key] = {record, now + fill.ttl, fill.grace};
  return {TierFilled::Kind::kStored, position_, record.version};
}

inline uint64_t FakeTier::Append(TierTarget::Kind kind, const std::string& text) {
  ++position_;
  switch (kind) {
    case TierTarget::Kind::kKey:
      records_.erase(text);
      leases_.erase(text);
      break;
    case TierTarget::Kind::kTag: tags_[text] = position_; break;
    case TierTarget::Kind::kAll: all_ = position_; break;
  }
  journal_.push_back({position_, kind, text});
  return position_;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_H_

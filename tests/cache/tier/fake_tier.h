#ifndef STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_H_
#define STOCKADE_TESTS_CACHE_TIER_FAKE_TIER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/cache_tier.h"

namespace stockade::testing {

// A tier in memory: a second implementation of the contract of cache_tier.h, of which a test decides when heartbeats
// come, leases lapse, replies are lost, a process is cut off and a new reign begins. All caches of it have one name;
// each stands for a process. Thread-safe. No call blocks. It has a SyncPoint() before each use of its mutex and none
// while it holds it, so tests/cache/schedules can step it. Belongs to a shared_ptr, as caches require.
class FakeTier final : public CacheTier, public std::enable_shared_from_this<FakeTier> {
 public:
  static constexpr absl::Duration kMaxStaleness = absl::Seconds(10);
  static constexpr absl::Duration kLease = absl::Seconds(2);
  static constexpr absl::Duration kMaxTtl = absl::Hours(24);
  static constexpr size_t kMaxTags = 64;
  static constexpr size_t kMaxTagBytes = 255;

  class Process;

  struct Spans {
    absl::Duration max_staleness = kMaxStaleness;
    absl::Duration lease = kLease;
    absl::Duration retry_after = absl::Milliseconds(5);
  };

  // Something that happens on the server, or a reply of it.
  struct Event {
    enum class Kind {
      kAway,     // A question for the key `text` was answered kAway.
      kGranted,  // The process has the lease `token` of the key `text`.
      kEnded,    // The process has ended the lease `token`, by Fill() or Fail().
      kReload,   // The key `text` may be loaded once more: it has expired, is refreshed, or its lease has lapsed.
      kStored,   // The key `text` has the value `bytes`.
      kQueued,   // The process has queued its invalidation `number`.
      kAccepted,
      kShown,  // A heartbeat has seen all that has been accepted so far.
    };
    Kind kind;
    size_t process;
    std::string_view text = {};
    std::string_view token = {};
    std::string_view bytes = {};
    uint64_t number = 0;
  };
  // Invoked with the mutex held.
  using Observer = std::function<void(const Event&)>;

  explicit FakeTier(Clock* clock) : FakeTier(clock, Spans()) {}
  FakeTier(
      Clock* clock, const Spans& spans, Observer observer = [](const Event&) {})
      : clock_(clock), spans_(spans), observe_(std::move(observer)) {}

  Clock* clock() const override { return clock_; }
  absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                  TierListener& listener) override;

  std::atomic<size_t> max_value_bytes{SIZE_MAX};  // Larger values are not taken.

  size_t opened() const { return processes_.size(); }
  // The process that was opened as the i-th.
  Process& process(size_t i) { return *processes_.at(i); }
  // A heartbeat of each process that has not been destroyed.
  void BeatAll();

  // What happens to the server.
  void LapseLeases() {
    const auto lock = Lock();
    leases_.clear();
  }
  void DropRecords() {
    const auto lock = Lock();
    records_.clear();
  }
  void BeginReign() {
    const auto lock = Lock();
    ++reign_;
    position_ = 1;
    all_ = 0;
    records_.clear();
    leases_.clear();
    tags_.clear();
    journal_.clear();
  }
  void TrimJournal() {
    const auto lock = Lock();
    journal_.clear();
  }
  size_t leases() {
    const auto lock = Lock();
    return leases_.size();
  }
  // Leases that a cache had not ended before it destroyed its TierCache, which then ended them.
  size_t forgotten_leases() const { return forgotten_leases_; }
  int64_t asks() const { return asks_; }
  // The most keys of a question, and of a fill.
  size_t most_asked() const { return most_asked_; }
  size_t most_filled() const { return most_filled_; }
  int64_t undecodable() const { return undecodable_; }

 private:
  struct Record {
    TierRecord record;
    Instant expires_at;
    absl::Duration grace;
  };
  struct Lease {
    size_t process;
    std::string token;
    uint64_t position;
    Instant until;
  };
  struct Entry {
    uint64_t position;
    TierTarget::Kind kind;
    std::string text;
  };

  std::unique_lock<std::mutex> Lock() {
    base_internal::SyncPoint();
    return std::unique_lock(mutex_);
  }

  // With the mutex held.
  bool Outdated(uint64_t position, std::span<const std::string> tags) const {
    if (position < all_) return true;
    return std::any_of(tags.begin(), tags.end(), [&](const std::string& tag) {
      const auto found = tags_.find(tag);
      return found != tags_.end() && position < found->second;
    });
  }
  TierLease Grant(size_t process, const std::string& key, Instant now) {
    TierLease lease = {base_internal::Concat("lease ", ++tokens_), position_};
    leases_[key] = {process, lease.token, lease.position, now + spans_.lease};
    return lease;
  }
  bool Takes(const TierFill& fill) const {
    return fill.ttl > absl::ZeroDuration() && fill.bytes.size() <= max_value_bytes && fill.tags.size() <= kMaxTags &&
           std::ranges::all_of(fill.tags, [](const std::string& tag) { return tag.size() <= kMaxTagBytes; });
  }
  TierAnswer Answer(size_t process, const TierAsk& question, Instant now);
  TierFilled Store(size_t process, const TierFill& fill, Instant now);
  uint64_t Append(TierTarget::Kind kind, const std::string& text);

  Clock* const clock_;
  const Spans spans_;
  const Observer observe_;
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
  std::atomic<int64_t> undecodable_{0};
  std::atomic<size_t> most_asked_{0};
  std::atomic<size_t> most_filled_{0};
  std::atomic<size_t> forgotten_leases_{0};
};

// One process. The test sets what is wrong with its connection.
class FakeTier::Process final : public TierCache {
 public:
  Process(std::shared_ptr<FakeTier> tier, TierListener& listener)
      : shared_(std::move(tier)), index_(tier_.processes_.size()), listener_(listener), reign_(tier_.reign_) {}
  ~Process() override {
    const auto lock = tier_.Lock();
    tier_.processes_[index_] = nullptr;
    if (away) return;
    tier_.forgotten_leases_ += std::erase_if(tier_.leases_, [&](const auto& l) { return l.second.process == index_; });
  }

  std::atomic<bool> away{false};        // Nothing reaches the server.
  std::atomic<int> replies_to_lose{0};  // The server runs it, and this process does not hear of it.
  // Invoked while the reply to a question is on its way. Set before other threads use the process.
  std::function<void()> on_reply = [] {};
  std::function<void()> on_fill = [] {};  // The same, of a fill.
  std::function<void()> on_await_all = [] {};
  std::atomic<bool> waits_cancelled{false};

  // A heartbeat: sends what is queued, applies the journal, and then trusts.
  void Beat() {
    const Instant sent = tier_.clock_->Now();
    if (away) return;
    std::vector<Entry> entries;
    bool reset = false;
    {
      const auto lock = tier_.Lock();
      SendQueue();
      Tell({Event::Kind::kShown, index_});
      reset = reign_ != tier_.reign_ || HasGap();
      if (reset) {
        reign_ = tier_.reign_;
        applied_ = tier_.position_;
      } else {
        for (const Entry& entry : tier_.journal_) {
          if (entry.position > std::max(applied_, heard_)) entries.push_back(entry);
        }
        applied_ = tier_.position_;
      }
      heard_ = 0;
    }
    if (reset) {
      trusted_until_.store(Instant::InfinitePast(), std::memory_order_release);
      listener_.OnReset();
    }
    for (const Entry& entry : entries) listener_.OnInvalidated(entry.position, {entry.kind, entry.text});
    base_internal::SyncPoint();
    trusted_until_.store(sent + tier_.spans_.max_staleness, std::memory_order_release);
  }

  // A message brings the next entry of the journal, if there is one. Not while a heartbeat runs.
  void HearEntry() {
    std::vector<Entry> next;
    {
      const auto lock = tier_.Lock();
      if (away || reign_ != tier_.reign_) return;
      heard_ = std::max(applied_, heard_) + 1;
      std::ranges::copy_if(tier_.journal_, std::back_inserter(next),
                           [&](const Entry& e) { return e.position == heard_; });
      if (next.empty()) --heard_;
    }
    for (const Entry& entry : next) listener_.OnInvalidated(entry.position, {entry.kind, entry.text});
  }
  // A message says that a load of the key has ended, which may be late or wrong.
  void TellLeaseEnded(const std::string& key) { listener_.OnLeaseEnded(key); }

  std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) override {
    ++tier_.asks_;
    tier_.most_asked_ = std::max<size_t>(tier_.most_asked_, questions.size());
    for (const TierAsk& question : questions) tier_.undecodable_ += question.undecodable;
    std::vector<TierAnswer> answers(questions.size());
    {
      const auto lock = tier_.Lock();
      const bool reached = !away && reign_ == tier_.reign_;
      const bool lost = reached && LosesReply();
      for (size_t i = 0; i < questions.size(); ++i) {
        if (reached && !Pends(questions[i].key)) {
          TierAnswer answer = tier_.Answer(index_, questions[i], tier_.clock_->Now());
          if (!lost) answers[i] = std::move(answer);
        }
        const TierAnswer& told = answers[i];
        if (told.kind == TierAnswer::Kind::kAway) Tell({Event::Kind::kAway, index_, questions[i].key});
        if (told.kind == TierAnswer::Kind::kGranted) {
          Tell({Event::Kind::kGranted, index_, questions[i].key, told.lease.token});
        }
      }
    }
    base_internal::SyncPoint();
    on_reply();
    return answers;
  }

  std::vector<TierFilled> Fill(std::span<const TierFill> fills) override {
    std::vector<TierFilled> results(fills.size());
    tier_.most_filled_ = std::max<size_t>(tier_.most_filled_, fills.size());
    {
      const auto lock = tier_.Lock();
      for (const TierFill& fill : fills) Tell({Event::Kind::kEnded, index_, fill.key, fill.lease.token});
      if (away) return results;
      const bool lost = LosesReply();
      for (size_t i = 0; i < fills.size(); ++i) {
        const TierFilled result = reign_ == tier_.reign_ ? tier_.Store(index_, fills[i], tier_.clock_->Now())
                                                         : TierFilled{.kind = TierFilled::Kind::kRefused};
        if (!lost) results[i] = result;
      }
    }
    base_internal::SyncPoint();
    on_fill();
    return results;
  }

  void Fail(std::string_view key, const TierLease& lease) override {
    const auto lock = tier_.Lock();
    Tell({Event::Kind::kEnded, index_, key, lease.token});
    const auto found = tier_.leases_.find(std::string(key));
    if (!away && found != tier_.leases_.end() && found->second.token == lease.token) tier_.leases_.erase(found);
  }

  uint64_t Queue(const TierTarget& target) override {
    const auto lock = tier_.Lock();
    queue_.push_back({++queued_, target.kind, std::string(target.text)});
    Tell({.kind = Event::Kind::kQueued, .process = index_, .number = queued_});
    return queued_;
  }

  TierInvalidated Await(uint64_t queued, bool with_lease) override {
    const auto lock = tier_.Lock();
    if (away) return {};
    const auto mine = std::find_if(queue_.begin(), queue_.end(), [&](const Queued& q) { return q.number == queued; });
    if (mine == queue_.end()) return {.accepted = true, .position = accepted_.at(queued), .lease = {}};
    const std::string text = mine->text;
    if (LosesReply()) {  // It is sent again.
      Accept(*mine);
      return {};
    }
    Accept(*mine);
    queue_.erase(mine);
    TierInvalidated done{.accepted = true, .position = tier_.position_, .lease = {}};
    if (with_lease) {
      done.lease = tier_.Grant(index_, text, tier_.clock_->Now());
      Tell({Event::Kind::kGranted, index_, text, done.lease.token});
    }
    return done;
  }

  bool AwaitAll(Instant) override {
    on_await_all();
    const auto lock = tier_.Lock();
    if (!away) SendQueue();
    return queue_.empty();
  }
  void CancelWaits() override { waits_cancelled = true; }

  Instant trusted_until() const override { return trusted_until_.load(std::memory_order_acquire); }
  absl::Duration max_staleness() const override { return tier_.spans_.max_staleness; }
  absl::Duration max_ttl() const override { return kMaxTtl; }

 private:
  struct Queued {
    uint64_t number;
    TierTarget::Kind kind;
    std::string text;
  };

  // With the tier's mutex held.
  void Tell(const Event& event) const { tier_.observe_(event); }
  void Accept(const Queued& queued) {
    accepted_[queued.number] = tier_.Append(queued.kind, queued.text);
    Tell({.kind = Event::Kind::kAccepted, .process = index_, .number = queued.number});
  }
  void SendQueue() {
    for (const Queued& q : queue_) Accept(q);
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

  const std::shared_ptr<FakeTier> shared_;
  FakeTier& tier_ = *shared_;
  const size_t index_;
  TierListener& listener_;
  uint64_t reign_;
  uint64_t applied_ = 1;
  uint64_t heard_ = 0;  // By messages since the last heartbeat.
  uint64_t queued_ = 0;
  std::list<Queued> queue_;
  std::map<uint64_t, uint64_t> accepted_;  // The positions of those that were sent.
  std::atomic<Instant> trusted_until_{Instant::InfinitePast()};
};

inline absl::StatusOr<std::unique_ptr<TierCache>> FakeTier::Open(std::string_view, std::string_view,
                                                                 TierListener& listener) {
  auto process = std::make_unique<Process>(shared_from_this(), listener);
  processes_.push_back(process.get());
  process->Beat();
  return process;
}

inline void FakeTier::BeatAll() {
  for (Process* const process : processes_) {
    if (process != nullptr) process->Beat();
  }
}

inline TierAnswer FakeTier::Answer(size_t process, const TierAsk& question, Instant now) {
  const std::string key(question.key);
  TierAnswer answer;
  auto found = records_.find(key);
  if (found != records_.end() && (now >= found->second.expires_at + found->second.grace ||
                                  Outdated(found->second.record.position, found->second.record.tags))) {
    if (now >= found->second.expires_at) observe_({Event::Kind::kReload, process, key});
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
    answer.retry_after = spans_.retry_after;
    return answer;
  }
  if (lease != leases_.end() || found != records_.end()) observe_({Event::Kind::kReload, process, key});
  answer.kind = TierAnswer::Kind::kGranted;
  answer.lease = Grant(process, key, now);
  return answer;
}

inline TierFilled FakeTier::Store(size_t process, const TierFill& fill, Instant now) {
  const std::string key(fill.key);
  const auto lease = leases_.find(key);
  const bool holds = lease != leases_.end() && lease->second.token == fill.lease.token && now < lease->second.until;
  if (!holds) return {.kind = TierFilled::Kind::kRefused};
  const uint64_t granted = lease->second.position;
  leases_.erase(lease);
  if (Outdated(granted, fill.tags)) return {.kind = TierFilled::Kind::kRefused};
  if (!Takes(fill)) {
    records_.erase(key);
    return {.kind = TierFilled::Kind::kUnstored, .position = granted};
  }
  const absl::Duration ttl = std::min(fill.ttl, kMaxTtl);
  TierRecord record{.absent = fill.absent,
                    .bytes = std::string(fill.bytes),
                    .tags = {fill.tags.begin(), fill.tags.end()},
                    .ttl = ttl,
                    .load_time = fill.load_time,
                    .position = granted,
                    .version = ++versions_};
  records_[key] = {record, now + ttl, std::min(fill.grace, kMaxTtl - ttl)};
  observe_({.kind = Event::Kind::kStored, .process = process, .text = fill.key, .bytes = fill.bytes});
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

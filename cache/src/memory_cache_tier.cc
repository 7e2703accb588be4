#include "stockade/cache/memory_cache_tier.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "stockade/base/strings.h"
#include "stockade/base/sync_point.h"
#include "stockade/locks/lock_service.h"

namespace stockade {
namespace {

using base_internal::Concat;
using base_internal::MutexLock;
using base_internal::SyncPoint;  // Before each use of the mutex, and none while it is held: tests step the tier.

// What RedisCacheTier takes.
constexpr size_t kMaxTags = 64;
constexpr size_t kMaxTagBytes = 255;

}  // namespace

std::shared_ptr<MemoryCacheTier> MemoryCacheTier::Create(const MemoryCacheTierOptions& options, Observer observer) {
  return std::shared_ptr<MemoryCacheTier>(new MemoryCacheTier(options, std::move(observer)));
}

MemoryCacheTier::MemoryCacheTier(const MemoryCacheTierOptions& options, Observer observer)
    : options_(options), observer_(std::move(observer)) {}

MemoryCacheTier::~MemoryCacheTier() = default;

absl::StatusOr<std::unique_ptr<TierCache>> MemoryCacheTier::Open(std::string_view cache, std::string_view codec,
                                                                 TierListener& listener) {
  if (absl::Status valid = CheckName("MemoryCacheTier: cache", cache, kMaxCacheBytes); !valid.ok()) return valid;
  if (absl::Status valid = CheckName("MemoryCacheTier: codec", codec, kMaxCodecBytes); !valid.ok()) return valid;
  std::unique_ptr<Process> process(new Process(shared_from_this(), cache, codec, listener));
  process->Beat();
  return process;
}

size_t MemoryCacheTier::opened() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return processes_.size();
}

MemoryCacheTier::Process& MemoryCacheTier::process(size_t i) const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return *processes_.at(i);
}

void MemoryCacheTier::BeatAll() {
  for (size_t i = 0; i < opened(); ++i) {
    Process* process = nullptr;
    {
      SyncPoint();
      const MutexLock lock(mutex_);
      process = processes_[i];
    }
    if (process != nullptr) process->Beat();
  }
}

void MemoryCacheTier::LapseLeases() {
  SyncPoint();
  const MutexLock lock(mutex_);
  for (auto& [name, space] : spaces_) space.leases.clear();
}

void MemoryCacheTier::DropRecords() {
  SyncPoint();
  const MutexLock lock(mutex_);
  for (auto& [name, space] : spaces_) space.records.clear();
}

void MemoryCacheTier::BeginReign() {
  SyncPoint();
  const MutexLock lock(mutex_);
  ++reign_;
  position_ = 1;
  spaces_.clear();
  journal_.clear();
}

void MemoryCacheTier::TrimJournal() {
  SyncPoint();
  const MutexLock lock(mutex_);
  journal_.clear();
}

size_t MemoryCacheTier::leases() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  size_t count = 0;
  for (const auto& [name, space] : spaces_) count += space.leases.size();
  return count;
}

size_t MemoryCacheTier::forgotten_leases() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return forgotten_leases_;
}

int64_t MemoryCacheTier::asks() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return asks_;
}

size_t MemoryCacheTier::most_asked() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return most_asked_;
}

size_t MemoryCacheTier::most_filled() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return most_filled_;
}

int64_t MemoryCacheTier::undecodable() const {
  SyncPoint();
  const MutexLock lock(mutex_);
  return undecodable_;
}

bool MemoryCacheTier::Space::IsOutdated(uint64_t position, std::span<const std::string> tags_of) const {
  if (position < all) return true;
  return std::ranges::any_of(tags_of, [&](const std::string& tag) {
    const auto found = tags.find(tag);
    return found != tags.end() && position < found->second;
  });
}

TierLease MemoryCacheTier::Grant(const Process& process, const std::string& key, Instant now) {
  TierLease lease = {Concat("lease ", ++tokens_), position_};
  spaces_[process.cache_].leases[key] = {process.index_, lease.token, lease.position, now + options_.lease};
  return lease;
}

bool MemoryCacheTier::Takes(const TierFill& fill) const {
  return fill.ttl > absl::ZeroDuration() && fill.bytes.size() <= options_.max_value_bytes &&
         fill.tags.size() <= kMaxTags &&
         std::ranges::all_of(fill.tags, [](const std::string& tag) { return tag.size() <= kMaxTagBytes; });
}

TierAnswer MemoryCacheTier::Answer(const Process& process, const TierAsk& question, Instant now) {
  Space& space = spaces_[process.cache_];
  const std::string key(question.key);
  TierAnswer answer;
  auto found = space.records.find(key);
  if (found != space.records.end() && (now >= found->second.expires_at + found->second.grace ||
                                       space.IsOutdated(found->second.record.position, found->second.record.tags) ||
                                       found->second.codec != process.codec_)) {
    if (now >= found->second.expires_at) Tell({Event::Kind::kReload, process.index_, key});
    space.records.erase(found);
    found = space.records.end();
  }
  if (found != space.records.end()) {
    answer.record = found->second.record;
    answer.record->left = found->second.expires_at - now;
    answer.record->position = position_;
    if (answer.record->left > absl::ZeroDuration() && answer.record->version != question.known_version) {
      answer.kind = TierAnswer::Kind::kHit;
      return answer;
    }
    if (answer.record->left > absl::ZeroDuration()) answer.record.reset();
  }
  const auto lease = space.leases.find(key);
  if (lease != space.leases.end() && now < lease->second.until) {
    answer.kind = TierAnswer::Kind::kBusy;
    answer.retry_after = options_.retry_after;
    return answer;
  }
  if (lease != space.leases.end() || found != space.records.end()) Tell({Event::Kind::kReload, process.index_, key});
  answer.kind = TierAnswer::Kind::kGranted;
  answer.lease = Grant(process, key, now);
  return answer;
}

TierFilled MemoryCacheTier::Store(const Process& process, const TierFill& fill, Instant now) {
  Space& space = spaces_[process.cache_];
  const std::string key(fill.key);
  const auto lease = space.leases.find(key);
  const bool holds =
      lease != space.leases.end() && lease->second.token == fill.lease.token && now < lease->second.until;
  if (!holds) return {.kind = TierFilled::Kind::kRefused};
  const uint64_t granted = lease->second.position;
  space.leases.erase(lease);
  if (space.IsOutdated(granted, fill.tags)) return {.kind = TierFilled::Kind::kRefused};
  if (!Takes(fill)) {
    space.records.erase(key);
    return {.kind = TierFilled::Kind::kUnstored, .position = granted};
  }
  const absl::Duration ttl = std::min(fill.ttl, options_.max_ttl);
  TierRecord record{.absent = fill.absent,
                    .bytes = std::string(fill.bytes),
                    .tags = {fill.tags.begin(), fill.tags.end()},
                    .ttl = ttl,
                    .load_time = fill.load_time,
                    .position = granted,
                    .version = ++versions_};
  space.records[key] = {process.codec_, record, now + ttl, std::min(fill.grace, options_.max_ttl - ttl)};
  Tell({.kind = Event::Kind::kStored, .process = process.index_, .text = fill.key, .bytes = fill.bytes});
  return {TierFilled::Kind::kStored, position_, record.version};
}

uint64_t MemoryCacheTier::Append(const std::string& cache, TierTarget::Kind kind, const std::string& text) {
  Space& space = spaces_[cache];
  ++position_;
  switch (kind) {
    case TierTarget::Kind::kKey:
      space.records.erase(text);
      if (FindMark(cache, text) == nullptr) space.leases.erase(text);
      break;
    case TierTarget::Kind::kTag: space.tags[text] = position_; break;
    case TierTarget::Kind::kAll: space.all = position_; break;
  }
  journal_.push_back({position_, cache, kind, text});
  return position_;
}

MemoryCacheTier::Lease* MemoryCacheTier::FindMark(const std::string& cache, const std::string& key) {
  Space& space = spaces_[cache];
  const auto lease = space.leases.find(key);
  const bool stands = lease != space.leases.end() && lease->second.is_mark() && clock()->Now() < lease->second.until;
  return stands ? &lease->second : nullptr;
}

// The side of a process.

MemoryCacheTier::Process::Process(std::shared_ptr<MemoryCacheTier> tier, std::string_view cache, std::string_view codec,
                                  TierListener& listener)
    : shared_(std::move(tier)), cache_(cache), codec_(codec), listener_(listener) {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  index_ = tier_.processes_.size();
  reign_ = tier_.reign_;
  tier_.processes_.push_back(this);
}

MemoryCacheTier::Process::~Process() {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  tier_.processes_[index_] = nullptr;
  if (away) return;
  tier_.forgotten_leases_ +=
      std::erase_if(space().leases, [&](const auto& lease) { return lease.second.process == index_; });
}

void MemoryCacheTier::Process::Beat() {
  const Instant sent = tier_.clock()->Now();
  if (away) return;
  std::vector<Entry> entries;
  bool reset = false;
  {
    SyncPoint();
    const MutexLock lock(tier_.mutex_);
    SendQueue();
    tier_.Tell({Event::Kind::kShown, index_});
    const uint64_t first = tier_.journal_.empty() ? tier_.position_ + 1 : tier_.journal_.front().position;
    reset = reign_ != tier_.reign_ || applied_ + 1 < first;
    reign_ = tier_.reign_;
    const uint64_t known = std::max(applied_, heard_);
    for (const Entry& entry : tier_.journal_) {
      if (!reset && entry.position > known && entry.cache == cache_) entries.push_back(entry);
    }
    applied_ = tier_.position_;
    heard_ = 0;
  }
  if (reset) {
    trusted_until_.store(Instant::InfinitePast(), std::memory_order_release);
    listener_.OnReset();
  }
  for (const Entry& entry : entries) listener_.OnInvalidated(entry.position, {entry.kind, entry.text});
  SyncPoint();
  trusted_until_.store(sent + tier_.options_.max_staleness, std::memory_order_release);
}

void MemoryCacheTier::Process::HearEntry() {
  std::vector<Entry> next;
  {
    SyncPoint();
    const MutexLock lock(tier_.mutex_);
    if (away || reign_ != tier_.reign_) return;
    const uint64_t position = std::max(applied_, heard_) + 1;
    std::ranges::copy_if(tier_.journal_, std::back_inserter(next),
                         [&](const Entry& entry) { return entry.position == position; });
    if (next.empty()) return;
    heard_ = position;
  }
  for (const Entry& entry : next) {
    if (entry.cache == cache_) listener_.OnInvalidated(entry.position, {entry.kind, entry.text});
  }
}

void MemoryCacheTier::Process::TellLeaseEnded(std::string_view key) { listener_.OnLeaseEnded(key); }

std::vector<TierAnswer> MemoryCacheTier::Process::Ask(std::span<const TierAsk> questions) {
  std::vector<TierAnswer> answers(questions.size());
  {
    SyncPoint();
    const MutexLock lock(tier_.mutex_);
    ++tier_.asks_;
    tier_.most_asked_ = std::max(tier_.most_asked_, questions.size());
    const bool reached = !away && reign_ == tier_.reign_;
    const bool lost = reached && LosesReply();
    for (size_t i = 0; i < questions.size(); ++i) {
      tier_.undecodable_ += questions[i].undecodable ? 1 : 0;
      if (reached && !Pends(questions[i].key)) {
        TierAnswer answer = tier_.Answer(*this, questions[i], tier_.clock()->Now());
        if (!lost) answers[i] = std::move(answer);
      }
      const TierAnswer& told = answers[i];
      if (told.kind == TierAnswer::Kind::kAway) tier_.Tell({Event::Kind::kAway, index_, questions[i].key});
      if (told.kind == TierAnswer::Kind::kGranted) {
        tier_.Tell({Event::Kind::kGranted, index_, questions[i].key, told.lease.token});
      }
    }
  }
  SyncPoint();
  on_reply();
  return answers;
}

std::vector<TierFilled> MemoryCacheTier::Process::Fill(std::span<const TierFill> fills) {
  std::vector<TierFilled> results(fills.size());
  {
    SyncPoint();
    const MutexLock lock(tier_.mutex_);
    tier_.most_filled_ = std::max(tier_.most_filled_, fills.size());
    for (const TierFill& fill : fills) tier_.Tell({Event::Kind::kEnded, index_, fill.key, fill.lease.token});
    if (away) return results;
    const bool lost = LosesReply();
    for (size_t i = 0; i < fills.size(); ++i) {
      const TierFilled result = reign_ == tier_.reign_ ? tier_.Store(*this, fills[i], tier_.clock()->Now())
                                                       : TierFilled{.kind = TierFilled::Kind::kRefused};
      if (!lost) results[i] = result;
    }
  }
  SyncPoint();
  on_fill();
  return results;
}

void MemoryCacheTier::Process::Fail(std::string_view key, const TierLease& lease) {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  tier_.Tell({Event::Kind::kEnded, index_, key, lease.token});
  const auto found = space().leases.find(std::string(key));
  if (!away && found != space().leases.end() && found->second.token == lease.token) space().leases.erase(found);
}

uint64_t MemoryCacheTier::Process::Queue(const TierTarget& target) {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  queue_.push_back({++queued_, target.kind, std::string(target.text)});
  tier_.Tell({.kind = Event::Kind::kQueued, .process = index_, .number = queued_});
  return queued_;
}

TierInvalidated MemoryCacheTier::Process::Await(uint64_t queued, bool with_lease) {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  if (away) return {};
  const auto mine = std::ranges::find(queue_, queued, &Queued::number);
  if (mine == queue_.end()) return {.accepted = true, .position = accepted_.at(queued), .lease = {}};
  const std::string key = mine->text;
  Accept(*mine);
  if (LosesReply()) return {};  // It is sent again.
  queue_.erase(mine);
  TierInvalidated done{.accepted = true, .position = tier_.position_, .lease = {}};
  if (with_lease && tier_.FindMark(cache_, key) == nullptr) {
    done.lease = tier_.Grant(*this, key, tier_.clock()->Now());
    tier_.Tell({Event::Kind::kGranted, index_, key, done.lease.token});
  }
  return done;
}

absl::StatusOr<LockLease> MemoryCacheTier::Process::Lock(std::string_view key, Duration timeout,
                                                         const std::stop_token& stop) {
  if (!tier_.has_locks()) return absl::UnimplementedError("MemoryCacheTier: locks = null");
  return tier_.options_.locks->Acquire(
      Concat(cache_, ":", key), {.kind = LockKind::kWrite, .wait = timeout, .owner = LockOwner::New(), .stop = stop});
}

TierMark MemoryCacheTier::Process::Hold(uint64_t queued, int64_t fencing_token) {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  const auto mine = std::ranges::find(queue_, queued, &Queued::number);
  if (away || mine == queue_.end()) return {};
  const std::string key = mine->text;
  const Lease* const mark = tier_.FindMark(cache_, key);
  if (mark != nullptr && mark->fencing_token > fencing_token) {
    queue_.erase(mine);
    return {.kind = TierMark::Kind::kRefused};
  }
  space().leases.erase(key);
  Accept(*mine);
  const bool lost = LosesReply();
  const Lease held = {.process = index_,
                      .token = Concat("mark ", ++tier_.tokens_),
                      .position = tier_.position_,
                      .until = lost ? tier_.clock()->Now() + tier_.options_.lease : Instant::InfiniteFuture(),
                      .fencing_token = fencing_token};
  space().leases[key] = held;
  if (lost) return {};  // The invalidation is sent again.
  queue_.erase(mine);
  return {.kind = TierMark::Kind::kStands,
          .token = held.token,
          .position = tier_.position_,
          .bound = tier_.options_.max_staleness};
}

TierMark MemoryCacheTier::Process::Release(uint64_t queued, const TierMark& held) {
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  const auto mine = std::ranges::find(queue_, queued, &Queued::number);
  if (mine == queue_.end()) return {};
  const std::string key = mine->text;
  Lease* const mark = tier_.FindMark(cache_, key);
  const bool stood = mark != nullptr && mark->token == held.token;
  if (stood) mark->until = std::min(mark->until, tier_.clock()->Now() + tier_.options_.lease);
  if (away) return {};
  if (stood) space().leases.erase(key);
  Accept(*mine);
  if (LosesReply()) return {};
  queue_.erase(mine);
  return {.kind = stood ? TierMark::Kind::kStands : TierMark::Kind::kLost,
          .position = tier_.position_,
          .bound = tier_.options_.max_staleness};
}

bool MemoryCacheTier::Process::AwaitAll(Instant) {
  on_await_all();
  SyncPoint();
  const MutexLock lock(tier_.mutex_);
  if (!away) SendQueue();
  return queue_.empty();
}

void MemoryCacheTier::Process::Accept(const Queued& queued) {
  accepted_[queued.number] = tier_.Append(cache_, queued.kind, queued.text);
  tier_.Tell({.kind = Event::Kind::kAccepted, .process = index_, .number = queued.number});
}

void MemoryCacheTier::Process::SendQueue() {
  for (const Queued& queued : queue_) Accept(queued);
  queue_.clear();
}

bool MemoryCacheTier::Process::Pends(std::string_view key) const {
  return std::ranges::any_of(
      queue_, [&](const Queued& queued) { return queued.kind != TierTarget::Kind::kKey || queued.text == key; });
}

bool MemoryCacheTier::Process::LosesReply() {
  if (replies_to_lose == 0) return false;
  --replies_to_lose;
  return true;
}

}  // namespace stockade

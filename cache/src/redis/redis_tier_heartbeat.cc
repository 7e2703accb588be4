#include <algorithm>
#include <cstddef>
#include <utility>

#include "redis_tier.h"
#include "redis_tier_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

// What a heartbeat asks for at once, each entry counting 1 KB more than its bytes, and after failures at least.
constexpr int64_t kMostBytesPerSync = 1 << 20;
constexpr int64_t kLeastBytesPerSync = 2 << 10;
constexpr size_t kMaxLeft = 64;

// nullopt if it is not an entry of this layout. Unknown fields are ignored.
std::optional<TierJournalEntry> ReadEntry(const RedisReply& reply) {
  if (reply.elements().size() != 2) return std::nullopt;
  TierJournalEntry entry;
  const std::string_view id = reply.elements()[0].text();
  size_t at = 0;
  for (; at < id.size() && id[at] >= '0' && id[at] <= '9' && at < 18; ++at) {
    entry.position = entry.position * 10 + static_cast<uint64_t>(id[at] - '0');
  }
  if (at == 0 || id.substr(at) != "-0") return std::nullopt;
  const std::span<const RedisReply> fields = reply.elements()[1].elements();
  std::string_view kind;
  for (size_t n = 0; n + 1 < fields.size(); n += 2) {
    const std::string_view value = fields[n + 1].text();
    if (fields[n].text() == "c") entry.cache = value;
    if (fields[n].text() == "k") kind = value;
    if (fields[n].text() == "t") entry.target.text = value;
  }
  entry.target.kind = TierKindOf(kind);
  if (entry.target.kind == TierTarget::Kind::kAll) entry.target.text = {};
  return entry;
}

bool SameTarget(const TierJournalEntry& a, const TierJournalEntry& b) {
  return a.cache == b.cache && a.target.kind == b.target.kind && a.target.text == b.target.text;
}

}  // namespace

bool RedisTier::IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsInternal(status);
}

template <typename Call>
void RedisTier::CallListeners(const Call& call) {
  Spaces spaces;
  {
    const MutexLock lock(mutex_);
    spaces = spaces_;
    calling_ = true;
  }
  call(spaces);
  const MutexLock lock(mutex_);
  calling_ = false;
  changed_.NotifyAll();
}

// Entries that do not follow the last one are left to the next heartbeat, and so are those of another reign.
void RedisTier::TakeMessages() {
  std::vector<std::string> received;
  std::shared_ptr<const TierReign> reign;
  uint64_t applied = 0;
  {
    const MutexLock lock(mutex_);
    received.swap(received_);
    reign = reign_;
    applied = applied_;
  }
  if (reign == nullptr) return;
  CallListeners([&](const Spaces& spaces) {
    for (std::string& message : received) {
      if (early_.size() >= kMaxMessages) return;
      const std::optional<TierJournalEntry> entry = ReadTierMessage(message, reign->incarnation);
      if (!entry || entry->position != applied + early_.size() + 1) continue;
      metrics_.Add(kTierInvalidationMessages);
      Report(spaces, *reign, *entry);
      sum_ = TierSum(sum_, message);
      early_.push_back(std::move(message));
    }
  });
}

void RedisTier::Report(const Spaces& spaces, const TierReign& reign, const TierJournalEntry& entry) {
  const auto found = spaces.find(entry.cache);
  if (found != spaces.end()) found->second->listener.OnInvalidated(reign.Expose(entry.position), entry.target);
}

// The subscriptions may have been lost since, or refused.
void RedisTier::NoteSubscribed() {
  if (!options_.pubsub) return;
  const auto status = [&] {
    const absl::Status first = journal_channel_.AwaitSubscribed(absl::ZeroDuration());
    return first.ok() ? inbox_.AwaitSubscribed(absl::ZeroDuration()) : first;
  };
  subscribed_ = status().ok();
  const absl::Status now = status();  // They may have been confirmed in between.
  if (now.ok()) {
    subscribed_ = true;
  } else if (!absl::IsUnavailable(now) && !absl::IsDeadlineExceeded(now) &&
             !std::exchange(warned_subscription_, true)) {
    Log(LogSeverity::kWarning, Concat("RedisCacheTier '", options_.prefix,
                                      "': without messages, this process finds changes by polling: ", now.ToString()));
  }
}

absl::Status RedisTier::Beat(Instant deadline) {
  const Instant begun = clock_->Now();
  NoteSubscribed();
  {
    const MutexLock lock(mutex_);
    beat_requested_ = false;
    ++beats_begun_;
    for (const auto& [name, space] : spaces_) space->queue.EnqueueHeldBefore(begun - options_.timeout);
  }
  absl::Status status = Follow(deadline);
  if (!status.ok() && !IsRefusal(status)) {
    // A command that has no connection does not say whether the server refuses it.
    const absl::Status server = service_->ServerOf(keys_.state, absl::ZeroDuration()).status();
    if (IsRefusal(server)) status = server;
  }
  metrics_.Add(status.ok() ? kTierHeartbeatsOk : IsRefusal(status) ? kTierHeartbeatsRefused : kTierHeartbeatsFailed);
  if (status.ok()) metrics_.ObserveSpan(kTierHeartbeatSeconds, begun, clock_->Now());
  const MutexLock lock(mutex_);
  beats_ended_ = beats_begun_;
  if (status.ok()) {
    away_ = false;
  } else if (Silent() || clock_->Now() >= trusted_until()) {
    away_ = true;
  }
  changed_.NotifyAll();
  return status;
}

// Reads the journal, of a new reign if the last one is over.
absl::Status RedisTier::Follow(Instant deadline) {
  const auto reign = [this] {
    const MutexLock lock(mutex_);
    return reign_;
  };
  const std::shared_ptr<const TierReign> last = reign();
  absl::Status status = last != nullptr ? Sync(*last, deadline) : absl::AbortedError("no reign yet");
  // Another process may begin a new reign in between.
  for (int attempt = 0; absl::IsAborted(status) && attempt < 3; ++attempt) {
    status = Adopt(deadline);
    if (!status.ok()) continue;
    // The way to a new reign may have taken all the time, and questions wait for this heartbeat.
    status = Sync(*reign(), std::max(deadline, clock_->Now() + options_.timeout / 2));
  }
  return status;
}

// Logs each change.
void RedisTier::NoteBeat(const absl::Status& status) {
  const Logged kind = status.ok() ? Logged::kSuccess : IsRefusal(status) ? Logged::kRefusal : Logged::kFailure;
  if (std::exchange(logged_, kind) == kind) return;
  const std::string tier = Concat("RedisCacheTier '", options_.prefix, "': ");
  switch (kind) {
    case Logged::kSuccess: Log(LogSeverity::kInfo, Concat(tier, "heartbeats succeed again")); break;
    case Logged::kFailure: Log(LogSeverity::kWarning, Concat(tier, "a heartbeat failed: ", status.ToString())); break;
    case Logged::kRefusal:
      Log(LogSeverity::kError, Concat(tier, "Redis refuses the heartbeats: ", status.ToString()));
      break;
  }
}

void RedisTier::Leave(std::string_view incarnation) {
  if (std::find(left_.begin(), left_.end(), incarnation) != left_.end()) return;
  left_.emplace_back(incarnation);
  if (left_.size() > kMaxLeft) left_.pop_front();
}

absl::Status RedisTier::Adopt(Instant deadline) {
  const absl::StatusOr<RedisServerIdentity> server =
      service_->ServerOf(keys_.state, Duration(deadline - clock_->Now()));
  NoteReply(server.status());
  if (!server.ok()) return server.status();
  std::optional<std::string> run_id;
  if (server->run_id.ok()) {
    run_id = *server->run_id;
  } else if (!std::exchange(warned_identity_, true)) {
    Log(LogSeverity::kWarning,
        Concat("RedisCacheTier '", options_.prefix, "': failovers and restarts of Redis cannot be detected: ",
               std::string(server->run_id.status().message())));
  }
  std::string left;
  for (const std::string& incarnation : left_) left += Concat(left.empty() ? "" : " ", incarnation);
  std::string incarnation;
  {
    const MutexLock lock(mutex_);
    incarnation = tokens_.Incarnation();
  }
  const RedisCommand adopt = RedisCommand(TierAdoptScript(), {keys_.state, keys_.journal})
                                 .Arg(run_id.value_or(""))
                                 .Arg(incarnation)
                                 .Arg(left)
                                 .Arg(absl::ToInt64Milliseconds(options_.max_ttl))
                                 .Arg(absl::ToInt64Milliseconds(options_.max_staleness))
                                 .Idempotent();
  const absl::StatusOr<RedisReply> reply =
      service_->Run(adopt, {.timeout = deadline - clock_->Now(), .on_server = run_id});
  NoteReply(reply.status());
  if (!reply.ok()) return reply.status();
  const std::span<const RedisReply> parts = reply->elements();
  if (parts.size() != 4 || parts[0].text().size() != kTierIncarnationBytes) return Unexpected("adopt", *reply);
  if (parts[3].integer() == 1) {
    Log(LogSeverity::kError, Concat("RedisCacheTier '", options_.prefix, "': the key '", keys_.state,
                                    "' had another type; it was deleted, and a new reign begins"));
  }

  auto reign = std::make_shared<TierReign>();
  reign->incarnation = parts[0].text();
  reign->run_id = run_id;
  std::vector<std::shared_ptr<TierSpace>> spaces;
  {
    const MutexLock lock(mutex_);
    if (reign_ != nullptr) {
      if (reign_->incarnation == reign->incarnation && reign_->run_id == reign->run_id) return absl::OkStatus();
      reign->ordinal = reign_->ordinal;
    }
    ++reign->ordinal;
    // Trust ends before anything of the new reign can be asked for.
    trusted_until_.store(Instant::InfinitePast().nanoseconds(), std::memory_order_release);
    if (reign_ != nullptr && reign_->incarnation != reign->incarnation) Leave(reign_->incarnation);
    reign_ = reign;
    applied_ = NumberAt(parts, 1);
    early_.clear();
    sum_.clear();
    for (const auto& [name, space] : spaces_) {
      space->leases.clear();
      space->lease_count.store(0, std::memory_order_relaxed);
      spaces.push_back(space);
    }
  }
  for (std::string_view rest = parts[2].text(); rest.size() >= kTierIncarnationBytes;) {
    Leave(rest.substr(0, kTierIncarnationBytes));
    rest.remove_prefix(std::min(kTierIncarnationBytes + 1, rest.size()));
  }
  metrics_.Add(kTierReigns);
  Reset();
  std::vector<RedisCommand> registrations;
  registrations.reserve(spaces.size());
  for (const std::shared_ptr<TierSpace>& space : spaces) {
    registrations.push_back(RedisCommand(TierOpenScript(), {keys_.state})
                                .Arg(reign->incarnation)
                                .Arg(space->cache)
                                .Arg(space->codec)
                                .Idempotent());
  }
  // If one fails, the first question of that cache registers its codec.
  if (!registrations.empty()) service_->RunMany(registrations, reign->Call(deadline - clock_->Now()));
  return absl::OkStatus();
}

void RedisTier::Reset() {
  trusted_until_.store(Instant::InfinitePast().nanoseconds(), std::memory_order_release);
  {
    // Redis answers. Questions wait for the end of this heartbeat: otherwise those for the values that are dropped now
    // would be loaded by each process.
    const MutexLock lock(mutex_);
    away_ = false;
  }
  CallListeners([](const auto& spaces) {
    for (const auto& [name, space] : spaces) space->listener.OnReset();
  });
}

int64_t RedisTier::MostBytesPerSync() const {
  return std::min(kMostBytesPerSync, static_cast<int64_t>(options_.redis.max_reply_bytes / 2));
}

absl::Status RedisTier::Sync(const TierReign& reign, Instant deadline) {
  for (;;) {
    uint64_t applied = 0;
    {
      const MutexLock lock(mutex_);
      applied = applied_;
    }
    const RedisCommand sync = RedisCommand(TierSyncScript(), {keys_.state, keys_.journal})
                                  .Arg(reign.incarnation)
                                  .Arg(applied)
                                  .Arg(bytes_per_sync_)
                                  .Arg(applied + early_.size())
                                  .Arg(sum_)
                                  .Idempotent();
    const Instant sent = clock_->Now();
    const absl::StatusOr<RedisReply> reply = service_->Run(sync, reign.Call(deadline - sent));
    NoteReply(reply.status());
    if (!reply.ok()) {
      // A reply that is too large however little was asked for counts as a gap.
      const bool too_large = absl::IsResourceExhausted(reply.status()) && RedisErrorCode(reply.status()).empty() &&
                             !RedisOutOfDescriptors(reply.status());
      const bool least = bytes_per_sync_ <= kLeastBytesPerSync;
      bytes_per_sync_ =
          least && too_large ? 0 : std::min(bytes_per_sync_, std::max(bytes_per_sync_ / 4, kLeastBytesPerSync));
      return reply.status();
    }
    bytes_per_sync_ = MostBytesPerSync();
    const std::string_view code = CodeOf(reply);
    if (code == "A") return absl::AbortedError("another reign");
    const std::span<const RedisReply> parts = reply->elements();
    if ((code != "K" && code != "M" && code != "G") || parts.size() != 4) return Unexpected("sync", *reply);
    const uint64_t sequence = NumberAt(parts, 1);
    if (sequence < applied) {
      // The state is older than what this process has seen of it: it was restored.
      Leave(reign.incarnation);
      return absl::AbortedError("the journal has gone back");
    }
    bool gap = code == "G";
    if (code == "M") ApplyEarly(reign, applied);
    if (!gap) {
      const std::span<const RedisReply> entries = parts[2].elements();
      gap = !Apply(reign, entries, applied);
      if (!gap && applied < sequence) gap = entries.empty();
    }
    if (gap) {
      metrics_.Add(kTierGaps);
      Reset();
      early_.clear();
      applied = sequence;
    }
    if (applied == sequence) {
      if (!early_.empty()) {
        // Messages announced entries that the journal does not have. Until it reaches their positions, caches would
        // store nothing.
        Log(LogSeverity::kWarning,
            Concat("RedisCacheTier '", options_.prefix, "': messages were ahead of the journal"));
        Reset();
        early_.clear();
      }
      sum_ = parts[3].text();
    }
    {
      const MutexLock lock(mutex_);
      applied_ = applied;
    }
    if (applied < sequence) continue;
    trusted_until_.store((sent + options_.max_staleness).nanoseconds(), std::memory_order_release);
    return absl::OkStatus();
  }
}

// The journal has what the messages have said.
void RedisTier::ApplyEarly(const TierReign& reign, uint64_t& applied) {
  CallListeners([&](const Spaces& spaces) {
    for (const std::string& message : early_) NoteApplied(spaces, ReadTierMessage(message, reign.incarnation)->cache);
  });
  applied += early_.size();
  early_.clear();
}

void RedisTier::NoteApplied(const Spaces& spaces, std::string_view cache) {
  const auto found = spaces.find(cache);
  if (found != spaces.end()) found->second->metrics.Add(kTierInvalidationsReported);
}

bool RedisTier::Apply(const TierReign& reign, std::span<const RedisReply> entries, uint64_t& applied) {
  if (entries.empty()) return true;
  std::vector<TierJournalEntry> read;
  read.reserve(entries.size());
  uint64_t last = applied;
  for (const RedisReply& reply : entries) {
    const std::optional<TierJournalEntry> entry = ReadEntry(reply);
    if (!entry || entry->position != last + 1) return false;
    last = entry->position;
    read.push_back(*entry);
  }
  CallListeners([&](const Spaces& spaces) {
    for (size_t n = 0; n < read.size(); ++n) {
      const TierJournalEntry& entry = read[n];
      std::optional<TierJournalEntry> early;
      if (n < early_.size()) early = ReadTierMessage(early_[n], reign.incarnation);
      if (!early || !SameTarget(*early, entry)) Report(spaces, reign, entry);
      NoteApplied(spaces, entry.cache);
    }
  });
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(std::min(read.size(), early_.size())));
  applied = last;
  return true;
}

}  // namespace stockade::cache_internal

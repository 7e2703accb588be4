#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_join.h"
#include "redis_tier.h"
#include "redis_tier_cache.h"
#include "redis_tier_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

constexpr int64_t kMinBytesPerSync = 2 << 10;
constexpr size_t kMaxEnded = 64;

// nullopt if it is not an entry of this layout. Unknown fields are ignored.
std::optional<TierJournalEntry> ReadEntry(const RedisReply& reply) {
  if (reply.elements().size() != 2) return std::nullopt;
  TierJournalEntry entry;
  const std::string_view id = reply.elements()[0].text();
  if (!id.ends_with("-0") || !ReadPosition(id.substr(0, id.size() - 2), entry.position)) return std::nullopt;
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

// Null if the cache is not open.
template <typename Caches>
RedisTierCache* CacheOf(const Caches& caches, const TierJournalEntry& entry) {
  const auto found = caches.find(entry.cache);
  return found != caches.end() ? found->second : nullptr;
}

}  // namespace

absl::Status RedisTier::Heartbeat(Instant deadline) {
  const Instant begun = clock_->Now();
  CheckSubscriptions();
  {
    const MutexLock lock(mutex());
    heartbeat_requested_ = false;
    ++heartbeats_begun_;
    for (const auto& [name, cache] : caches_) cache->QueueUnsent(begun - options_.timeout);
  }
  absl::Status status = ReadJournal(deadline);
  if (!status.ok() && !IsRefusal(status)) {
    // A command that has no connection does not say whether the server refuses it.
    const absl::Status server = service_->ServerOf(keys_.state, absl::ZeroDuration()).status();
    if (IsRefusal(server)) status = server;
  }
  metrics_.Add(status.ok() ? kTierHeartbeatsOk : IsRefusal(status) ? kTierHeartbeatsRefused : kTierHeartbeatsFailed);
  if (status.ok()) metrics_.ObserveSpan(kTierHeartbeatSeconds, begun, clock_->Now());
  const MutexLock lock(mutex());
  heartbeats_ended_ = heartbeats_begun_;
  if (status.ok() || IsSilent() || clock_->Now() >= trusted_until()) away_ = !status.ok();
  changed_.NotifyAll();
  return status;
}

// Logs each change.
void RedisTier::LogHeartbeat(const absl::Status& status) {
  const Logged kind = status.ok() ? Logged::kSuccess : IsRefusal(status) ? Logged::kRefusal : Logged::kFailure;
  if (std::exchange(logged_, kind) == kind) return;
  const std::string tier = Concat("RedisCacheTier '", options_.prefix, "': ");
  if (status.ok()) return Log(LogSeverity::kInfo, Concat(tier, "heartbeats succeed again"));
  const bool refused = kind == Logged::kRefusal;
  Log(refused ? LogSeverity::kError : LogSeverity::kWarning,
      Concat(tier, refused ? "Redis refuses the heartbeats: " : "a heartbeat failed: ", status.ToString()));
}

bool RedisTier::IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsInternal(status);
}

// Subscriptions may have been lost since the last heartbeat, or refused.
void RedisTier::CheckSubscriptions() {
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
             !std::exchange(warned_about_subscription_, true)) {
    Log(LogSeverity::kWarning, Concat("RedisCacheTier '", options_.prefix,
                                      "': without messages, this process finds changes by polling: ", now.ToString()));
  }
}

absl::Status RedisTier::ReadJournal(Instant deadline) {
  absl::Status status = Sync(deadline);
  // Another process may begin a new reign in between.
  for (int attempt = 0; absl::IsAborted(status) && attempt < 3; ++attempt) {
    status = Adopt(deadline);
    if (!status.ok()) continue;
    // Adopt() may have taken all the time, and questions wait for this heartbeat.
    status = Sync(std::max(deadline, clock_->Now() + options_.timeout / 2));
  }
  return status;
}

absl::Status RedisTier::Adopt(Instant deadline) {
  const absl::StatusOr<RedisServerIdentity> server =
      service_->ServerOf(keys_.state, Duration(deadline - clock_->Now()));
  RecordReply(server.status());
  if (!server.ok()) return server.status();
  const auto reign = std::make_shared<TierReign>();
  if (server->run_id.ok()) {
    reign->run_id = *server->run_id;
  } else if (!std::exchange(warned_about_run_id_, true)) {
    Log(LogSeverity::kWarning,
        Concat("RedisCacheTier '", options_.prefix, "': failovers and restarts of Redis cannot be detected: ",
               std::string(server->run_id.status().message())));
  }
  const RedisCommand adopt =
      WithArgs(RedisCommand(TierAdoptScript(), {keys_.state, keys_.journal}), reign->run_id.value_or(""),
               TierTokens().Incarnation(), absl::StrJoin(ended_, " "), absl::ToInt64Milliseconds(options_.max_ttl),
               absl::ToInt64Milliseconds(options_.max_staleness))
          .Idempotent();
  const absl::StatusOr<RedisReply> reply = service_->Run(adopt, reign->Call(deadline - clock_->Now()));
  RecordReply(reply.status());
  if (!reply.ok()) return reply.status();
  const std::span<const RedisReply> parts = reply->elements();
  if (parts.size() != 4 || parts[0].text().size() != kTierIncarnationBytes) {
    return absl::InternalError(Concat("unexpected answer to adopt: ", reply->ToString()));
  }
  if (parts[3].integer() == 1) {
    Log(LogSeverity::kError, Concat("RedisCacheTier '", options_.prefix, "': the key '", keys_.state,
                                    "' had another type; it was deleted, and a new reign begins"));
  }
  reign->incarnation = parts[0].text();
  const std::optional<std::vector<RedisCommand>> registrations = BeginReign(reign, NumberAt(parts, 1));
  if (!registrations) return absl::OkStatus();
  for (std::string_view rest = parts[2].text(); rest.size() >= kTierIncarnationBytes;) {
    MarkEnded(rest.substr(0, kTierIncarnationBytes));
    rest.remove_prefix(std::min(kTierIncarnationBytes + 1, rest.size()));
  }
  metrics_.Add(kTierReigns);
  ResetCaches();
  // If one fails, the first question of that cache registers its codec.
  if (!registrations->empty()) service_->RunMany(*registrations, reign->Call(deadline - clock_->Now()));
  return absl::OkStatus();
}

std::optional<std::vector<RedisCommand>> RedisTier::BeginReign(const std::shared_ptr<TierReign>& reign,
                                                               uint64_t applied) {
  const MutexLock lock(mutex());
  if (reign_ != nullptr) {
    if (reign_->incarnation == reign->incarnation && reign_->run_id == reign->run_id) return std::nullopt;
    reign->ordinal = reign_->ordinal;
  }
  ++reign->ordinal;
  EndTrust();  // Before anything of the new reign can be asked for.
  if (reign_ != nullptr && reign_->incarnation != reign->incarnation) MarkEnded(reign_->incarnation);
  reign_ = reign;
  applied_ = applied;
  sum_.clear();
  std::vector<RedisCommand> registrations;
  for (const auto& [name, cache] : caches_) {
    cache->DropLeases();
    registrations.push_back(cache->RegisterCommand(*reign));
  }
  return registrations;
}

void RedisTier::MarkEnded(std::string_view incarnation) {
  if (std::find(ended_.begin(), ended_.end(), incarnation) != ended_.end()) return;
  ended_.emplace_back(incarnation);
  if (ended_.size() > kMaxEnded) ended_.pop_front();
}

void RedisTier::ResetCaches() {
  EndTrust();
  unconfirmed_.clear();
  {
    // Redis answers. Questions wait for the end of this heartbeat: otherwise each process would load the values that
    // are dropped now.
    const MutexLock lock(mutex());
    away_ = false;
  }
  WithCaches([](const Caches& caches) {
    for (const auto& [name, cache] : caches) cache->listener().OnReset();
  });
}

absl::Status RedisTier::Sync(Instant deadline) {
  for (;;) {
    TierReignPtr reign;
    uint64_t applied = 0;
    {
      const MutexLock lock(mutex());
      reign = reign_;
      applied = applied_;
    }
    if (reign == nullptr) return absl::AbortedError("no reign yet");
    const RedisCommand sync = WithArgs(RedisCommand(TierSyncScript(), {keys_.state, keys_.journal}), reign->incarnation,
                                       applied, bytes_per_sync_, applied + unconfirmed_.size(), sum_)
                                  .Idempotent();
    const Instant sent = clock_->Now();
    const absl::StatusOr<RedisReply> reply = service_->Run(sync, reign->Call(deadline - sent));
    RecordReply(reply.status());
    if (!reply.ok()) {
      // If a reply is too large although the least was asked for, the next sync asks for nothing: that is a gap.
      const bool too_large = absl::IsResourceExhausted(reply.status()) && RedisErrorCode(reply.status()).empty() &&
                             !RedisOutOfDescriptors(reply.status());
      const bool is_gap = too_large && bytes_per_sync_ <= kMinBytesPerSync;
      bytes_per_sync_ = is_gap ? 0 : std::min(bytes_per_sync_, std::max(bytes_per_sync_ / 4, kMinBytesPerSync));
      return reply.status();
    }
    bytes_per_sync_ = max_bytes_per_sync_;
    const absl::StatusOr<bool> complete = ApplySync(*reign, *reply, applied);
    if (!complete.ok()) return complete.status();
    {
      const MutexLock lock(mutex());
      applied_ = applied;
    }
    if (!*complete) continue;
    trusted_until_.store((sent + options_.max_staleness).nanoseconds(), std::memory_order_release);
    return absl::OkStatus();
  }
}

absl::StatusOr<bool> RedisTier::ApplySync(const TierReign& reign, const RedisReply& reply, uint64_t& applied) {
  const std::span<const RedisReply> parts = reply.elements();
  const std::string_view code = CodeOf(parts);
  if (code == "A") return absl::AbortedError("another reign");
  if ((code != "K" && code != "M" && code != "G") || parts.size() != 4) {
    return absl::InternalError(Concat("unexpected answer to sync: ", reply.ToString()));
  }
  const uint64_t sequence = NumberAt(parts, 1);
  if (sequence < applied) {
    // The state was restored: this process has seen a later one.
    MarkEnded(reign.incarnation);
    return absl::AbortedError("the journal has gone back");
  }
  if (code == "M") {
    // The journal has the entries of all messages that the listeners got.
    WithCaches([&](const Caches& caches) {
      for (const std::string& message : unconfirmed_) {
        RedisTierCache* const cache = CacheOf(caches, *ReadTierMessage(message, reign.incarnation));
        if (cache != nullptr) cache->metrics().Add(kTierInvalidationsReported);
      }
    });
    applied += unconfirmed_.size();
    unconfirmed_.clear();
  }
  const std::span<const RedisReply> entries = parts[2].elements();
  if (code == "G" || !ApplyEntries(reign, entries, applied) || (applied < sequence && entries.empty())) {
    metrics_.Add(kTierGaps);
    ResetCaches();
    applied = sequence;
  }
  if (applied != sequence) return false;
  if (!unconfirmed_.empty()) {
    // Messages announced entries that the journal does not have. Until it reaches their positions, caches would store
    // nothing.
    Log(LogSeverity::kWarning, Concat("RedisCacheTier '", options_.prefix, "': messages were ahead of the journal"));
    ResetCaches();
  }
  sum_ = parts[3].text();
  return true;
}

bool RedisTier::ApplyEntries(const TierReign& reign, std::span<const RedisReply> entries, uint64_t& applied) {
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
  WithCaches([&](const Caches& caches) {
    for (size_t n = 0; n < read.size(); ++n) {
      RedisTierCache* const cache = CacheOf(caches, read[n]);
      if (cache == nullptr) continue;
      std::optional<TierJournalEntry> message;
      if (n < unconfirmed_.size()) message = ReadTierMessage(unconfirmed_[n], reign.incarnation);
      if (!message || !SameTarget(*message, read[n])) cache->NotifyInvalidated(reign, read[n]);
      cache->metrics().Add(kTierInvalidationsReported);
    }
  });
  unconfirmed_.erase(unconfirmed_.begin(),
                     unconfirmed_.begin() + static_cast<std::ptrdiff_t>(std::min(read.size(), unconfirmed_.size())));
  applied = last;
  return true;
}

void RedisTier::ApplyMessages(std::vector<std::string> messages) {
  TierReignPtr reign;
  uint64_t applied = 0;
  {
    const MutexLock lock(mutex());
    reign = reign_;
    applied = applied_;
  }
  if (reign == nullptr) return;
  WithCaches([&](const Caches& caches) {
    for (std::string& message : messages) {
      if (unconfirmed_.size() >= kMaxMessages) return;
      const std::optional<TierJournalEntry> entry = ReadTierMessage(message, reign->incarnation);
      if (!entry || entry->position != applied + unconfirmed_.size() + 1) continue;
      metrics_.Add(kTierInvalidationMessages);
      if (RedisTierCache* const cache = CacheOf(caches, *entry); cache != nullptr) {
        cache->NotifyInvalidated(*reign, *entry);
      }
      sum_ = TierSum(sum_, message);
      unconfirmed_.push_back(std::move(message));
    }
  });
}

}  // namespace stockade::cache_internal

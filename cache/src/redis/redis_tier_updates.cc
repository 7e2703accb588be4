// Updates of strict caches: their locks, and their marks in Redis.

#include <algorithm>

#include "absl/strings/str_replace.h"
#include "redis_tier_cache.h"
#include "redis_tier_scripts.h"
#include "stockade/base/strings.h"
#include "stockade/locks/lock_service.h"

namespace stockade::cache_internal {
namespace {

// No process has a longer max_staleness, so nobody waits longer for what a foreign state has.
constexpr absl::Duration kMostStaleness = absl::Hours(1);

}  // namespace

absl::StatusOr<LockLease> RedisTierCache::Lock(std::string_view key, Duration timeout, const std::stop_token& stop) {
  const RedisCacheTierOptions& options = tier_->options();
  if (options.locks == nullptr) return TierCache::Lock(key, timeout, stop);
  if (key.size() > kMaxTierKeyBytes) {
    return absl::InvalidArgumentError(Concat("RedisCacheTier '", options.prefix, "': a key of ", key.size(),
                                             " bytes has no updates: at most ", kMaxTierKeyBytes));
  }
  // In a cluster, braces select the slot of a lock.
  const std::string text = absl::StrReplaceAll(AbslView(key), {{"%", "%25"}, {"{", "%7b"}, {"}", "%7d"}});
  return options.locks->Acquire(Concat(options.prefix, ":", name_, ":", text),
                                {.kind = LockKind::kWrite, .wait = timeout, .owner = LockOwner::New(), .stop = stop});
}

TierMark RedisTierCache::Hold(uint64_t queued, int64_t fencing_token) {
  std::string token;
  {
    const MutexLock lock(tier_->mutex());
    token = tier_->tokens().MarkToken();
  }
  return SendMark(queued, {.mark = token, .fencing_token = TierVersionBytes(static_cast<uint64_t>(fencing_token))});
}

TierMark RedisTierCache::Release(uint64_t queued, const TierMark& held) {
  {
    const MutexLock lock(tier_->mutex());
    absl::erase_if(state_->leases, [&](const auto& lease) { return lease.first.token == held.token; });
  }
  return SendMark(queued, {.mark = held.token});
}

TierMark RedisTierCache::SendMark(uint64_t queued, const InvalidationExtra& extra) {
  tier_->CheckFork();
  const Instant deadline = tier_->clock()->Now() + tier_->options().timeout;
  {
    // A thread that was paused finds that the tier's thread has sent it.
    const MutexLock lock(tier_->mutex());
    if (!BeginSending(queued)) return {};
  }
  TierMark mark;
  Send(queued, extra, deadline, &mark);
  return mark;
}

// The reply to a step that has set the mark of `extra`, or has removed it. It is renewed from now on, or not any more.
TierMark RedisTierCache::ReadMark(const TierReign& reign, std::span<const RedisReply> parts, std::string_view key,
                                  const InvalidationExtra& extra, Instant sent) {
  const bool sets = !extra.fencing_token.empty();
  if (sets) {
    for (const TierEntryKeys& keys : CodecKeys()) AddLease(reign, {extra.mark, keys.Lease(key)}, sent);
  }
  return {.kind = sets || NumberAt(parts, 2) == 1 ? TierMark::Kind::kStands : TierMark::Kind::kLost,
          .token = sets ? extra.mark : std::string(),
          .position = reign.Expose(NumberAt(parts, 1)),
          .bound = std::min(absl::Milliseconds(NumberAt(parts, 4)), kMostStaleness)};
}

absl::Status RedisTierCache::CheckStrict() {
  tier_->CheckFork();
  const RedisCacheTierOptions& options = tier_->options();
  const RedisCommand read = WithArgs(RedisCommand("HGET").Key(tier_->keys().state), "B");
  const absl::StatusOr<RedisReply> bound = tier_->calls().Run(read, {.timeout = options.timeout});
  tier_->RecordReply(bound.status());
  // If Redis is away, updates find it out: they wait for the longest one.
  uint64_t ms = 0;
  if (!bound.ok() || !ReadPosition(bound->text(), ms) || absl::Milliseconds(ms) == options.max_staleness) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      Concat("RedisCacheTier '", options.prefix, "': max_staleness = ", absl::FormatDuration(options.max_staleness),
             ": another process has ", absl::FormatDuration(absl::Milliseconds(ms)),
             "; all processes with strict caches need the same one, and another one needs another prefix"));
}

}  // namespace stockade::cache_internal

#include "redis_tier.h"

#include <optional>
#include <span>
#include <utility>

#include "redis_tier_cache.h"
#include "redis_tier_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/printable.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_url.h"

namespace stockade::cache_internal {
namespace {

// The most bytes that a sync asks for. An entry counts 1 KB more than its own bytes.
constexpr int64_t kMaxBytesPerSync = 1 << 20;
constexpr size_t kInvalidationsPerBatch = 1000;
// Leases that one command renews, and commands between which the thread looks for other work.
constexpr size_t kLeasesPerCommand = 256;
constexpr size_t kRenewalsAtOnce = 16;
// A cache has no key or tag that needs a longer message: the names and the position are below 256 bytes.
constexpr size_t kMaxMessageBytes = kMaxTierTextBytes + 256;

// Whether a first connection that failed may succeed later. FailedPrecondition: no Sentinel knows the master yet.
bool MayConnectLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

RedisTier::RedisTier(RedisCacheTierOptions options, bool in_cluster)
    : options_(std::move(options)),
      in_cluster_(in_cluster),
      keys_(options_.prefix),
      max_bytes_per_sync_(std::min(kMaxBytesPerSync, static_cast<int64_t>(options_.redis.max_reply_bytes / 2))),
      inbox_id_(TierTokens().InboxId()),
      metrics_(options_.metrics, TierMetricDefs(), {{"tier", options_.prefix}}) {
  metrics_.AddGauge(kTierTrusted, [this] { return clock_->Now() < trusted_until() ? 1.0 : 0.0; });
  metrics_.AddGauge(kTierIsAway, [this] { return away_ ? 1.0 : 0.0; });
  metrics_.AddGauge(kTierSubscribed, [this] { return subscribed_ ? 1.0 : 0.0; });
}

absl::StatusOr<std::shared_ptr<CacheTier>> RedisTier::Connect(std::string_view url, RedisCacheTierOptions options) {
  options.redis.command_timeout = options.timeout;
  options.redis.callback_executor = nullptr;
  const absl::StatusOr<RedisUrl> parsed = ParseRedisUrl(url);
  if (!parsed.ok()) return parsed.status();
  // A forked child leaks it, because other threads may have held its locks.
  const bool in_cluster = parsed->kind == RedisUrl::Kind::kCluster;
  std::shared_ptr<RedisTier> tier(new RedisTier(std::move(options), in_cluster), [](RedisTier* one) {
    if (!one->InForkedChild()) delete one;
  });
  absl::Status started = tier->Start(url);
  if (started.ok()) started = StartThread(tier->thread_, [tier = tier.get()] { tier->Run(); });
  if (!started.ok()) return started;
  return tier;
}

absl::Status RedisTier::Start(std::string_view url) {
  const Instant deadline = clock_->Now() + options_.redis.connect_timeout;
  absl::Status first;
  RedisOptions redis = options_.redis;
  redis.wait_for_connection = true;
  for (std::unique_ptr<RedisClient>* client : {&calls_, &service_}) {
    absl::StatusOr<std::unique_ptr<RedisClient>> connected = RedisClient::Connect(url, redis);
    if (redis.wait_for_connection && !options_.require_redis && MayConnectLater(connected.status())) {
      first = connected.status();
      redis.wait_for_connection = false;
      connected = RedisClient::Connect(url, redis);
    }
    if (!connected.ok()) return connected.status();
    *client = *std::move(connected);
    redis.wait_for_connection = false;  // The heartbeat waits for the second one.
  }
  if (absl::Status subscribed = Subscribe(); !subscribed.ok()) return subscribed;
  if (first.ok()) {
    first = Heartbeat(deadline);
    if (first.ok()) return first;
    if (options_.require_redis || IsRefusal(first)) {
      return absl::Status(first.code(), Concat("RedisCacheTier '", options_.prefix, "': key '", keys_.state,
                                               "': ", std::string(first.message())));
    }
  }
  Log(LogSeverity::kWarning,
      Concat("RedisCacheTier '", options_.prefix, "': begins without Redis: ", first.ToString()));
  logged_ = Logged::kFailure;
  const MutexLock lock(mutex());
  away_ = true;
  return absl::OkStatus();
}

absl::Status RedisTier::Subscribe() {
  if (!options_.pubsub) return absl::OkStatus();
  absl::StatusOr<RedisSubscription> journal =
      service_->Subscribe(keys_.channel, {.on_message = [this](std::string_view text) { OnJournalMessage(text); }});
  if (!journal.ok()) return journal.status();
  journal_channel_ = *std::move(journal);
  absl::StatusOr<RedisSubscription> inbox = service_->Subscribe(
      keys_.inboxes + inbox_id_, {.on_message = [this](std::string_view text) { OnInboxMessage(text); },
                                  .on_subscribed = [this] { subscribed_ = true; }});
  if (!inbox.ok()) return inbox.status();
  inbox_ = *std::move(inbox);
  return absl::OkStatus();
}

RedisTier::~RedisTier() {
  [this] {
    const MutexLock lock(mutex());
    stopping_ = true;
  }();
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

// The caches.

absl::StatusOr<std::unique_ptr<TierCache>> RedisTier::Open(std::string_view cache, std::string_view codec,
                                                           TierListener& listener) {
  CheckFork();
  if (absl::Status valid = CheckName("RedisCacheTier: cache", cache, kMaxCacheBytes); !valid.ok()) return valid;
  if (absl::Status valid = CheckName("RedisCacheTier: codec", codec, kMaxCodecBytes); !valid.ok()) return valid;
  // Without the mutex, because the metrics have locks of their own.
  auto opened = std::make_unique<RedisTierCache>(shared_from_this(), ++opened_, cache, codec, listener);
  TierReignPtr reign;
  {
    const MutexLock lock(mutex());
    if (!caches_.emplace(cache, opened.get()).second) {
      return absl::FailedPreconditionError(
          Concat("RedisCacheTier '", options_.prefix, "': the cache '", cache, "' is already open"));
    }
    reign = UsableReign();
  }
  // If this fails, the first question registers the codec.
  if (reign != nullptr) opened->Register(*reign, options_.timeout);
  return opened;
}

bool RedisTier::Remove(const RedisTierCache& cache) {
  const auto found = caches_.find(cache.name());
  if (found == caches_.end() || found->second != &cache) return false;
  caches_.erase(found);
  while (thread_calls_ || inbox_calls_ == &cache) changed_.Wait(mutex());
  return true;
}

void RedisTier::WithCaches(absl::FunctionRef<void(const Caches&)> call) {
  Caches caches;
  {
    const MutexLock lock(mutex());
    caches = caches_;
    thread_calls_ = true;
  }
  call(caches);
  const MutexLock lock(mutex());
  thread_calls_ = false;
  changed_.NotifyAll();
}

RedisTierCache* RedisTier::FindCache(uint64_t number) {
  for (const auto& [name, cache] : caches_) {
    if (cache->number() == number) return cache;
  }
  return nullptr;
}

TierStats RedisTier::Stats() const {
  CheckFork();
  TierStats stats = {
      .trusted = clock_->Now() < trusted_until(),
      .away = away_,
      .subscribed = subscribed_,
      .heartbeats = CountOf(metrics_, kTierHeartbeatsOk),
      .heartbeats_failed = CountOf(metrics_, kTierHeartbeatsFailed) + CountOf(metrics_, kTierHeartbeatsRefused),
      .reigns = CountOf(metrics_, kTierReigns),
      .gaps = CountOf(metrics_, kTierGaps),
      .invalidation_messages = CountOf(metrics_, kTierInvalidationMessages),
      .lease_messages = CountOf(metrics_, kTierLeaseMessages),
      .tags_dropped = CountOf(metrics_, kTierTagsDropped)};
  const MutexLock lock(mutex());
  for (const auto& [name, cache] : caches_) stats.caches.push_back(cache->Stats());
  return stats;
}

// The server, as calls and heartbeats find it.

void RedisTier::RecordReply(const absl::Status& status) {
  if (status.ok() || !RedisErrorCode(status).empty()) {
    last_reply_.store(clock_->Now().nanoseconds(), std::memory_order_relaxed);
    return;
  }
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return;
  if (!IsSilent() || away_) return;
  Log(LogSeverity::kWarning,
      Concat("RedisCacheTier '", options_.prefix, "': Redis does not answer: ", std::string(status.message())));
  const MutexLock lock(mutex());
  away_ = true;
  RequestHeartbeat();  // It ends the absence if only this call met silence.
  changed_.NotifyAll();
}

TierReignPtr RedisTier::AwaitReign(uint64_t heartbeat, Instant deadline) {
  for (;;) {
    if (away_) return nullptr;
    if (reign_ != nullptr && heartbeats_ended_ >= heartbeat) return reign_;
    if (!AwaitChange(deadline)) return nullptr;
  }
}

bool RedisTier::IsReady(uint64_t heartbeat) {
  const bool trusted = clock_->Now() < trusted_until();
  if (!trusted && !heartbeat_requested_ && heartbeats_begun_ == heartbeats_ended_) RequestHeartbeat();
  return trusted && reign_ != nullptr && heartbeats_ended_ >= heartbeat;
}

uint64_t RedisTier::RequestHeartbeat() {
  heartbeat_requested_ = true;
  wake_.NotifyOne();
  return heartbeats_begun_ + 1;
}

void RedisTier::AwaitServer(const TierReign& reign, Instant deadline) {
  if (!reign.run_id) return;
  for (Instant now = clock_->Now(); now < deadline; now = clock_->Now()) {
    const absl::StatusOr<RedisServerIdentity> server = calls_->ServerOf(keys_.state, Duration(deadline - now));
    if (!server.ok() || !server->run_id.ok() || *server->run_id == *reign.run_id) return;
    // One of the two clients has not found the new server yet.
    const MutexLock lock(mutex());
    AwaitChange(std::min(deadline, now + absl::Milliseconds(10)));
  }
}

// The subscriptions.

void RedisTier::OnJournalMessage(std::string_view message) {
  if (message.size() > kMaxMessageBytes) return;
  const MutexLock lock(mutex());
  if (received_.size() >= kMaxMessages) return;
  received_.emplace_back(message);
  if (received_.size() == 1) wake_.NotifyOne();
}

// Calls the listener itself, because callers wait for the message, and the tier's thread may be busy.
void RedisTier::OnInboxMessage(std::string_view message) {
  const std::optional<TierLeaseName> lease = ReadTierLease(keys_, message);
  if (!lease) return;
  RedisTierCache* cache = nullptr;
  {
    const MutexLock lock(mutex());
    const auto found = caches_.find(lease->cache);
    if (found == caches_.end() || found->second->codec() != lease->codec) return;
    cache = found->second;
    inbox_calls_ = cache;
  }
  metrics_.Add(kTierLeaseMessages);
  cache->listener().OnLeaseEnded(lease->key);
  const MutexLock lock(mutex());
  inbox_calls_ = nullptr;
  changed_.NotifyAll();
}

// The thread.

void RedisTier::Run() {
  Instant next_heartbeat = clock_->Now() + options_.heartbeat;
  Instant next_renewal;
  for (;;) {
    std::vector<std::string> messages;
    Instant now;
    Instant heartbeat_at, renew_at, retry_at;  // The infinite future: nothing is to be done.
    double jitter = 0;
    {
      const MutexLock lock(mutex());
      for (;;) {
        if (stopping_) return;
        now = clock_->Now();
        heartbeat_at = heartbeat_requested_ ? now : next_heartbeat;
        renew_at = retry_at = Instant::InfiniteFuture();
        for (const auto& [name, cache] : caches_) {
          if (cache->has_leases()) renew_at = next_renewal;
          if (cache->has_queued() && !away_ && MostInvalidations() > 0) retry_at = next_retry_;
        }
        messages.swap(received_);
        const Instant next = std::min({heartbeat_at, renew_at, retry_at});
        if (!messages.empty() || now >= next) break;
        wake_.WaitUntil(*clock_, mutex(), next);
      }
      jitter = 0.9 + 0.2 * tokens_.RandomFraction();
    }
    if (!messages.empty()) ApplyMessages(std::move(messages));
    if (now >= heartbeat_at) {
      next_heartbeat = clock_->Now() + options_.heartbeat * jitter;
      LogHeartbeat(Heartbeat(clock_->Now() + options_.timeout));  // The destructor may wait for it.
    }
    if (now >= renew_at) {
      next_renewal = clock_->Now() + (RenewLeases() ? absl::ZeroDuration() : options_.lease / 12);
    }
    if (now >= retry_at) SendQueued();
  }
}

// Renews the leases that are due. Returns whether some are left, so that many leases do not delay a heartbeat.
bool RedisTier::RenewLeases() {
  std::vector<DueLease> due;
  TierReignPtr reign;
  const Instant sent = clock_->Now();
  bool more = false;
  {
    const MutexLock lock(mutex());
    reign = reign_;
    if (reign == nullptr) return false;
    for (const auto& [name, cache] : caches_) {
      more |= cache->CollectDueLeases(sent, kRenewalsAtOnce * kLeasesPerCommand, due);
    }
  }
  if (due.empty()) return false;
  std::vector<RedisCommand> commands;
  for (size_t first = 0; first < due.size(); first += kLeasesPerCommand) {
    const std::span<const DueLease> part =
        std::span(due).subspan(first, std::min(kLeasesPerCommand, due.size() - first));
    std::vector<std::string_view> keys = {keys_.state};
    for (const DueLease& lease : part) keys.push_back(lease.id.key);
    RedisCommand& extend = commands.emplace_back(TierExtendScript(), keys);
    extend.Arg(reign->incarnation).Arg(absl::ToInt64Milliseconds(options_.lease));
    for (const DueLease& lease : part) extend.Arg(lease.id.token);
    extend.Idempotent();
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = service_->RunMany(commands, reign->Call(options_.timeout));
  for (const absl::StatusOr<RedisReply>& reply : replies) RecordReply(reply.status());
  const MutexLock lock(mutex());
  RedisTierCache* cache = nullptr;
  for (size_t n = 0; n < due.size(); ++n) {
    const absl::StatusOr<RedisReply>& reply = replies[n / kLeasesPerCommand];
    const size_t at = n % kLeasesPerCommand;
    if (!reply.ok() || at >= reply->elements().size()) continue;  // It stays due.
    if (cache == nullptr || cache->number() != due[n].cache) cache = FindCache(due[n].cache);
    if (cache != nullptr) cache->ApplyRenewal(due[n].id, reply->elements()[at].integer() == 1, sent);
  }
  return more;
}

// How many may be sent before the next heartbeat. A process that reads the journal less often than it is filled has to
// drop all that it has, so in the time of a heartbeat it grows by a quarter at most, unless callers send many at a
// time.
size_t RedisTier::MostInvalidations() const {
  const bool is_known = reign_ != nullptr && reign_->Exposes(newest_accepted_);
  const uint64_t newest = is_known ? TierReign::Hide(newest_accepted_) : 0;
  const auto most = static_cast<uint64_t>(options_.journal_length / 4);
  return most - std::min(most, newest - std::min(newest, applied_));
}

void RedisTier::SendQueued() {
  struct Batch {
    uint64_t cache;
    std::vector<uint64_t> ids;
  };
  std::vector<Batch> batches;
  std::vector<RedisCommand> commands;
  TierReignPtr reign;
  uint64_t applied = 0;
  {
    const MutexLock lock(mutex());
    reign = reign_;
    if (reign == nullptr) return;
    applied = applied_;
    const size_t most = std::min(kInvalidationsPerBatch, MostInvalidations());
    for (const auto& [name, cache] : caches_) {
      std::vector<uint64_t> ids = cache->TakeQueued(*reign, most - commands.size(), commands);
      if (!ids.empty()) batches.push_back({cache->number(), std::move(ids)});
    }
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = service_->RunMany(commands, reign->Call(options_.timeout));
  for (const absl::StatusOr<RedisReply>& reply : replies) RecordReply(reply.status());
  bool failed = false;
  auto reply = replies.begin();
  const MutexLock lock(mutex());
  for (const Batch& batch : batches) {
    RedisTierCache* const cache = FindCache(batch.cache);
    for (const uint64_t id : batch.ids) {
      if (cache != nullptr) failed |= !cache->ApplyRetry(id, *reign, applied, *reply);
      ++reply;
    }
  }
  if (failed) next_retry_ = clock_->Now() + options_.heartbeat;
}

}  // namespace stockade::cache_internal

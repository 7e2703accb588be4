#include "redis_tier.h"

#include <algorithm>
#include <cstddef>
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

constexpr size_t kInvalidationsPerBatch = 1000;
// Leases that one command renews, and commands between which the thread looks for other work.
constexpr size_t kLeasesPerCommand = 256;
constexpr size_t kRenewalsAtOnce = 16;
// Longer ones are of nobody who invalidates what a cache can have: the names and the position are below 256 bytes.
constexpr size_t kMaxMessageBytes = kMaxTierTextBytes + 256;
// A key's invalidation that a moving slot refuses for so long becomes one of all, which needs the state and the journal
// alone.
constexpr absl::Duration kMovingSlotPatience = absl::Seconds(1);

absl::Status CheckTierName(std::string_view field, std::string_view name, size_t longest) {
  const bool printable = std::all_of(name.begin(), name.end(),
                                     [](char c) { return c > ' ' && c < 127 && c != '{' && c != '}' && c != ':'; });
  if (!name.empty() && name.size() <= longest && printable) return absl::OkStatus();
  return absl::InvalidArgumentError(Concat("RedisCacheTier: ", field, " '", Printable(name, 100), "' is not 1 to ",
                                           longest, " printable ASCII characters without blanks, braces and colons"));
}

// Whether a first connection that failed may succeed later. FailedPrecondition: no Sentinel knows the master yet.
bool MayConnectLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

RedisTier::RedisTier(RedisCacheTierOptions options, bool in_cluster)
    : options_(std::move(options)),
      in_cluster_(in_cluster),
      keys_(options_.prefix),
      bytes_per_sync_(MostBytesPerSync()),
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
  if (absl::Status begun = tier->Begin(url); !begun.ok()) return begun;
  if (absl::Status started = StartThread(tier->thread_, [tier = tier.get()] { tier->Loop(); }); !started.ok()) {
    return started;
  }
  return tier;
}

absl::Status RedisTier::Begin(std::string_view url) {
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
    first = Beat(deadline);
    if (first.ok()) return first;
    if (options_.require_redis || IsRefusal(first)) {
      return absl::Status(first.code(), Concat("RedisCacheTier '", options_.prefix, "': key '", keys_.state,
                                               "': ", std::string(first.message())));
    }
  }
  Log(LogSeverity::kWarning,
      Concat("RedisCacheTier '", options_.prefix, "': begins without Redis: ", first.ToString()));
  logged_ = Logged::kFailure;
  const MutexLock lock(mutex_);
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

void RedisTier::OnJournalMessage(std::string_view message) {
  if (message.size() > kMaxMessageBytes) return;
  const MutexLock lock(mutex_);
  if (received_.size() >= kMaxMessages) return;
  received_.emplace_back(message);
  if (received_.size() == 1) wake_.NotifyOne();
}

// Not by the tier's thread, because callers wait for it.
void RedisTier::OnInboxMessage(std::string_view message) {
  const std::optional<TierLeaseName> lease = ReadTierLease(keys_, message);
  if (!lease) return;
  std::shared_ptr<TierSpace> space;
  {
    const MutexLock lock(mutex_);
    const auto found = spaces_.find(lease->cache);
    if (found == spaces_.end() || found->second->codec != lease->codec) return;
    space = found->second;
    space->hears = true;
  }
  metrics_.Add(kTierLeaseMessages);
  space->listener.OnLeaseEnded(lease->key);
  const MutexLock lock(mutex_);
  space->hears = false;
  changed_.NotifyAll();
}

RedisTier::~RedisTier() {
  [this] {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }();
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::unique_ptr<TierCache>> RedisTier::Open(std::string_view cache, std::string_view codec,
                                                           TierListener& listener) {
  CheckFork();
  if (absl::Status valid = CheckTierName("cache", cache, 64); !valid.ok()) return valid;
  if (absl::Status valid = CheckTierName("codec", codec, 32); !valid.ok()) return valid;
  // Outside of the mutex, because the metrics have locks of their own.
  const auto space = std::make_shared<TierSpace>(keys_, cache, codec, listener, &tokens_, options_.metrics);
  std::shared_ptr<const TierReign> reign;
  {
    const MutexLock lock(mutex_);
    if (!spaces_.emplace(std::string(cache), space).second) {
      return absl::FailedPreconditionError(
          Concat("RedisCacheTier '", options_.prefix, "': the cache '", cache, "' is already open"));
    }
    if (!away_) reign = reign_;
  }
  // If this fails, the first question registers the codec.
  if (reign != nullptr) Register(*space, *reign, options_.timeout);
  return std::make_unique<RedisTierCache>(shared_from_this(), space);
}

TierStats RedisTier::Stats() const {
  CheckFork();
  const auto count = [](const ComponentMetrics& metrics, size_t metric) {
    return metrics.enabled() ? metrics.set()->CounterValue(metric) : 0;
  };
  TierStats stats = {
      .trusted = clock_->Now() < trusted_until(),
      .away = away_,
      .subscribed = subscribed_,
      .heartbeats = count(metrics_, kTierHeartbeatsOk),
      .heartbeats_failed = count(metrics_, kTierHeartbeatsFailed) + count(metrics_, kTierHeartbeatsRefused),
      .reigns = count(metrics_, kTierReigns),
      .gaps = count(metrics_, kTierGaps),
      .invalidation_messages = count(metrics_, kTierInvalidationMessages),
      .lease_messages = count(metrics_, kTierLeaseMessages),
      .tags_dropped = count(metrics_, kTierTagsDropped)};
  const MutexLock lock(mutex_);
  for (const auto& [name, space] : spaces_) {
    const auto of = [&](TierCacheMetric metric) { return count(space->metrics, metric); };
    stats.caches.push_back({.cache = name,
                            .hits = of(kTierHit),
                            .granted = of(kTierGranted),
                            .busy = of(kTierBusy),
                            .away = of(kTierAway),
                            .undecodable = of(kTierUndecodable),
                            .stored = of(kTierStored),
                            .unstored = of(kTierUnstored),
                            .refused = of(kTierRefused),
                            .unanswered = of(kTierFillAway),
                            .leases_lost = of(kTierLeasesLost),
                            .leases_returned = of(kTierLeasesReturned),
                            .invalidations_accepted = of(kTierInvalidationsOwn),
                            .invalidations_applied = of(kTierInvalidationsReported),
                            .invalidations_dropped = of(kTierInvalidationsDropped),
                            .invalidations_pending = static_cast<int64_t>(space->queue.size()),
                            .leases = static_cast<int64_t>(space->leases.size())});
  }
  return stats;
}

void RedisTier::AwaitServer(const TierReign& reign, Instant deadline) {
  if (!reign.run_id) return;
  for (Instant now = clock_->Now(); now < deadline; now = clock_->Now()) {
    const absl::StatusOr<RedisServerIdentity> server = calls_->ServerOf(keys_.state, Duration(deadline - now));
    if (!server.ok() || !server->run_id.ok() || *server->run_id == *reign.run_id) return;
    // The two clients have not both found the new server yet.
    const MutexLock lock(mutex_);
    changed_.WaitUntil(*clock_, mutex_, std::min(deadline, now + absl::Milliseconds(10)));
  }
}

std::shared_ptr<const TierReign> RedisTier::ReignNow() const {
  const MutexLock lock(mutex_);
  return away_ ? nullptr : reign_;
}

uint64_t RedisTier::RequestBeat() {
  const MutexLock lock(mutex_);
  return RequestBeatLocked();
}

uint64_t RedisTier::RequestBeatLocked() {
  beat_requested_ = true;
  wake_.NotifyOne();
  return beats_begun_ + 1;
}

bool RedisTier::Silent() const {
  return clock_->Now() - Instant::FromNanoseconds(last_reply_.load(std::memory_order_relaxed)) >= options_.timeout;
}

void RedisTier::NoteReply(const absl::Status& status) {
  if (status.ok() || !RedisErrorCode(status).empty()) {
    last_reply_.store(clock_->Now().nanoseconds(), std::memory_order_relaxed);
    return;
  }
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return;
  if (!Silent() || away_) return;
  Log(LogSeverity::kWarning,
      Concat("RedisCacheTier '", options_.prefix, "': Redis does not answer: ", std::string(status.message())));
  const MutexLock lock(mutex_);
  away_ = true;
  RequestBeatLocked();  // It ends the absence if the silence was only this call's.
  changed_.NotifyAll();
}

std::vector<std::string> RedisTier::NewTokens(size_t count) {
  std::vector<std::string> tokens(count);
  const MutexLock lock(mutex_);
  const std::string_view owner = probe_command().empty() ? std::string_view() : inbox();
  for (std::string& token : tokens) token = tokens_.LeaseToken(owner);
  return tokens;
}

double RedisTier::Share() {
  const MutexLock lock(mutex_);
  return tokens_.Share();
}

// The thread.

void RedisTier::Loop() {
  Instant next_beat = clock_->Now() + options_.heartbeat;
  Instant next_renewal;
  const absl::Duration renewal_check = options_.lease / 12;
  for (;;) {
    bool messages = false;
    bool beat = false;
    bool renew = false;
    bool send = false;
    {
      const MutexLock lock(mutex_);
      for (;;) {
        if (stopping_) return;
        const Instant now = clock_->Now();
        const bool leases = AnyLease();
        const bool queued = AnyQueued();
        messages = !received_.empty();
        beat = beat_requested_ || now >= next_beat;
        renew = leases && now >= next_renewal;
        send = queued && !away_ && now >= next_send_;
        if (messages || beat || renew || send) break;
        Instant until = next_beat;
        if (leases) until = std::min(until, next_renewal);
        if (queued && !away_) until = std::min(until, next_send_);
        wake_.WaitUntil(*clock_, mutex_, until);
      }
    }
    if (messages) TakeMessages();
    if (beat) {
      next_beat = clock_->Now() + options_.heartbeat * (0.9 + 0.2 * Share());
      NoteBeat(Beat(clock_->Now() + options_.timeout));  // The destructor may wait for it.
    }
    if (renew) {
      next_renewal = clock_->Now() + (RenewLeases() ? absl::ZeroDuration() : renewal_check);
    }
    if (send) SendQueued();
  }
}

bool RedisTier::AnyLease() const {
  return std::any_of(spaces_.begin(), spaces_.end(), [](const auto& space) { return !space.second->leases.empty(); });
}

bool RedisTier::AnyQueued() const {
  return std::any_of(spaces_.begin(), spaces_.end(),
                     [](const auto& space) { return space.second->queue.queued() > 0; });
}

// Renews those that are due. Returns whether some are left, so that heartbeats do not wait for many.
bool RedisTier::RenewLeases() {
  struct Due {
    std::shared_ptr<TierSpace> space;
    std::string token;
    std::string key;
  };
  std::vector<Due> due;
  std::shared_ptr<const TierReign> reign;
  const Instant sent = clock_->Now();
  bool more = false;
  {
    const MutexLock lock(mutex_);
    reign = reign_;
    if (reign == nullptr) return false;
    for (const auto& [name, space] : spaces_) {
      absl::erase_if(space->leases, [&](const auto& held) { return held.second.give_up_at <= sent; });
      space->lease_count.store(space->leases.size(), std::memory_order_relaxed);
      for (const auto& [token, lease] : space->leases) {
        if (lease.renew_at > sent) continue;
        more = due.size() == kRenewalsAtOnce * kLeasesPerCommand;
        if (more) break;
        due.push_back({space, token, lease.key});
      }
    }
  }
  if (due.empty()) return false;
  std::vector<RedisCommand> commands;
  for (size_t first = 0; first < due.size(); first += kLeasesPerCommand) {
    const std::span<const Due> part = std::span(due).subspan(first, std::min(kLeasesPerCommand, due.size() - first));
    std::vector<std::string_view> keys = {keys_.state};
    for (const Due& lease : part) keys.push_back(lease.key);
    RedisCommand& extend = commands.emplace_back(TierExtendScript(), keys);
    extend.Arg(reign->incarnation).Arg(absl::ToInt64Milliseconds(options_.lease));
    for (const Due& lease : part) extend.Arg(lease.token);
    extend.Idempotent();
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = service_->RunMany(commands, reign->Call(options_.timeout));
  for (const absl::StatusOr<RedisReply>& reply : replies) NoteReply(reply.status());
  const MutexLock lock(mutex_);
  for (size_t n = 0; n < due.size(); ++n) {
    TierSpace& space = *due[n].space;
    const auto held = space.leases.find(due[n].token);
    if (held == space.leases.end()) continue;
    const absl::StatusOr<RedisReply>& reply = replies[n / kLeasesPerCommand];
    const size_t at = n % kLeasesPerCommand;
    if (!reply.ok() || at >= reply->elements().size()) continue;  // It stays due.
    if (reply->elements()[at].integer() == 1) {
      held->second.renew_at = sent + options_.lease / 4;
    } else {
      space.leases.erase(held);
      space.lease_count.store(space.leases.size(), std::memory_order_relaxed);
      space.metrics.Add(kTierLeasesLost);
    }
  }
  return more;
}

void RedisTier::SendQueued() {
  struct Sent {
    std::shared_ptr<TierSpace> space;
    uint64_t id;
  };
  std::vector<Sent> sent;
  std::vector<RedisCommand> commands;
  std::shared_ptr<const TierReign> reign;
  uint64_t sent_after = 0;
  {
    const MutexLock lock(mutex_);
    reign = reign_;
    if (reign == nullptr) return;
    sent_after = applied_;
    for (const auto& [name, space] : spaces_) {
      for (const uint64_t id : space->queue.TakeQueued(kInvalidationsPerBatch - sent.size())) {
        sent.push_back({space, id});
        commands.push_back(InvalidateCommand(*space, *reign, *space->queue.Find(id), {}));
      }
    }
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = service_->RunMany(commands, reign->Call(options_.timeout));
  for (const absl::StatusOr<RedisReply>& reply : replies) NoteReply(reply.status());
  bool failed = false;
  const MutexLock lock(mutex_);
  for (size_t n = 0; n < sent.size(); ++n) {
    TierSpace& space = *sent[n].space;
    const InvalidationReply reply = ReadInvalidation(replies[n]);
    if (reply.kind == InvalidationReply::Kind::kAccepted) {
      Accepted(space, sent[n].id, *reign, reply);
      continue;
    }
    PendingInvalidation& pending = *space.queue.Find(sent[n].id);
    NoteFailed(pending, *reign, sent_after, reply.status);
    if (reply.kind == InvalidationReply::Kind::kCodecs) {
      space.codecs = reply.codecs;
    } else {
      failed = true;
      if (reply.kind == InvalidationReply::Kind::kAdopt) RequestBeatLocked();
      if (RedisErrorCode(reply.status) == "TRYAGAIN" && pending.scope == TierScope::kKey &&
          clock_->Now() - pending.since >= kMovingSlotPatience) {
        space.queue.Widen(sent[n].id);
      }
    }
    space.queue.Enqueue(sent[n].id);
  }
  if (failed) next_send_ = clock_->Now() + options_.heartbeat;
}

}  // namespace stockade::cache_internal

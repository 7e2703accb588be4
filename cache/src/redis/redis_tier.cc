#include "redis_tier.h"

#include <algorithm>
#include <cstddef>
#include <limits>
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

// What a heartbeat asks for at once, each entry counting 1 KB more than its bytes, and after failures at least.
constexpr int64_t kMostBytesPerSync = 1 << 20;
constexpr int64_t kLeastBytesPerSync = 2 << 10;
constexpr size_t kInvalidationsPerBatch = 1000;
// Leases that one command renews, and commands between which the thread looks for other work.
constexpr size_t kLeasesPerCommand = 256;
constexpr size_t kRenewalsAtOnce = 16;
constexpr size_t kMaxLeft = 64;
// Messages that wait for the thread, or that no heartbeat has confirmed. Beyond it, heartbeats have to do.
constexpr size_t kMaxMessages = 10'000;
// Longer ones are of nobody who invalidates what a cache can have: the names and the position are below 256 bytes.
constexpr size_t kMaxMessageBytes = kMaxTierTextBytes + 256;
// A key's invalidation that a moving slot refuses for so long becomes one of all, which needs the state and the journal
// alone.
constexpr absl::Duration kMovingSlotPatience = absl::Seconds(1);
constexpr absl::Duration kClosePatience = absl::Milliseconds(100);

absl::Status CheckTierName(std::string_view field, std::string_view name, size_t longest) {
  const bool printable = std::all_of(name.begin(), name.end(),
                                     [](char c) { return c > ' ' && c < 127 && c != '{' && c != '}' && c != ':'; });
  if (!name.empty() && name.size() <= longest && printable) return absl::OkStatus();
  return absl::InvalidArgumentError(Concat("RedisCacheTier: ", field, " '", Printable(name, 100), "' is not 1 to ",
                                           longest, " printable ASCII characters without blanks, braces and colons"));
}

// The integer at `at` of an array, or 0.
uint64_t NumberAt(std::span<const RedisReply> parts, size_t at) {
  return at < parts.size() ? static_cast<uint64_t>(std::max<int64_t>(parts[at].integer(), 0)) : 0;
}

std::string_view CodeOf(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() && !reply->elements().empty() ? reply->elements()[0].text() : std::string_view();
}

absl::Status Unexpected(std::string_view step, const RedisReply& reply) {
  return absl::InternalError(Concat("unexpected answer to ", step, ": ", reply.ToString()));
}

// Whether waiting does not help: somebody has to change the options, or what the user may do.
bool IsRefusal(const absl::Status& status) {
  return absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status) || absl::IsInternal(status);
}

// Whether a first connection that failed may succeed later. FailedPrecondition: no Sentinel knows the master yet.
bool MayConnectLater(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsFailedPrecondition(status);
}

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

TierSpace::TierSpace(const TierKeys& tier_keys, std::string_view cache_name, std::string_view codec_id,
                     TierListener& cache_listener, TierTokens* tokens, MetricsRegistry* registry)
    : cache(cache_name),
      codec(codec_id),
      keys(tier_keys, cache_name, codec_id),
      listener(cache_listener),
      read_state(RedisCommand("HMGET")
                     .Key(tier_keys.state)
                     .Arg("i")
                     .Arg("q")
                     .Arg(Concat("a:", cache))
                     .Arg(Concat("c:", cache, ":", codec))),
      queue(tokens),
      codecs(codec_id),
      metrics(registry, TierCacheMetricDefs(), {{"cache", cache}}) {
  metrics.AddGauge(kTierLeases, [this] { return static_cast<double>(lease_count.load(std::memory_order_relaxed)); });
  metrics.AddGauge(kTierInvalidationsPending,
                   [this] { return static_cast<double>(pending_count.load(std::memory_order_relaxed)); });
}

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

void RedisTier::Register(const TierSpace& space, const TierReign& reign, absl::Duration timeout) {
  const RedisCommand open = RedisCommand(TierOpenScript(), {keys_.state})
                                .Arg(reign.incarnation)
                                .Arg(space.cache)
                                .Arg(space.codec)
                                .Idempotent();
  NoteReply(calls_->Run(open, reign.Call(timeout)).status());
}

std::shared_ptr<const TierReign> RedisTier::AwaitReign(const TierSpace& space, std::span<const TierAsk> questions,
                                                       std::vector<size_t>& open, uint64_t beat, Instant deadline) {
  const MutexLock lock(mutex_);
  for (;;) {
    if (away_) return nullptr;
    bool in_flight = false;
    if (!space.queue.empty()) {
      std::erase_if(open, [&](size_t n) {
        const InvalidationQueue::Concern concern = space.queue.ConcernOf(questions[n].key);
        in_flight |= concern == InvalidationQueue::Concern::kInFlight;
        return concern == InvalidationQueue::Concern::kQueued;
      });
    }
    const bool trusted = clock_->Now() < trusted_until();
    if (reign_ != nullptr && beats_ended_ >= beat && trusted && !in_flight) return reign_;
    if (!trusted && !beat_requested_ && beats_begun_ == beats_ended_) {
      beat_requested_ = true;
      wake_.NotifyOne();
    }
    if (!changed_.WaitUntil(*clock_, mutex_, deadline)) return nullptr;
  }
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

void RedisTier::Hold(TierSpace& space, const std::string& token, HeldLease lease) {
  const MutexLock lock(mutex_);
  HoldLocked(space, token, std::move(lease));
}

void RedisTier::HoldLocked(TierSpace& space, const std::string& token, HeldLease lease) {
  if (reign_ == nullptr || lease.reign != reign_->ordinal) return;  // It is void.
  space.leases.insert_or_assign(token, std::move(lease));
  space.lease_count.store(space.leases.size(), std::memory_order_relaxed);
  if (space.leases.size() == 1) wake_.NotifyOne();
}

void RedisTier::Unhold(TierSpace& space, const std::string& token) {
  const MutexLock lock(mutex_);
  space.leases.erase(token);
  space.lease_count.store(space.leases.size(), std::memory_order_relaxed);
}

RedisCommand RedisTier::EndCommand(const TierSpace& space, std::string_view key, std::string_view token,
                                   bool drop) const {
  const std::string record = space.keys.Record(key);
  const std::string lease = space.keys.Lease(key);
  const std::string waiters = space.keys.Waiters(key);
  return RedisCommand(TierEndScript(), {record, lease, waiters})
      .Arg(token)
      .Arg(drop ? "1" : "")
      .Arg(publish_command())
      .Idempotent();
}

void RedisTier::GiveBack(const TierSpace& space, std::string_view key, std::string_view token) {
  // The connection keeps the order, so this runs after the command whose outcome is unknown. If the server does not
  // know the script yet, it is sent again, and a later question may overtake it: that is then kBusy, and asks again. A
  // lease that has lapsed needs no end.
  calls_->RunAsync(EndCommand(space, key, token, false), [](const absl::StatusOr<RedisReply>&) {},
                   {.timeout = std::max<absl::Duration>(options_.lease, options_.timeout)});
}

uint64_t RedisTier::Queue(TierSpace& space, const TierTarget& target) {
  const MutexLock lock(mutex_);
  const uint64_t id = space.queue.Add(TierInvalidation(target), clock_->Now());
  space.pending_count.store(space.queue.size(), std::memory_order_relaxed);
  return id;
}

RedisCommand RedisTier::InvalidateCommand(const TierSpace& space, const TierReign& reign,
                                          const PendingInvalidation& pending, std::string_view token) const {
  std::vector<std::string> keys = {keys_.state, keys_.journal};
  size_t own = 0;
  if (pending.scope == TierScope::kKey) {
    for (std::string_view rest = space.codecs; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      const std::string_view codec = rest.substr(0, end);
      const TierEntryKeys entry(keys_, space.cache, codec);
      keys.push_back(entry.Record(pending.text));
      keys.push_back(entry.Lease(pending.text));
      if (codec == space.codec) own = keys.size();  // Lua counts from 1.
      keys.push_back(entry.Waiters(pending.text));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const bool repeat = pending.sent_in == reign.ordinal;
  RedisCommand command(TierInvalidateScript(), views);
  command.Arg(reign.incarnation).Arg(pending.operation).Arg(options_.journal_length).Arg(space.cache);
  const char scope = static_cast<char>(pending.scope);
  command.Arg(std::string_view(&scope, 1)).Arg(pending.text).Arg(space.codecs);
  if (repeat) {
    command.Arg(pending.sent_after);
  } else {
    command.Arg("");
  }
  command.Arg(own > 0 ? token : std::string_view()).Arg(absl::ToInt64Milliseconds(options_.lease)).Arg(own);
  command.Arg(publish_command());
  return command;
}

InvalidationReply RedisTier::ReadInvalidation(const absl::StatusOr<RedisReply>& reply) {
  using Kind = InvalidationReply::Kind;
  if (absl::IsAborted(reply.status())) return {.kind = Kind::kAdopt, .status = reply.status()};
  if (!reply.ok()) return {.kind = Kind::kFailed, .status = reply.status()};
  const std::string_view code = CodeOf(reply);
  const std::span<const RedisReply> parts = reply->elements();
  if (code == "A") return {.kind = Kind::kAdopt, .status = absl::AbortedError("another reign")};
  if (code == "R" && parts.size() == 2) return {.kind = Kind::kCodecs, .codecs = std::string(parts[1].text())};
  if (code == "K" && parts.size() == 4) {
    return {.kind = Kind::kAccepted,
            .position = NumberAt(parts, 1),
            .granted = NumberAt(parts, 2) == 1,
            .dropped_tags = NumberAt(parts, 3) == 1};
  }
  return {.kind = Kind::kFailed, .status = Unexpected("invalidate", *reply)};
}

void RedisTier::NoteFailed(PendingInvalidation& pending, const TierReign& reign, uint64_t sent_after,
                           const absl::Status& status) {
  if (!RedisOutcomeUnknown(status) || pending.sent_in == reign.ordinal) return;
  pending.sent_in = reign.ordinal;
  pending.sent_after = sent_after;
}

void RedisTier::Accepted(TierSpace& space, uint64_t id, const TierReign& reign, const InvalidationReply& reply) {
  newest_accepted_ = std::max(newest_accepted_, reign.Expose(reply.position));
  if (const PendingInvalidation* pending = space.queue.Find(id); pending != nullptr) {
    space.metrics.Observe(kTierInvalidationSeconds, clock_->Now() - pending->since);
    space.metrics.Add(kTierInvalidationsOwn);
  }
  if (reply.dropped_tags) metrics_.Add(kTierTagsDropped);
  space.queue.Accept(id);
  space.pending_count.store(space.queue.size(), std::memory_order_relaxed);
  changed_.NotifyAll();
}

TierInvalidated RedisTier::Await(TierSpace& space, uint64_t id, bool with_lease) {
  const Instant deadline = clock_->Now() + options_.timeout;
  {
    const MutexLock lock(mutex_);
    PendingInvalidation* pending = space.queue.Find(id);
    if (pending == nullptr) return {.accepted = true, .position = newest_accepted_};
    if (pending->state == PendingInvalidation::State::kHeld) {
      pending->state = PendingInvalidation::State::kSending;
    } else {
      while (!away_ && space.queue.Find(id) != nullptr) {
        if (!changed_.WaitUntil(*clock_, mutex_, deadline)) break;
      }
      if (space.queue.Find(id) != nullptr) return {};
      return {.accepted = true, .position = newest_accepted_};
    }
  }
  TierInvalidated result = Send(space, id, with_lease, deadline);
  if (!result.accepted) {
    const MutexLock lock(mutex_);
    space.queue.Enqueue(id);
    wake_.NotifyOne();
    changed_.NotifyAll();  // Questions that wait for it.
  }
  return result;
}

TierInvalidated RedisTier::Send(TierSpace& space, uint64_t id, bool with_lease, Instant deadline) {
  const std::string token = with_lease ? NewTokens(1)[0] : std::string();
  std::string key;
  bool may_be_granted = false;
  uint64_t beat = 0;
  for (Instant sent = clock_->Now(); sent < deadline; sent = clock_->Now()) {
    std::shared_ptr<const TierReign> reign;
    std::optional<RedisCommand> command;
    uint64_t sent_after = 0;
    {
      const MutexLock lock(mutex_);
      while (!away_ && (reign_ == nullptr || beats_ended_ < beat)) {
        if (!changed_.WaitUntil(*clock_, mutex_, deadline)) break;
      }
      if (away_ || reign_ == nullptr || beats_ended_ < beat) break;
      reign = reign_;
      sent_after = applied_;
      const PendingInvalidation* pending = space.queue.Find(id);
      key = pending->text;
      command = InvalidateCommand(space, *reign, *pending, token);
    }
    if (beat > 0) AwaitServer(*reign, deadline);
    sent = clock_->Now();
    const absl::StatusOr<RedisReply> answer = calls_->Run(*command, reign->Call(deadline - sent));
    NoteReply(answer.status());
    const InvalidationReply reply = ReadInvalidation(answer);
    may_be_granted |= with_lease && RedisOutcomeUnknown(reply.status);
    const MutexLock lock(mutex_);
    if (reply.kind == InvalidationReply::Kind::kAccepted) {
      Accepted(space, id, *reign, reply);
      TierInvalidated result = {.accepted = true, .position = reign->Expose(reply.position)};
      if (reply.granted) {
        HoldLocked(space, token,
                   {.key = space.keys.Lease(key),
                    .reign = reign->ordinal,
                    .renew_at = sent + options_.lease / 4,
                    .give_up_at = sent + options_.max_load});
        result.lease = {.token = token, .position = result.position};
      }
      return result;
    }
    NoteFailed(*space.queue.Find(id), *reign, sent_after, reply.status);
    if (reply.kind == InvalidationReply::Kind::kCodecs) {
      space.codecs = reply.codecs;
    } else if (reply.kind == InvalidationReply::Kind::kAdopt) {
      beat = RequestBeatLocked();
    } else if (!absl::IsUnavailable(reply.status) || !RedisOutcomeUnknown(reply.status)) {
      break;
    }
  }
  if (may_be_granted) GiveBack(space, key, token);
  return {};
}

bool RedisTier::AwaitAll(const TierSpace& space, Instant deadline) {
  const MutexLock lock(mutex_);
  const uint64_t newest = space.queue.newest();
  while (space.queue.AnyUpTo(newest)) {
    if (space.waits_cancelled) return false;
    if (!changed_.WaitUntil(*clock_, mutex_, deadline)) return !space.queue.AnyUpTo(newest);
  }
  return true;
}

void RedisTier::CancelWaits(TierSpace& space) {
  const MutexLock lock(mutex_);
  space.waits_cancelled = true;
  changed_.NotifyAll();
}

void RedisTier::Close(const std::shared_ptr<TierSpace>& space) {
  std::vector<RedisCommand> ends;
  size_t dropped = 0;
  bool away = false;
  {
    const MutexLock lock(mutex_);
    spaces_.erase(space->cache);
    while (calling_ || space->hears) changed_.Wait(mutex_);
    for (const auto& [token, lease] : space->leases) {
      ends.push_back(EndCommand(*space, std::string_view(lease.key).substr(space->keys.leases.size()), token, false));
    }
    space->leases.clear();
    space->lease_count.store(0, std::memory_order_relaxed);
    dropped = space->queue.size();
    away = away_;
  }
  if (!ends.empty() && !away) {
    calls_->RunMany(ends, {.timeout = std::min<absl::Duration>(kClosePatience, options_.timeout)});
  }
  if (dropped == 0) return;
  space->metrics.Add(kTierInvalidationsDropped, dropped);
  Log(LogSeverity::kError,
      Concat("RedisCacheTier '", options_.prefix, "': the cache '", space->cache,
             "' was destroyed before Redis accepted ", dropped,
             " of its invalidations; other processes may serve outdated values until these expire"));
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

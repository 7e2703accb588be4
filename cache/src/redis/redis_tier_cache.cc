#include "redis_tier_cache.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "redis_tier_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

// Callers poll while another process loads: after a quarter of the time that the load has taken so far, within these
// bounds. So they are late by at most a quarter of the load time, and poll rarely during a long load.
constexpr absl::Duration kMinPoll = absl::Milliseconds(5);
constexpr absl::Duration kMaxPoll = absl::Milliseconds(200);
// Callers that a message will wake poll only because the message may be lost, or the loader may be killed: each time
// the load's age has doubled, and at least once per fifth of a lease.
constexpr absl::Duration kMinPollIfWoken = absl::Milliseconds(50);
constexpr absl::Duration kMaxPollIfWoken = absl::Seconds(1);
// If a moving slot refuses the invalidation of a key for this long, the tier invalidates all keys instead, which needs
// only the state and the journal.
constexpr absl::Duration kMovingSlotPatience = absl::Seconds(1);
constexpr absl::Duration kCloseTimeout = absl::Milliseconds(100);

// Reads the reply to ReadState(). False: the state is of another reign, or the codec is not registered.
bool ReadBounds(const RedisReply& state, TierBounds& bounds) {
  const std::span<const RedisReply> fields = state.elements();
  if (fields.size() != 4) return false;
  uint64_t all = 0;
  if (fields[0].text() != bounds.incarnation || !ReadPosition(fields[1].text(), bounds.newest)) return false;
  if (!fields[2].is_nil() && !ReadPosition(fields[2].text(), all)) return false;
  if (!ReadPosition(fields[3].text(), bounds.oldest)) return false;
  bounds.oldest = std::max(bounds.oldest, all);
  return true;
}

// Reads the incarnation, and the positions that records are compared with.
RedisCommand ReadState(std::string_view state_key, std::string_view cache, std::string_view codec) {
  return WithArgs(RedisCommand("HMGET").Key(state_key), "i", "q", Concat("a:", cache), Concat("c:", cache, ":", codec));
}

// At least 1 ms if it is positive.
absl::Duration WholeMilliseconds(absl::Duration span) {
  return span > absl::ZeroDuration() ? std::max(absl::Trunc(span, absl::Milliseconds(1)), absl::Milliseconds(1))
                                     : absl::ZeroDuration();
}

// More would be half of what a process may miss of the journal, so that it is cheaper to drop all.
size_t MostQueued(const RedisCacheTierOptions& options) {
  constexpr size_t kMost = 65'536;
  return std::min(kMost, static_cast<size_t>(options.journal_length / 2));
}

}  // namespace

RedisTierCache::RedisTierCache(std::shared_ptr<RedisTier> tier, uint64_t number, std::string_view name,
                               std::string_view codec, TierListener& listener)
    : tier_(std::move(tier)),
      number_(number),
      name_(name),
      codec_(codec),
      keys_(tier_->keys(), name, codec),
      listener_(listener),
      // A longer record is not a hit.
      reader_(*tier_, ReadState(tier_->keys().state, name, codec), kTierHeadBytes + tier_->options().max_value_bytes),
      state_(new State{.queue = InvalidationQueue(&tier_->tokens(), MostQueued(tier_->options())),
                       .codecs = std::string(codec),
                       .metrics = {tier_->options().metrics, TierCacheMetricDefs(), {{"cache", name_}}}}) {
  // Not by `this`: a forked child leaks the state, and with it the gauges.
  state_->metrics.AddGauge(kTierLeases, [state = state_.get(), tier = tier_.get()] {
    const MutexLock lock(tier->mutex());
    return static_cast<double>(state->leases.size());
  });
  state_->metrics.AddGauge(kTierInvalidationsPending, [state = state_.get(), tier = tier_.get()] {
    const MutexLock lock(tier->mutex());
    return static_cast<double>(state->queue.size());
  });
}

RedisTierCache::~RedisTierCache() {
  if (tier_->InForkedChild()) {
    (void)state_.release();
  } else {
    Close();
  }
}

void RedisTierCache::Close() {
  std::vector<RedisCommand> ends;
  size_t dropped = 0;
  bool away = false;
  {
    const MutexLock lock(tier_->mutex());
    if (!tier_->Remove(*this)) return;
    for (const auto& [id, lease] : state_->leases) {
      ends.push_back(EndLeaseCommand(std::string_view(id.key).substr(keys_.leases.size()), id.token, false));
    }
    state_->leases.clear();
    dropped = state_->queue.size();
    away = tier_->away();
  }
  if (!ends.empty() && !away) {
    tier_->calls().RunMany(ends, {.timeout = std::min<absl::Duration>(kCloseTimeout, tier_->options().timeout)});
  }
  if (dropped == 0) return;
  state_->metrics.Add(kTierInvalidationsDropped, dropped);
  Log(LogSeverity::kError,
      Concat("RedisCacheTier '", tier_->options().prefix, "': the cache '", name_,
             "' was destroyed before Redis accepted ", dropped,
             " of its invalidations; other processes may serve outdated values until these expire"));
}

TierCacheStats RedisTierCache::Stats() const {
  const auto count = [this](TierCacheMetric metric) { return CountOf(state_->metrics, metric); };
  return {.cache = name_,
          .hits = count(kTierHit),
          .granted = count(kTierGranted),
          .busy = count(kTierBusy),
          .away = count(kTierAway),
          .undecodable = count(kTierUndecodable),
          .stored = count(kTierStored),
          .unstored = count(kTierUnstored),
          .refused = count(kTierRefused),
          .unanswered = count(kTierFillAway),
          .leases_lost = count(kTierLeasesLost),
          .leases_returned = count(kTierLeasesReturned),
          .invalidations_accepted = count(kTierInvalidationsOwn),
          .invalidations_applied = count(kTierInvalidationsReported),
          .invalidations_dropped = count(kTierInvalidationsDropped),
          .invalidations_pending = static_cast<int64_t>(state_->queue.size()),
          .leases = static_cast<int64_t>(state_->leases.size())};
}

RedisCommand RedisTierCache::RegisterCommand(const TierReign& reign) const {
  return WithArgs(RedisCommand(TierOpenScript(), {tier_->keys().state}), reign.incarnation, name_, codec_).Idempotent();
}

void RedisTierCache::Register(const TierReign& reign, absl::Duration timeout) {
  tier_->RecordReply(tier_->calls().Run(RegisterCommand(reign), reign.Call(timeout)).status());
}

// Asking.

std::vector<TierAnswer> RedisTierCache::Ask(std::span<const TierAsk> questions) {
  tier_->CheckFork();
  Asking asking = {.questions = questions,
                   .deadline = tier_->clock()->Now() + tier_->options().timeout,
                   .answers = std::vector<TierAnswer>(questions.size())};  // All kAway.
  for (size_t n = 0; n < questions.size(); ++n) {
    if (questions[n].key.size() <= kMaxTierKeyBytes) asking.open.push_back(n);
  }
  for (int attempt = ExpectsHits() ? 0 : 1; attempt < 4 && !asking.open.empty(); ++attempt) {
    const TierReignPtr reign = AwaitReign(asking);
    if (reign == nullptr || asking.open.empty()) break;
    if (asking.heartbeat > 0) tier_->AwaitServer(*reign, asking.deadline);
    if (attempt > 0) {
      AskOnce(*reign, asking);
    } else {
      ReadHits(*reign, asking);
    }
  }
  size_t hits = 0, answered = 0;  // Of the questions without a known version.
  for (size_t n = 0; n < questions.size(); ++n) {
    const TierAnswer::Kind kind = asking.answers[n].kind;
    state_->metrics.Add(kTierHit + static_cast<size_t>(kind));
    if (questions[n].undecodable) state_->metrics.Add(kTierUndecodable);
    if (kind == TierAnswer::Kind::kAway || questions[n].known_version != 0) continue;
    ++answered;
    if (kind == TierAnswer::Kind::kHit) ++hits;
  }
  // Once, so that one GetAll() of cold keys does not change how all others are asked.
  if (answered > 0) hit_share_.Add(2 * hits >= answered);
  return std::move(asking.answers);
}

bool RedisTierCache::ExpectsHits() const {
  return !has_tags_.load(std::memory_order_relaxed) && hit_share_.most() && reader_.may_read();
}

TierReignPtr RedisTierCache::AwaitReign(Asking& asking) {
  const MutexLock lock(tier_->mutex());
  for (;;) {
    if (tier_->away()) return nullptr;
    bool in_flight = false;
    if (!state_->queue.empty()) {
      std::erase_if(asking.open, [&](size_t n) STOCKADE_REQUIRES(kTierMutex) {
        const InvalidationQueue::Concern concern = state_->queue.ConcernOf(asking.questions[n].key);
        in_flight |= concern == InvalidationQueue::Concern::kInFlight;
        return concern == InvalidationQueue::Concern::kQueued;
      });
    }
    if (tier_->IsReady(asking.heartbeat) && !in_flight) return tier_->reign();
    if (!tier_->AwaitChange(asking.deadline)) return nullptr;
  }
}

void RedisTierCache::ReadHits(const TierReign& reign, Asking& asking) {
  std::vector<size_t> plain;
  std::vector<std::string> keys;
  for (const size_t n : asking.open) {
    if (asking.questions[n].known_version != 0) continue;
    plain.push_back(n);
    keys.push_back(keys_.Record(asking.questions[n].key));
  }
  if (plain.empty()) return;
  const Instant sent = tier_->clock()->Now();
  const std::vector<TierRead> reads = reader_.Read(reign, keys, asking.deadline);
  const Instant now = tier_->clock()->Now();
  state_->metrics.ObserveSpan(kTierAskSeconds, sent, now);
  if (now >= trusted_until()) return;
  for (size_t n = 0; n < plain.size(); ++n) ReadHit(reign, reads[n], asking.answers[plain[n]]);
  std::erase_if(asking.open, [&](size_t n) { return asking.answers[n].kind == TierAnswer::Kind::kHit; });
}

void RedisTierCache::ReadHit(const TierReign& reign, const TierRead& read, TierAnswer& answer) {
  TierBounds bounds = {.incarnation = reign.incarnation};
  if (!read.ok() || !ReadBounds(read.state(), bounds)) return;
  const std::string_view record = read.record().text();
  if (record.size() > kTierHeadBytes + tier_->options().max_value_bytes) return;
  absl::Duration left;
  const TierValidity validity = CheckTierRecord(record, bounds, absl::Milliseconds(read.life().integer()), left);
  if (validity == TierValidity::kTagged) has_tags_.store(true, std::memory_order_relaxed);
  if (validity != TierValidity::kValid) return;
  answer.record = DecodeTierRecord(record, left, reign.Expose(bounds.newest));
  if (answer.record.has_value()) answer.kind = TierAnswer::Kind::kHit;
}

void RedisTierCache::AskOnce(const TierReign& reign, Asking& asking) {
  const std::vector<size_t> asked = std::move(asking.open);
  asking.open.clear();
  std::vector<std::string> tokens(asked.size());
  {
    const MutexLock lock(tier_->mutex());
    for (std::string& token : tokens) token = tier_->NewLeaseToken();
  }
  std::vector<RedisCommand> commands;
  commands.reserve(asked.size());
  const int64_t lease_ms = absl::ToInt64Milliseconds(tier_->options().lease);
  for (size_t n = 0; n < asked.size(); ++n) {
    const TierAsk& question = asking.questions[asked[n]];
    const auto& [record, lease, waiters] = keys_.Entry(question.key);
    const bool refresh = question.known_version != 0;
    const std::string version = refresh ? TierVersionBytes(question.known_version) : std::string();
    // A refresh does not wait for another loader.
    const std::string_view inbox = refresh ? std::string_view() : tier_->inbox();
    commands.push_back(WithArgs(RedisCommand(TierAskScript(), {tier_->keys().state, record, lease, waiters}),
                                reign.incarnation, name_, codec_, tokens[n], lease_ms, version, inbox,
                                tier_->probe_command())
                           .Idempotent());
  }
  const Instant sent = tier_->clock()->Now();
  const std::vector<absl::StatusOr<RedisReply>> replies =
      RunAll(*tier_, commands, {.on_server = reign.run_id}, asking.deadline);
  state_->metrics.ObserveSpan(kTierAskSeconds, sent, tier_->clock()->Now());

  bool unregistered = false;
  bool another_reign = false;
  for (size_t n = 0; n < asked.size(); ++n) {
    const absl::Status& status = replies[n].status();
    const std::string_view key = asking.questions[asked[n]].key;
    tier_->RecordReply(status);
    if (RedisOutcomeUnknown(status)) {
      EndLeaseAsync(key, tokens[n]);
      state_->metrics.Add(kTierLeasesReturned);
    }
    const std::string_view code = CodeOf(PartsOf(replies[n]));
    if (absl::IsAborted(status) || code == "A" || code == "R") {
      (code == "R" ? unregistered : another_reign) = true;
      asking.open.push_back(asked[n]);
    } else {
      ReadAnswer(reign, key, tokens[n], sent, PartsOf(replies[n]), asking.answers[asked[n]]);
    }
  }
  if (another_reign) {
    const MutexLock lock(tier_->mutex());
    asking.heartbeat = tier_->RequestHeartbeat();
  }
  if (unregistered) Register(reign, asking.deadline - tier_->clock()->Now());
}

void RedisTierCache::ReadAnswer(const TierReign& reign, std::string_view key, const std::string& token, Instant sent,
                                std::span<const RedisReply> parts, TierAnswer& answer) {
  const std::string_view code = CodeOf(parts);
  const bool busy = code == "B" && parts.size() == 7;
  const bool granted = code == "G" && parts.size() == 4;
  if (!busy && !granted && (code != "H" || parts.size() != 4)) return;
  const uint64_t position = reign.Expose(NumberAt(parts, 1));
  if (!parts[3].is_nil()) {
    answer.record = DecodeTierRecord(parts[3].text(), absl::Milliseconds(parts[2].integer()), position);
  }
  if (granted) {
    answer.kind = TierAnswer::Kind::kGranted;
    answer.lease = {.token = token, .position = position};
    const MutexLock lock(tier_->mutex());
    AddLease(reign, {token, keys_.Lease(key)}, sent);
  } else if (busy) {
    answer.kind = TierAnswer::Kind::kBusy;
    const absl::Duration lease = tier_->options().lease;
    const absl::Duration age = absl::Milliseconds(parts[5].integer());
    const absl::Duration longest = std::clamp(lease / 5, kMinPollIfWoken, kMaxPollIfWoken);
    const absl::Duration poll =
        parts[6].integer() == 1 ? std::clamp(age, kMinPollIfWoken, longest) : std::clamp(age / 4, kMinPoll, kMaxPoll);
    const MutexLock lock(tier_->mutex());
    const absl::Duration lapse =
        absl::Milliseconds(parts[4].integer()) + lease * (tier_->tokens().RandomFraction() / 10);
    answer.retry_after =
        std::max(std::min(poll * (0.8 + 0.4 * tier_->tokens().RandomFraction()), lapse), absl::Milliseconds(1));
  } else if (answer.record && tier_->clock()->Now() < trusted_until()) {
    // Without trust, a server that accepts no writes may be one that was replaced: a question writes nothing.
    answer.kind = TierAnswer::Kind::kHit;
  }
}

// Filling.

std::vector<TierFilled> RedisTierCache::Fill(std::span<const TierFill> fills) {
  tier_->CheckFork();
  const Instant begun = tier_->clock()->Now();
  std::vector<TierFilled> results(fills.size());  // All kAway.
  TierReignPtr reign;
  {
    const MutexLock lock(tier_->mutex());
    reign = tier_->UsableReign();
    for (const TierFill& fill : fills) state_->leases.erase({fill.lease.token, keys_.Lease(fill.key)});
  }
  std::vector<RedisCommand> commands;
  std::vector<size_t> sent;
  for (size_t n = 0; n < fills.size(); ++n) {
    const TierFill& fill = fills[n];
    const std::string& token = fill.lease.token;
    if (token.size() != kTierTokenBytes || (reign != nullptr && !reign->Exposes(fill.lease.position))) {
      results[n].kind = TierFilled::Kind::kRefused;
    }
    if (reign == nullptr || results[n].kind == TierFilled::Kind::kRefused) continue;
    sent.push_back(n);
    if (!fill.tags.empty()) has_tags_.store(true, std::memory_order_relaxed);
    if (!IsStorable(fill)) {
      commands.push_back(EndLeaseCommand(fill.key, token, true));
      continue;
    }
    const absl::Duration ttl = WholeMilliseconds(std::min(fill.ttl, max_ttl()));
    const absl::Duration grace = WholeMilliseconds(std::min(fill.grace, max_ttl() - ttl));
    const auto& [record, lease, waiters] = keys_.Entry(fill.key);
    const TierRecordHead head = {reign->incarnation, reign->Hide(fill.lease.position), token};
    commands.push_back(WithArgs(RedisCommand(TierFillScript(), {tier_->keys().state, record, lease, waiters}),
                                reign->incarnation, name_, codec_, token, absl::ToInt64Milliseconds(ttl + grace),
                                EncodeTierRecord(head, fill, ttl, grace), tier_->publish_command())
                           .Idempotent());
  }
  if (!commands.empty()) {
    const std::vector<absl::StatusOr<RedisReply>> replies =
        RunAll(*tier_, commands, {.on_server = reign->run_id}, begun + tier_->options().timeout);
    state_->metrics.ObserveSpan(kTierFillSeconds, begun, tier_->clock()->Now());
    for (size_t n = 0; n < sent.size(); ++n) results[sent[n]] = ReadFilled(*reign, fills[sent[n]], replies[n]);
  }
  for (const TierFilled& result : results) state_->metrics.Add(kTierStored + static_cast<size_t>(result.kind));
  return results;
}

bool RedisTierCache::IsStorable(const TierFill& fill) const {
  return fill.ttl > absl::ZeroDuration() && fill.bytes.size() <= tier_->options().max_value_bytes &&
         fill.tags.size() <= kMaxTierTags &&
         std::all_of(fill.tags.begin(), fill.tags.end(),
                     [](const std::string& tag) { return tag.size() <= kMaxTierTagBytes; });
}

TierFilled RedisTierCache::ReadFilled(const TierReign& reign, const TierFill& fill,
                                      const absl::StatusOr<RedisReply>& reply) {
  tier_->RecordReply(reply.status());
  const std::span<const RedisReply> parts = PartsOf(reply);
  const std::string_view code = CodeOf(parts);
  const bool another_reign = code == "A" || absl::IsAborted(reply.status());
  if (another_reign) {
    const MutexLock lock(tier_->mutex());
    tier_->RequestHeartbeat();
  }
  if (!reply.ok()) {
    if (!another_reign) EndLeaseAsync(fill.key, fill.lease.token);  // The lease may still be there.
    return {.kind = TierFilled::Kind::kAway};
  }
  if (code == "K" && parts.size() == 2) {
    return {.kind = TierFilled::Kind::kStored,
            .position = reign.Expose(NumberAt(parts, 1)),
            .version = TierVersionOf(fill.lease.token)};
  }
  if (code == "U" || reply->integer() == 1) {
    return {.kind = TierFilled::Kind::kUnstored, .position = fill.lease.position};
  }
  return {.kind = TierFilled::Kind::kRefused};
}

void RedisTierCache::Fail(std::string_view key, const TierLease& lease) {
  tier_->CheckFork();
  if (lease.token.size() != kTierTokenBytes) return;
  {
    const MutexLock lock(tier_->mutex());
    state_->leases.erase({lease.token, keys_.Lease(key)});
    if (tier_->UsableReign() == nullptr) return;
  }
  EndLeaseAsync(key, lease.token);
}

// Leases.

void RedisTierCache::AddLease(const TierReign& reign, LeaseId id, Instant sent) {
  const TierReignPtr& present = tier_->reign();
  if (present == nullptr || present->ordinal != reign.ordinal) return;  // The lease is void.
  const RedisCacheTierOptions& options = tier_->options();
  state_->leases.insert_or_assign(std::move(id),
                                  HeldLease{.renew_at = sent + options.lease / 4, .drop_at = sent + options.max_load});
  if (state_->leases.size() == 1) tier_->WakeThread();
}

bool RedisTierCache::CollectDueLeases(Instant now, size_t most, std::vector<DueLease>& due) {
  absl::erase_if(state_->leases, [&](const auto& held) { return held.second.drop_at <= now; });
  for (const auto& [id, lease] : state_->leases) {
    if (lease.renew_at > now) continue;
    if (due.size() == most) return true;
    due.push_back({number_, id});
  }
  return false;
}

void RedisTierCache::ApplyRenewal(const LeaseId& id, bool renewed, Instant sent) {
  const auto held = state_->leases.find(id);
  if (held == state_->leases.end()) return;
  if (renewed) {
    held->second.renew_at = sent + tier_->options().lease / 4;
  } else {
    state_->leases.erase(held);
    state_->metrics.Add(kTierLeasesLost);
  }
}

RedisCommand RedisTierCache::EndLeaseCommand(std::string_view key, std::string_view token, bool drop_record) const {
  const auto& [record, lease, waiters] = keys_.Entry(key);
  return WithArgs(RedisCommand(TierEndScript(), {record, lease, waiters}), token, drop_record ? "1" : "",
                  tier_->publish_command())
      .Idempotent();
}

void RedisTierCache::EndLeaseAsync(std::string_view key, std::string_view token) {
  // The connection keeps the order, so this runs after the command whose outcome is unknown. If the server does not
  // have the script yet, the client sends the command again. A later question may overtake it; it is then kBusy, and
  // its caller asks again. A lease that has lapsed does not have to be ended, which bounds the time-out.
  const RedisCacheTierOptions& options = tier_->options();
  tier_->calls().RunAsync(EndLeaseCommand(key, token, false), [](const absl::StatusOr<RedisReply>&) {},
                          {.timeout = std::max<absl::Duration>(options.lease, options.timeout)});
}

// Invalidations.

uint64_t RedisTierCache::Queue(const TierTarget& target) {
  tier_->CheckFork();
  const MutexLock lock(tier_->mutex());
  return state_->queue.Add(TierInvalidation(target), tier_->clock()->Now());
}

// Whether this call is to send an invalidation that is held. Otherwise the tier's thread does, or has done so.
bool RedisTierCache::BeginSending(uint64_t queued) {
  PendingInvalidation* const pending = state_->queue.Find(queued);
  if (pending == nullptr || pending->state != PendingInvalidation::State::kHeld) return false;
  pending->state = PendingInvalidation::State::kSending;
  return true;
}

TierInvalidated RedisTierCache::Await(uint64_t queued, bool with_lease) {
  tier_->CheckFork();
  const Instant deadline = tier_->clock()->Now() + tier_->options().timeout;
  {
    const MutexLock lock(tier_->mutex());
    InvalidationQueue& queue = state_->queue;
    if (!BeginSending(queued)) {
      while (queue.Find(queued) != nullptr) {
        if (tier_->away() || !tier_->AwaitChange(deadline)) break;
      }
      if (queue.Find(queued) != nullptr) return {};
      return {.accepted = true, .position = tier_->newest_accepted()};
    }
  }
  return Send(queued, {.with_lease = with_lease}, deadline, nullptr);
}

// With leases this thread sends them. Others, and those that it could not send, the tier's thread sends.
std::vector<TierInvalidated> RedisTierCache::AwaitMany(std::span<const uint64_t> queued, bool with_lease) {
  tier_->CheckFork();
  std::vector<TierInvalidated> results(queued.size());
  if (with_lease) SendWithLeases(queued, results);
  const Instant deadline = tier_->clock()->Now() + tier_->options().timeout;
  const MutexLock lock(tier_->mutex());
  InvalidationQueue& queue = state_->queue;
  queue.EnqueueHeld(queued);
  tier_->WakeThread();
  tier_->NotifyChange();  // Questions that wait for them.
  for (size_t n = 0; n < queued.size(); ++n) {
    while (queue.Find(queued[n]) != nullptr) {
      if (tier_->away() || !tier_->AwaitChange(deadline)) return results;
    }
    if (!results[n].accepted) results[n] = {.accepted = true, .position = tier_->newest_accepted()};
  }
  return results;
}

void RedisTierCache::SendWithLeases(std::span<const uint64_t> queued, std::span<TierInvalidated> results) {
  std::vector<size_t> mine;
  {
    const MutexLock lock(tier_->mutex());
    for (size_t index = 0; index < queued.size(); ++index) {
      if (BeginSending(queued[index])) mine.push_back(index);
    }
  }
  std::span<const size_t> rest = mine;
  while (!rest.empty()) {
    const size_t count = SendSome(queued, rest, results);
    if (count == 0) break;
    rest = rest.subspan(count);
  }
  const MutexLock lock(tier_->mutex());
  for (const size_t index : rest) state_->queue.Enqueue(queued[index]);
}

// As many of those at `indexes` as the journal has room for: waits for heartbeats as long as they succeed. Returns
// their number; 0: the tier is away, or the cache is being destroyed.
size_t RedisTierCache::SendSome(std::span<const uint64_t> queued, std::span<const size_t> indexes,
                                std::span<TierInvalidated> results) {
  struct Sent {
    size_t index;
    std::string key;
    std::string token;
  };
  std::vector<Sent> all;
  std::vector<RedisCommand> commands;
  TierReignPtr reign;
  uint64_t applied = 0;
  {
    const MutexLock lock(tier_->mutex());
    const auto may_send = [&]() STOCKADE_REQUIRES(kTierMutex) {
      reign = tier_->AwaitReign(0, tier_->clock()->Now() + tier_->options().timeout);
      return reign == nullptr || state_->waits_cancelled || tier_->MostInvalidations() > 0;
    };
    while (!may_send()) tier_->AwaitChange(Instant::InfiniteFuture());
    if (reign == nullptr || state_->waits_cancelled) return 0;
    applied = tier_->applied();
    for (const size_t index : indexes.first(std::min(indexes.size(), tier_->MostInvalidations()))) {
      const PendingInvalidation& pending = *state_->queue.Find(queued[index]);
      all.push_back({.index = index, .key = pending.text, .token = tier_->NewLeaseToken()});
      commands.push_back(InvalidateCommand(*reign, pending, all.back().token));
    }
  }
  const Instant sent = tier_->clock()->Now();
  const std::vector<absl::StatusOr<RedisReply>> replies =
      tier_->calls().RunMany(commands, reign->Call(tier_->options().timeout));
  for (size_t n = 0; n < all.size(); ++n) {
    tier_->RecordReply(replies[n].status());
    if (RedisOutcomeUnknown(replies[n].status())) EndLeaseAsync(all[n].key, all[n].token);
  }
  const MutexLock lock(tier_->mutex());
  for (size_t n = 0; n < all.size(); ++n) {
    const uint64_t id = queued[all[n].index];
    const SendResult result = ApplyReply(id, *reign, applied, replies[n]);
    if (result == SendResult::kAccepted) {
      results[all[n].index] = Accepted(*reign, replies[n], all[n].key, all[n].token, sent);
      continue;
    }
    if (result == SendResult::kOtherReign) tier_->RequestHeartbeat();
    state_->queue.Enqueue(id);
  }
  return all.size();
}

// Of a reply that has accepted the invalidation of `key`.
TierInvalidated RedisTierCache::Accepted(const TierReign& reign, const absl::StatusOr<RedisReply>& reply,
                                         const std::string& key, const std::string& token, Instant sent) {
  TierInvalidated accepted = {.accepted = true, .position = reign.Expose(NumberAt(reply->elements(), 1))};
  if (!token.empty() && NumberAt(reply->elements(), 2) == 1) {
    AddLease(reign, {token, keys_.Lease(key)}, sent);
    accepted.lease = {.token = token, .position = accepted.position};
  }
  return accepted;
}

// If it is not accepted, the tier's thread sends it as a plain invalidation.
TierInvalidated RedisTierCache::Send(uint64_t id, const InvalidationExtra& extra, Instant deadline, TierMark* mark) {
  std::string token;
  std::string key;
  bool may_be_granted = false;
  uint64_t heartbeat = 0;
  for (Instant sent = tier_->clock()->Now(); sent < deadline; sent = tier_->clock()->Now()) {
    TierReignPtr reign;
    std::optional<RedisCommand> command;
    uint64_t applied = 0;
    {
      const MutexLock lock(tier_->mutex());
      if (extra.with_lease && token.empty()) token = tier_->NewLeaseToken();
      reign = tier_->AwaitReign(heartbeat, deadline);
      if (reign == nullptr) break;
      applied = tier_->applied();
      const PendingInvalidation& pending = *state_->queue.Find(id);
      key = pending.text;
      command = InvalidateCommand(*reign, pending, token, extra);
    }
    if (heartbeat > 0) tier_->AwaitServer(*reign, deadline);
    sent = tier_->clock()->Now();
    const absl::StatusOr<RedisReply> reply = tier_->calls().Run(*command, reign->Call(deadline - sent));
    tier_->RecordReply(reply.status());
    may_be_granted |= extra.with_lease && RedisOutcomeUnknown(reply.status());
    const MutexLock lock(tier_->mutex());
    if (!extra.fencing_token.empty() && CodeOf(PartsOf(reply)) == "W") {
      state_->queue.Accept(id);  // The update does not take place.
      tier_->NotifyChange();
      mark->kind = TierMark::Kind::kRefused;
      return {};
    }
    const SendResult result = ApplyReply(id, *reign, applied, reply);
    if (result == SendResult::kAccepted) {
      if (mark != nullptr) *mark = ReadMark(*reign, reply->elements(), key, extra, sent);
      return Accepted(*reign, reply, key, token, sent);
    }
    if (result == SendResult::kOtherReign) heartbeat = tier_->RequestHeartbeat();
    const bool transient = absl::IsUnavailable(reply.status()) && RedisOutcomeUnknown(reply.status());
    if (result == SendResult::kFailed && !transient) break;
  }
  if (may_be_granted) EndLeaseAsync(key, token);
  const MutexLock lock(tier_->mutex());
  state_->queue.Enqueue(id);
  tier_->WakeThread();
  tier_->NotifyChange();  // Questions that wait for it.
  return {};
}

std::vector<uint64_t> RedisTierCache::TakeQueued(const TierReign& reign, size_t most,
                                                 std::vector<RedisCommand>& commands) {
  std::vector<uint64_t> ids = state_->queue.TakeQueued(most);
  for (const uint64_t id : ids) commands.push_back(InvalidateCommand(reign, *state_->queue.Find(id), {}));
  return ids;
}

bool RedisTierCache::ApplyRetry(uint64_t id, const TierReign& reign, uint64_t applied,
                                const absl::StatusOr<RedisReply>& reply) {
  const SendResult result = ApplyReply(id, reign, applied, reply);
  if (result == SendResult::kAccepted) return true;
  if (result == SendResult::kOtherReign) tier_->RequestHeartbeat();
  const PendingInvalidation& pending = *state_->queue.Find(id);
  if (RedisErrorCode(reply.status()) == "TRYAGAIN" && pending.scope == TierScope::kKey &&
      tier_->clock()->Now() - pending.since >= kMovingSlotPatience) {
    state_->queue.Widen(id);
  }
  state_->queue.Enqueue(id);
  return result == SendResult::kOtherCodecs;
}

std::vector<TierEntryKeys> RedisTierCache::CodecKeys() const {
  std::vector<TierEntryKeys> keys;
  for (const absl::string_view codec : absl::StrSplit(state_->codecs, ' ', absl::SkipEmpty())) {
    keys.emplace_back(tier_->keys(), name_, std::string_view(codec.data(), codec.size()));
  }
  return keys;
}

RedisCommand RedisTierCache::InvalidateCommand(const TierReign& reign, const PendingInvalidation& pending,
                                               std::string_view token, const InvalidationExtra& extra) const {
  std::vector<std::string> keys = {tier_->keys().state, tier_->keys().journal};
  size_t own = 0;
  if (pending.scope == TierScope::kKey) {
    for (const TierEntryKeys& codec : CodecKeys()) {
      if (codec.leases == keys_.leases) own = keys.size() + 2;  // The lease. Lua counts from 1.
      for (std::string& entry : codec.Entry(pending.text)) keys.push_back(std::move(entry));
    }
  }
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  const RedisCacheTierOptions& options = tier_->options();
  const char scope = static_cast<char>(pending.scope);
  const bool repeat = pending.sent_in == reign.ordinal;
  return WithArgs(RedisCommand(TierInvalidateScript(), views), reign.incarnation, pending.operation,
                  options.journal_length, name_, std::string_view(&scope, 1), pending.text, state_->codecs,
                  repeat ? std::to_string(pending.sent_after) : std::string(), own > 0 ? token : std::string_view(),
                  absl::ToInt64Milliseconds(options.lease), own, tier_->publish_command(), extra.mark,
                  extra.fencing_token);
}

RedisTierCache::SendResult RedisTierCache::ApplyReply(uint64_t id, const TierReign& reign, uint64_t applied,
                                                      const absl::StatusOr<RedisReply>& reply) {
  PendingInvalidation& pending = *state_->queue.Find(id);
  const std::span<const RedisReply> parts = PartsOf(reply);
  const std::string_view code = CodeOf(parts);
  if (code == "K" && parts.size() == 5) {
    state_->metrics.Observe(kTierInvalidationSeconds, tier_->clock()->Now() - pending.since);
    state_->metrics.Add(kTierInvalidationsOwn);
    if (NumberAt(parts, 3) == 1) tier_->metrics().Add(kTierTagsDropped);
    state_->queue.Accept(id);
    tier_->RecordAccepted(reign.Expose(NumberAt(parts, 1)));
    return SendResult::kAccepted;
  }
  // A repeat looks for the operation behind the position that was applied before the first attempt that may have run.
  if (RedisOutcomeUnknown(reply.status()) && pending.sent_in != reign.ordinal) {
    pending.sent_in = reign.ordinal;
    pending.sent_after = applied;
  }
  if (code == "R" && parts.size() == 2) {
    state_->codecs = parts[1].text();
    return SendResult::kOtherCodecs;
  }
  return code == "A" || absl::IsAborted(reply.status()) ? SendResult::kOtherReign : SendResult::kFailed;
}

bool RedisTierCache::AwaitAll(Instant deadline) {
  tier_->CheckFork();
  const MutexLock lock(tier_->mutex());
  const InvalidationQueue& queue = state_->queue;
  const uint64_t newest = queue.newest();
  while (queue.AnyUpTo(newest)) {
    if (state_->waits_cancelled) return false;
    if (!tier_->AwaitChange(deadline)) return !queue.AnyUpTo(newest);
  }
  return true;
}

void RedisTierCache::CancelWaits() {
  const MutexLock lock(tier_->mutex());
  state_->waits_cancelled = true;
  tier_->NotifyChange();
}

}  // namespace stockade::cache_internal

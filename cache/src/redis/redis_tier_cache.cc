#include "redis_tier_cache.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "redis_tier_scripts.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

// Callers poll while another process loads: after a quarter of the time that the load has taken so far, within these
// bounds. So they are late by at most a quarter of the load time, and a long load is polled rarely.
constexpr absl::Duration kShortestPoll = absl::Milliseconds(5);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(200);
// Callers that a message will wake poll only in case that it is lost, or that the loader was killed: each time that the
// load's age has doubled, and after a fifth of a lease.
constexpr absl::Duration kShortestPollIfWoken = absl::Milliseconds(50);
constexpr absl::Duration kLongestPollIfWoken = absl::Seconds(1);
constexpr absl::Duration kClosePatience = absl::Milliseconds(100);

int64_t IntegerAt(std::span<const RedisReply> parts, size_t at) { return parts[at].integer(); }

std::vector<absl::StatusOr<RedisReply>> RunAll(RedisTier& tier, const TierReign& reign,
                                               std::span<const RedisCommand> commands, Instant deadline) {
  std::vector<absl::StatusOr<RedisReply>> replies;
  if (commands.size() == 1) {
    // Cheaper than RunMany().
    replies.push_back(tier.calls().Run(commands[0], reign.Call(deadline - tier.clock()->Now())));
    return replies;
  }
  // Other threads use the connection as well, and more than it may have pending would be refused.
  const size_t most = std::max<size_t>(tier.options().redis.max_pending_commands / 4, 1);
  replies.reserve(commands.size());
  while (!commands.empty()) {
    const size_t count = std::min(commands.size(), most);
    for (absl::StatusOr<RedisReply>& reply :
         tier.calls().RunMany(commands.first(count), reign.Call(deadline - tier.clock()->Now()))) {
      replies.push_back(std::move(reply));
    }
    commands = commands.subspan(count);
  }
  return replies;
}

bool ReadPosition(std::string_view text, uint64_t& position) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), position);
  return error == std::errc() && end == text.data() + text.size();
}

// Reads the reply to TierSpace::read_state. False: the state is of another reign, or the codec is not registered.
bool ReadBounds(const absl::StatusOr<RedisReply>& state, TierBounds& bounds) {
  if (!state.ok() || state->elements().size() != 4) return false;
  const std::span<const RedisReply> fields = state->elements();
  uint64_t all = 0;
  if (fields[0].text() != bounds.incarnation || !ReadPosition(fields[1].text(), bounds.newest)) return false;
  if (!fields[2].is_nil() && !ReadPosition(fields[2].text(), all)) return false;
  if (!ReadPosition(fields[3].text(), bounds.oldest)) return false;
  bounds.oldest = std::max(bounds.oldest, all);
  return true;
}

// At least 1 ms if it is positive.
absl::Duration WholeMilliseconds(absl::Duration span) {
  return span > absl::ZeroDuration() ? std::max(absl::Trunc(span, absl::Milliseconds(1)), absl::Milliseconds(1))
                                     : absl::ZeroDuration();
}

}  // namespace

RedisTierCache::~RedisTierCache() {
  if (!tier_->InForkedChild()) tier_->Close(space_);
}

std::vector<TierAnswer> RedisTierCache::Ask(std::span<const TierAsk> questions) {
  tier_->CheckFork();
  const Instant deadline = tier_->clock()->Now() + tier_->options().timeout;
  std::vector<TierAnswer> answers(questions.size());  // All kAway.
  std::vector<size_t> open;
  for (size_t n = 0; n < questions.size(); ++n) {
    if (questions[n].key.size() <= kMaxTierKeyBytes) open.push_back(n);
  }
  // Only the script compares tags and versions.
  const bool may_hit =
      questions.size() == 1 && questions[0].known_version == 0 && !space_->has_tags.load(std::memory_order_relaxed);
  uint64_t beat = 0;
  for (int attempt = may_hit ? 0 : 1; attempt < 4 && !open.empty(); ++attempt) {
    const std::shared_ptr<const TierReign> reign = tier_->AwaitReign(*space_, questions, open, beat, deadline);
    if (reign == nullptr || open.empty()) break;
    if (beat > 0) tier_->AwaitServer(*reign, deadline);
    if (attempt > 0) {
      open = AskOnce(*reign, questions, open, deadline, answers, beat);
    } else if (TryHit(*reign, questions[0].key, deadline, answers[0])) {
      break;
    }
  }
  for (const TierAnswer& answer : answers) space_->metrics.Add(kTierHit + static_cast<size_t>(answer.kind));
  for (const TierAsk& question : questions) {
    if (question.undecodable) space_->metrics.Add(kTierUndecodable);
  }
  return answers;
}

// A transaction of three plain commands costs less than the script.
bool RedisTierCache::TryHit(const TierReign& reign, std::string_view key, Instant deadline, TierAnswer& answer) {
  const std::string record_key = space_->keys.Record(key);
  // A larger one is not read whole.
  const size_t most = kTierHeadBytes + tier_->options().max_value_bytes;
  const RedisCommand commands[] = {space_->read_state, RedisCommand("PTTL").Key(record_key),
                                   RedisCommand("GETRANGE").Key(record_key).Arg(0).Arg(most)};
  const Instant sent = tier_->clock()->Now();
  const auto replies = tier_->calls().RunTransaction(commands, reign.Call(deadline - sent));
  const Instant now = tier_->clock()->Now();
  space_->metrics.ObserveSpan(kTierAskSeconds, sent, now);
  tier_->NoteReply(replies.status());
  if (!replies.ok() || now >= tier_->trusted_until()) return false;
  const auto& [state, life, record] = std::tie((*replies)[0], (*replies)[1], (*replies)[2]);
  TierBounds bounds = {.incarnation = reign.incarnation};
  if (!ReadBounds(state, bounds) || !life.ok() || !record.ok() || record->text().size() > most) return false;
  absl::Duration left;
  const TierValidity validity = JudgeTierRecord(record->text(), bounds, absl::Milliseconds(life->integer()), left);
  if (validity == TierValidity::kTagged) space_->has_tags.store(true, std::memory_order_relaxed);
  if (validity != TierValidity::kValid) return false;
  answer.record = DecodeTierRecord(record->text(), left, reign.Expose(bounds.newest));
  if (!answer.record.has_value()) return false;
  answer.kind = TierAnswer::Kind::kHit;
  return true;
}

std::vector<size_t> RedisTierCache::AskOnce(const TierReign& reign, std::span<const TierAsk> questions,
                                            const std::vector<size_t>& open, Instant deadline,
                                            std::vector<TierAnswer>& answers, uint64_t& beat) {
  const RedisCacheTierOptions& options = tier_->options();
  const std::vector<std::string> tokens = tier_->NewTokens(open.size());
  std::vector<RedisCommand> commands;
  commands.reserve(open.size());
  for (size_t n = 0; n < open.size(); ++n) {
    const TierAsk& ask = questions[open[n]];
    const std::string record = space_->keys.Record(ask.key);
    const std::string lease = space_->keys.Lease(ask.key);
    const std::string waiters = space_->keys.Waiters(ask.key);
    // A refresh waits for nobody.
    const std::string_view inbox = ask.known_version == 0 ? tier_->inbox() : std::string_view();
    commands.push_back(RedisCommand(TierAskScript(), {tier_->keys().state, record, lease, waiters})
                           .Arg(reign.incarnation)
                           .Arg(space_->cache)
                           .Arg(space_->codec)
                           .Arg(tokens[n])
                           .Arg(absl::ToInt64Milliseconds(options.lease))
                           .Arg(ask.known_version == 0 ? std::string() : TierVersionBytes(ask.known_version))
                           .Arg(inbox)
                           .Arg(tier_->probe_command())
                           .Idempotent());
  }
  const Instant sent = tier_->clock()->Now();
  const std::vector<absl::StatusOr<RedisReply>> replies = RunAll(*tier_, reign, commands, deadline);
  space_->metrics.ObserveSpan(kTierAskSeconds, sent, tier_->clock()->Now());

  std::vector<size_t> again;
  bool unregistered = false;
  bool another_reign = false;
  for (size_t n = 0; n < open.size(); ++n) {
    const absl::StatusOr<RedisReply>& reply = replies[n];
    const std::string_view key = questions[open[n]].key;
    tier_->NoteReply(reply.status());
    if (!reply.ok()) {
      if (RedisOutcomeUnknown(reply.status())) {
        tier_->GiveBack(*space_, key, tokens[n]);
        space_->metrics.Add(kTierLeasesReturned);
      }
      if (absl::IsAborted(reply.status())) {
        another_reign = true;
        again.push_back(open[n]);
      }
      continue;
    }
    const std::span<const RedisReply> parts = reply->elements();
    const std::string_view code = parts.empty() ? std::string_view() : parts[0].text();
    if (code == "A" || code == "R") {
      (code == "A" ? another_reign : unregistered) = true;
      again.push_back(open[n]);
      continue;
    }
    TierAnswer& answer = answers[open[n]];
    const bool busy = code == "B" && parts.size() == 7;
    const bool granted = code == "G" && parts.size() == 4;
    if (!busy && !granted && (code != "H" || parts.size() != 4)) continue;
    const uint64_t position = reign.Expose(static_cast<uint64_t>(IntegerAt(parts, 1)));
    if (!parts[3].is_nil()) {
      answer.record = DecodeTierRecord(parts[3].text(), absl::Milliseconds(IntegerAt(parts, 2)), position);
    }
    if (granted) {
      answer.kind = TierAnswer::Kind::kGranted;
      answer.lease = {.token = tokens[n], .position = position};
      tier_->Hold(*space_, tokens[n],
                  {.key = space_->keys.Lease(key),
                   .reign = reign.ordinal,
                   .renew_at = sent + options.lease / 4,
                   .give_up_at = sent + options.max_load});
    } else if (busy) {
      answer.kind = TierAnswer::Kind::kBusy;
      const absl::Duration age = absl::Milliseconds(IntegerAt(parts, 5));
      const absl::Duration longest =
          std::clamp<absl::Duration>(options.lease / 5, kShortestPollIfWoken, kLongestPollIfWoken);
      const absl::Duration poll = IntegerAt(parts, 6) == 1 ? std::clamp(age, kShortestPollIfWoken, longest)
                                                           : std::clamp(age / 4, kShortestPoll, kLongestPoll);
      const absl::Duration lapsed = absl::Milliseconds(IntegerAt(parts, 4)) + options.lease * (tier_->Share() / 10);
      answer.retry_after =
          std::max(std::min<absl::Duration>(poll * (0.8 + 0.4 * tier_->Share()), lapsed), absl::Milliseconds(1));
    } else if (answer.record && tier_->clock()->Now() < tier_->trusted_until()) {
      // Without trust, a server that accepts no writes may be one that was replaced: a question writes nothing.
      answer.kind = TierAnswer::Kind::kHit;
    }
  }
  if (another_reign) beat = tier_->RequestBeat();
  if (unregistered) tier_->Register(*space_, reign, deadline - tier_->clock()->Now());
  return again;
}

bool RedisTierCache::Storable(const TierFill& fill) const {
  return fill.ttl > absl::ZeroDuration() && fill.bytes.size() <= tier_->options().max_value_bytes &&
         fill.tags.size() <= kMaxTierTags &&
         std::all_of(fill.tags.begin(), fill.tags.end(),
                     [](const std::string& tag) { return tag.size() <= kMaxTierTagBytes; });
}

std::vector<TierFilled> RedisTierCache::Fill(std::span<const TierFill> fills) {
  tier_->CheckFork();
  const RedisCacheTierOptions& options = tier_->options();
  const Instant begun = tier_->clock()->Now();
  std::vector<TierFilled> results(fills.size());  // All kAway.
  const std::shared_ptr<const TierReign> reign = tier_->ReignNow();
  std::vector<RedisCommand> commands;
  std::vector<size_t> sent;
  for (size_t n = 0; n < fills.size(); ++n) {
    const TierFill& fill = fills[n];
    if (fill.lease.token.size() != kTierTokenBytes) {
      results[n].kind = TierFilled::Kind::kRefused;
      continue;
    }
    tier_->Unhold(*space_, fill.lease.token);
    if (reign == nullptr) continue;
    if (fill.lease.position >> TierReign::kPositionBits != reign->ordinal) {
      results[n].kind = TierFilled::Kind::kRefused;
      continue;
    }
    sent.push_back(n);
    if (!fill.tags.empty()) space_->has_tags.store(true, std::memory_order_relaxed);
    if (!Storable(fill)) {
      commands.push_back(tier_->EndCommand(*space_, fill.key, fill.lease.token, true));
      continue;
    }
    const absl::Duration ttl = WholeMilliseconds(std::min<absl::Duration>(fill.ttl, options.max_ttl));
    const absl::Duration grace = WholeMilliseconds(std::min<absl::Duration>(fill.grace, options.max_ttl - ttl));
    const uint64_t position = fill.lease.position & ((uint64_t{1} << TierReign::kPositionBits) - 1);
    const std::string record = space_->keys.Record(fill.key);
    const std::string lease = space_->keys.Lease(fill.key);
    const std::string waiters = space_->keys.Waiters(fill.key);
    commands.push_back(
        RedisCommand(TierFillScript(), {tier_->keys().state, record, lease, waiters})
            .Arg(reign->incarnation)
            .Arg(space_->cache)
            .Arg(space_->codec)
            .Arg(fill.lease.token)
            .Arg(absl::ToInt64Milliseconds(ttl + grace))
            .Arg(EncodeTierRecord({.incarnation = reign->incarnation, .position = position, .token = fill.lease.token},
                                  fill, ttl, grace))
            .Arg(tier_->publish_command())
            .Idempotent());
  }
  if (!commands.empty()) {
    const std::vector<absl::StatusOr<RedisReply>> replies = RunAll(*tier_, *reign, commands, begun + options.timeout);
    space_->metrics.ObserveSpan(kTierFillSeconds, begun, tier_->clock()->Now());
    for (size_t n = 0; n < sent.size(); ++n) {
      const TierFill& fill = fills[sent[n]];
      TierFilled& result = results[sent[n]];
      tier_->NoteReply(replies[n].status());
      if (!replies[n].ok()) {
        if (absl::IsAborted(replies[n].status())) {
          tier_->RequestBeat();
        } else {
          tier_->GiveBack(*space_, fill.key, fill.lease.token);  // The lease may still be there.
        }
        continue;
      }
      const RedisReply& reply = *replies[n];
      const std::string_view code = reply.elements().empty() ? std::string_view() : reply.elements()[0].text();
      if (code == "K" && reply.elements().size() == 2) {
        result = {.kind = TierFilled::Kind::kStored,
                  .position = reign->Expose(static_cast<uint64_t>(reply.elements()[1].integer())),
                  .version = TierVersionOf(fill.lease.token)};
      } else if (code == "U" || reply.integer() == 1) {
        result = {.kind = TierFilled::Kind::kUnstored, .position = fill.lease.position};
      } else {
        result.kind = TierFilled::Kind::kRefused;
        if (code == "A") tier_->RequestBeat();
      }
    }
  }
  for (const TierFilled& result : results) space_->metrics.Add(kTierStored + static_cast<size_t>(result.kind));
  return results;
}

void RedisTierCache::Fail(std::string_view key, const TierLease& lease) {
  tier_->CheckFork();
  if (lease.token.size() != kTierTokenBytes) return;
  tier_->Unhold(*space_, lease.token);
  if (tier_->ReignNow() != nullptr) tier_->GiveBack(*space_, key, lease.token);
}

uint64_t RedisTierCache::Queue(const TierTarget& target) {
  tier_->CheckFork();
  return tier_->Queue(*space_, target);
}

TierInvalidated RedisTierCache::Await(uint64_t queued, bool with_lease) {
  tier_->CheckFork();
  return tier_->Await(*space_, queued, with_lease);
}

bool RedisTierCache::AwaitAll(Instant deadline) {
  tier_->CheckFork();
  return tier_->AwaitAll(*space_, deadline);
}

void RedisTierCache::CancelWaits() { tier_->CancelWaits(*space_); }

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

}  // namespace stockade::cache_internal

#include "redis_tier_cache.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "redis_tier_scripts.h"

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

}  // namespace stockade::cache_internal

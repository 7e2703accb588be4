#include "redlock_engine.h"

#include <algorithm>
#include <future>
#include <set>
#include <utility>

#include "redis_lock_keys.h"
#include "redlock_round.h"
#include "redlock_watch.h"
#include "status.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_status.h"
#include "stockade/redis/redis_url.h"

namespace stockade::locks_internal {
namespace {

// When to retry without a hint. The pause is random, so that tries that collided do not collide again: up to
// kSplitPause if no other client can have had a majority, and from there to kHeldPause if one had it, or several shared
// it.
constexpr absl::Duration kLeastPause = absl::Milliseconds(10);
constexpr absl::Duration kSplitPause = absl::Milliseconds(100);
constexpr absl::Duration kHeldPause = absl::Milliseconds(500);

// How many node_timeouts the undo of a try may take.
constexpr int kUndoTimeouts = 10;

// Steps are numbered twice as far apart as the service does it, so that each try has a number for what takes it back.
constexpr uint64_t StepNumber(uint64_t sequence) { return 2 * sequence; }
constexpr uint64_t UndoNumber(uint64_t sequence) { return 2 * sequence + 1; }

// An error of the server's is an answer, too.
bool Answered(const absl::StatusOr<RedisReply>& reply) { return reply.ok() || !RedisErrorCode(reply.status()).empty(); }

absl::StatusOr<std::vector<std::string>> EndpointsOf(std::span<const std::string> urls) {
  if (urls.size() < 3 || urls.size() % 2 == 0) {
    return absl::InvalidArgumentError(
        Concat("RedlockService needs an odd number of servers, at least 3, not ", urls.size()));
  }
  std::vector<std::string> endpoints;
  std::set<std::string> servers;
  for (const std::string& text : urls) {
    const absl::StatusOr<RedisUrl> url = ParseRedisUrl(text);
    if (!url.ok()) return url.status();
    const std::string server = url->endpoints.front().ToString();
    if (url->kind != RedisUrl::Kind::kStandalone) {
      return absl::InvalidArgumentError(Concat("RedlockService needs independent servers, not ", Redacted(*url)));
    }
    if (!servers.insert(server).second) {
      return absl::InvalidArgumentError(Concat("RedlockService got server ", server, " twice"));
    }
    endpoints.push_back(Concat(server, "/", url->database));
  }
  std::sort(endpoints.begin(), endpoints.end());
  return endpoints;
}

std::string IdOf(const std::vector<std::string>& endpoints) {
  std::string id = "redlock ";
  for (size_t i = 0; i < endpoints.size(); ++i) id += (i == 0 ? "" : ",") + endpoints[i];
  return id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedlockEngine>> RedlockEngine::Connect(std::span<const std::string> urls,
                                                                      const RedlockOptions& options) {
  const absl::StatusOr<std::vector<std::string>> endpoints = EndpointsOf(urls);
  if (!endpoints.ok()) return endpoints.status();
  std::unique_ptr<RedlockEngine> engine(new RedlockEngine(IdOf(*endpoints), urls.size(), options.node_timeout));
  const absl::Status begun = engine->Begin(urls, options.redis);
  if (!begun.ok()) return begun;
  const absl::Status connected = engine->AwaitMajority(options.redis.connect_timeout);
  if (!connected.ok()) return connected;
  return engine;
}

RedlockEngine::RedlockEngine(std::string id, size_t nodes, absl::Duration node_timeout)
    : id_(std::move(id)),
      node_timeout_(node_timeout),
      commands_({.client_id = NewRedisLockClientId(), .tokens = false}),
      random_(std::random_device{}()),
      away_(nodes) {}

absl::Status RedlockEngine::Begin(std::span<const std::string> urls, RedisOptions options) {
  options.callback_executor = &on_their_threads_;
  options.wait_for_connection = false;
  for (const std::string& url : urls) {
    absl::StatusOr<std::unique_ptr<RedisClient>> node = RedisClient::Connect(url, options);
    if (!node.ok()) return node.status();
    nodes_.push_back(*std::move(node));
  }
  return absl::OkStatus();
}

absl::Status RedlockEngine::AwaitMajority(absl::Duration timeout) {
  const auto round = std::make_shared<Round<HoldPoll>>(nodes_.size());
  round->Add(HoldPoll(nodes_.size()));
  SendToAll(RedisCommand("PING").Idempotent(), timeout, [round](size_t node, const Reply& pong) {
    const absl::Status status = Answered(pong) ? absl::OkStatus() : pong.status();
    round->Take(0, node, [&](HoldPoll& poll) { poll.Count(status, false, true); });
  });
  absl::Status status;
  round->Await([&](size_t, const HoldPoll& poll) {
    if (poll.votes.Decided() == HoldVotes::Outcome::kHeld) return;
    status =
        absl::UnavailableError(Concat(id_, ": ", poll.failures.Error(poll.votes.answered(), nodes_.size()).message()));
  });
  return status;
}

void RedlockEngine::SendTo(size_t node, RedisCommand command, absl::Duration timeout, Answer answer) {
  nodes_[node]->RunAsync(std::move(command),
                         [this, node, answer = std::move(answer)](const Reply& reply) {
                           away_[node].store(!Answered(reply), std::memory_order_relaxed);
                           answer(node, reply);
                         },
                         {.timeout = timeout});
}

void RedlockEngine::SendToAll(const RedisCommand& command, absl::Duration timeout, const Answer& answer) {
  std::vector<size_t> away;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (away_[i].load(std::memory_order_relaxed)) away.push_back(i);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) SendTo(i, command, timeout, answer);
  if (nodes_.size() - away.size() < MajorityOf(nodes_.size())) return;
  for (const size_t i : away) {
    answer(i, WithUnknownOutcome(absl::UnavailableError("it has not answered yet and did not answer the last time")));
  }
}

void RedlockEngine::TryMany(std::span<LockTry> tries) {
  const auto round = std::make_shared<Round<TryPoll>>(nodes_.size());
  for (LockTry& step : tries) round->Add(TryPoll(step, nodes_.size()));
  for (size_t i = 0; i < tries.size(); ++i) {
    LockTry numbered = tries[i];
    numbered.sequence = StepNumber(numbered.sequence);
    SendToAll(commands_.Try(numbered), std::min(node_timeout_, numbered.timeout),
              [round, i](size_t node, const Reply& reply) {
                round->Take(i, node, [&](TryPoll& poll) { poll.Count(node, reply); });
              });
  }
  std::vector<std::function<void()>> take_backs;
  round->Await([&](size_t i, const TryPoll& poll) {
    LockTry& step = tries[i];
    const TryVotes& votes = poll.votes;
    const bool unknown = votes.granted() > 0 || votes.missing() > 0 || poll.failures.outcome_unknown;
    step.status = absl::OkStatus();
    step.outcome_unknown = false;
    step.acquired = votes.Decided() == TryVotes::Outcome::kAcquired;
    if (step.acquired) {
      step.hold_count = votes.hold_count();
    } else if (votes.Decided() == TryVotes::Outcome::kUnreachable) {
      // What has been granted the service takes back, once it has given up.
      step.status = poll.failures.Error(votes.granted() + votes.refused(), nodes_.size());
      step.outcome_unknown = unknown;
    } else {
      const bool split = votes.refused() < votes.majority();
      const absl::Duration pause = split ? RandomPause(kLeastPause, kSplitPause) : RandomPause(kSplitPause, kHeldPause);
      step.retry_after = std::min(pause, votes.lapses_after());
      if (!unknown) return;
      // What an owner without a hold had there before is of tries that were not taken back everywhere.
      const int64_t keep = step.first ? 0 : votes.count_before();
      take_backs.push_back([this, &step, keep, refused = poll.refused] { UndoTry(step, keep, refused); });
    }
  });
  // Answers may come while they are sent, and want the round's mutex.
  for (const auto& take_back : take_backs) take_back();
}

void RedlockEngine::UndoTry(const LockTry& step, int64_t keep, const std::vector<bool>& refused) {
  const RedisCommand command = commands_.Release(
      {.hold = step.hold, .keep = keep, .sequence = UndoNumber(step.sequence), .repeated = true, .gives_up = true});
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // Nobody waits: whatever comes next to a server comes after it, and what fails here lapses. It may be late, and
    // still need the script, which the server may not know; but a connection is not given up while it is waited for.
    if (!refused[i])
      SendTo(i, command, std::min(step.lease, kUndoTimeouts * node_timeout_), [](size_t, const Reply&) {});
  }
}

void RedlockEngine::RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) {
  const auto round = std::make_shared<Round<HoldPoll>>(nodes_.size());
  for (size_t i = 0; i < renewals.size(); ++i) round->Add(HoldPoll(nodes_.size()));
  for (size_t first = 0; first < renewals.size(); first += kMostRenewalsACommand) {
    const std::span<LockRenewal> asked =
        renewals.subspan(first).first(std::min(kMostRenewalsACommand, renewals.size() - first));
    // Of its own: answers may come when the caller's are gone.
    const auto batch = std::make_shared<std::vector<LockRenewal>>(asked.begin(), asked.end());
    for (LockRenewal& renewal : *batch) renewal.sequence = StepNumber(renewal.sequence);
    std::vector<const LockRenewal*> pointers;
    for (const LockRenewal& renewal : *batch) pointers.push_back(&renewal);
    SendToAll(commands_.Renew(pointers), std::min(node_timeout_, timeout),
              [round, batch, first](size_t node, const Reply& reply) {
                std::vector<LockRenewal> answers = *batch;
                std::vector<LockRenewal*> to_fill;
                to_fill.reserve(answers.size());
                for (LockRenewal& answer : answers) to_fill.push_back(&answer);
                RedisLockCommands::TakeAnswer(reply, to_fill);
                for (size_t i = 0; i < answers.size(); ++i) {
                  round->Take(first + i, node,
                              [&](HoldPoll& poll) { poll.Count(answers[i].status, false, answers[i].held); });
                }
              });
  }
  round->Await([&](size_t i, const HoldPoll& poll) {
    const HoldVotes::Outcome outcome = *poll.votes.Decided();
    renewals[i].held = outcome == HoldVotes::Outcome::kHeld;
    renewals[i].status = outcome == HoldVotes::Outcome::kUnknown
                             ? poll.failures.Error(poll.votes.answered(), nodes_.size())
                             : absl::OkStatus();
  });
}

void RedlockEngine::ReleaseMany(std::span<LockRelease> releases) {
  const auto round = std::make_shared<Round<HoldPoll>>(nodes_.size());
  for (size_t i = 0; i < releases.size(); ++i) round->Add(HoldPoll(nodes_.size()));
  for (size_t i = 0; i < releases.size(); ++i) {
    LockRelease numbered = releases[i];
    numbered.sequence = StepNumber(numbered.sequence);
    SendToAll(commands_.Release(numbered), std::min(node_timeout_, numbered.timeout),
              [round, numbered, i](size_t node, const Reply& reply) {
                LockRelease answer = numbered;
                RedisLockCommands::TakeAnswer(reply, answer);
                round->Take(i, node,
                            [&](HoldPoll& poll) { poll.Count(answer.status, answer.outcome_unknown, answer.held); });
              });
  }
  round->Await([&](size_t i, const HoldPoll& poll) {
    LockRelease& release = releases[i];
    const HoldVotes& votes = poll.votes;
    // If a majority has answered, others can get the lock, though the hold may remain at servers that did not answer.
    release.held = votes.Decided() != HoldVotes::Outcome::kLost;
    release.status =
        votes.answered() >= votes.majority() ? absl::OkStatus() : poll.failures.Error(votes.answered(), nodes_.size());
    release.outcome_unknown = !release.status.ok() && (votes.answered() > 0 || poll.failures.outcome_unknown);
  });
}

std::vector<RedlockEngine::Reply> RedlockEngine::AskAll(const RedisCommand& command, absl::Duration timeout) {
  std::vector<std::future<Reply>> answers;
  answers.reserve(nodes_.size());
  for (const std::unique_ptr<RedisClient>& node : nodes_) {
    answers.push_back(node->RunFuture(command, {.timeout = std::min(node_timeout_, timeout)}));
  }
  std::vector<Reply> replies;
  replies.reserve(answers.size());
  for (std::future<Reply>& answer : answers) replies.push_back(answer.get());
  return replies;
}

absl::StatusOr<LockState> RedlockEngine::Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) {
  const size_t majority = MajorityOf(nodes_.size());
  std::vector<absl::Duration> free_after;
  std::vector<int64_t> holds;
  LockKind kind = LockKind::kReentrant;
  Failures failures;
  for (const Reply& reply : AskAll(commands_.Inspect(name, owner), timeout)) {
    const absl::StatusOr<LockState> state = RedisLockCommands::InspectAnswer(reply, name);
    if (!state.ok()) {
      failures.Note(state.status(), false);
      continue;
    }
    free_after.push_back(state->locked ? state->remaining : absl::ZeroDuration());
    kind = std::max(kind, state->kind);
    holds.push_back(state->owner_holds);
  }
  if (holds.size() < majority) return failures.Error(holds.size(), nodes_.size());
  // It is free where a majority is.
  std::sort(free_after.begin(), free_after.end());
  std::sort(holds.begin(), holds.end(), std::greater<>());
  const absl::Duration remaining = free_after[majority - 1];
  return LockState{.locked = remaining > absl::ZeroDuration(),
                   .kind = kind,
                   .owner_holds = holds[majority - 1],
                   .remaining = remaining};
}

absl::StatusOr<std::optional<LockKind>> RedlockEngine::ForceRelease(std::string_view name, absl::Duration timeout) {
  size_t answered = 0;
  std::optional<LockKind> held;
  Failures failures;
  for (const Reply& reply : AskAll(commands_.ForceRelease(name), timeout)) {
    const absl::StatusOr<std::optional<LockKind>> released = RedisLockCommands::ForceReleaseAnswer(reply, name);
    if (released.ok()) {
      ++answered;
      if (*released) held = *released;
    } else {
      failures.Note(released.status(), false);
    }
  }
  if (answered < MajorityOf(nodes_.size())) return failures.Error(answered, nodes_.size());
  return held;
}

std::unique_ptr<LockWatch> RedlockEngine::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  return WatchQuorum(nodes_, commands_.Channel(hold), std::move(on_hint));
}

absl::Duration RedlockEngine::RandomPause(absl::Duration least, absl::Duration most) {
  const MutexLock lock(random_mutex_);
  return least + (most - least) * std::uniform_real_distribution<double>(0, 1)(random_);
}

}  // namespace stockade::locks_internal

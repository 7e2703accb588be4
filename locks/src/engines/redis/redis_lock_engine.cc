#include "redis_lock_engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "key_slot.h"
#include "redis_lock_keys.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_url.h"

namespace stockade::locks_internal {
namespace {

// "redis 127.0.0.1:6379/0", "redis mymaster@10.0.0.1:26379,10.0.0.2:26379/0".
std::string IdOf(const RedisUrl& url) {
  std::vector<std::string> endpoints;
  endpoints.reserve(url.endpoints.size());
  for (const RedisEndpoint& endpoint : url.endpoints) endpoints.push_back(endpoint.ToString());
  std::sort(endpoints.begin(), endpoints.end());
  std::string id = url.master_name.empty() ? "redis " : Concat("redis ", url.master_name, "@");
  for (size_t i = 0; i < endpoints.size(); ++i) id += (i == 0 ? "" : ",") + endpoints[i];
  return Concat(id, "/", url.database);
}

class Subscribed final : public LockWatch {
 public:
  explicit Subscribed(RedisSubscription subscription) : subscription_(std::move(subscription)) {}

 private:
  RedisSubscription subscription_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RedisLockEngine>> RedisLockEngine::Connect(std::string_view url,
                                                                          const RedisLockOptions& options) {
  const absl::StatusOr<RedisUrl> parsed = ParseRedisUrl(url);
  if (!parsed.ok()) return parsed.status();
  RedisOptions redis = options.redis;
  redis.callback_executor = nullptr;
  absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(url, std::move(redis));
  if (!client.ok()) return client.status();
  RedisLockDialect dialect = {.client_id = NewRedisLockClientId(),
                              .publish_command = std::string((*client)->publish_command()),
                              .token_retention = options.token_retention};
  return std::unique_ptr<RedisLockEngine>(new RedisLockEngine(
      *std::move(client), IdOf(*parsed), parsed->kind == RedisUrl::Kind::kCluster, std::move(dialect), options));
}

RedisLockEngine::RedisLockEngine(std::unique_ptr<RedisClient> client, std::string id, bool cluster,
                                 RedisLockDialect dialect, const RedisLockOptions& options)
    : client_(std::move(client)),
      id_(std::move(id)),
      cluster_(cluster),
      client_id_(dialect.client_id),
      commands_(std::move(dialect)),
      min_replicas_(options.min_replicas),
      replica_timeout_(options.replica_timeout) {}

void RedisLockEngine::TryMany(std::span<LockTry> tries) {
  if (tries.empty()) return;
  absl::Duration timeout;
  for (const LockTry& step : tries) timeout = std::max(timeout, step.timeout);
  const Instant deadline = Clock::System()->Now() + timeout;
  if (tries.size() == 1) {
    RedisLockCommands::TakeAnswer(client_->Run(commands_.Try(tries[0]), {.timeout = timeout}), tries[0]);
  } else {
    std::vector<RedisCommand> commands;
    for (const LockTry& step : tries) commands.push_back(commands_.Try(step));
    const std::vector<absl::StatusOr<RedisReply>> replies = client_->RunMany(commands, {.timeout = timeout});
    for (size_t i = 0; i < tries.size(); ++i) RedisLockCommands::TakeAnswer(replies[i], tries[i]);
  }
  if (min_replicas_ > 0) AwaitReplicas(tries, deadline);
}

// WAIT counts the replicas that have all that its connection has written. That may be another than the try's, so there
// is a write before it, which comes after the try in the server's order, and finds out whether the hold is still there.
void RedisLockEngine::AwaitReplicas(std::span<LockTry> tries, Instant deadline) {
  std::vector<LockTry*> acquired;
  std::vector<LockRenewal> renewals;
  for (LockTry& step : tries) {
    if (!step.status.ok() || !step.acquired) continue;
    acquired.push_back(&step);
    renewals.push_back({.hold = step.hold, .lease = step.lease});
  }
  const std::vector<Batch> batches = BatchesOf(renewals);
  std::vector<RedisCommand> commands;
  for (const Batch& batch : batches) {
    commands.push_back(commands_.Renew(batch));
    commands.push_back(RedisCommand("WAIT")
                           .Arg(min_replicas_)
                           .Arg(absl::ToInt64Milliseconds(replica_timeout_))
                           .RouteBy(batch[0]->hold.name));
  }
  const absl::Duration left = std::max(deadline - Clock::System()->Now(), absl::ZeroDuration()) + replica_timeout_;
  const std::vector<absl::StatusOr<RedisReply>> replies = client_->RunMany(commands, {.timeout = left});
  for (size_t i = 0; i < batches.size(); ++i) {
    RedisLockCommands::TakeAnswer(replies[2 * i], batches[i]);
    const absl::StatusOr<RedisReply>& replicas = replies[2 * i + 1];
    for (LockRenewal* const renewal : batches[i]) {
      absl::Status why = renewal->status.ok() ? replicas.status() : renewal->status;
      if (why.ok() && !renewal->held) why = absl::UnavailableError("it was lost while replicas had to confirm it");
      if (why.ok() && replicas->integer() < min_replicas_) {
        why = absl::UnavailableError(Concat(replicas->integer(), " of ", min_replicas_,
                                            " replicas confirmed it within ", absl::FormatDuration(replica_timeout_)));
      }
      if (why.ok()) continue;
      LockTry& step = *acquired[static_cast<size_t>(renewal - renewals.data())];
      step.refused = renewal->status.ok() && renewal->held && replicas.ok();
      UndoTry(step, why, left);
    }
  }
}

void RedisLockEngine::UndoTry(LockTry& step, const absl::Status& why, absl::Duration timeout) {
  // Under the try's own number, which is then refused when it comes again.
  LockRelease back = {.hold = step.hold,
                      .keep = step.hold_count - 1,
                      .sequence = step.sequence,
                      .repeated = true,
                      .gives_up = true,
                      .timeout = timeout};
  Release(back);
  step.acquired = false;
  step.hold_count = 0;
  step.fencing_token.reset();
  step.status = LockError(step.hold.name, why);
  step.outcome_unknown = !back.status.ok();
}

void RedisLockEngine::RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) {
  const std::vector<Batch> batches = BatchesOf(renewals);
  std::vector<RedisCommand> commands;
  commands.reserve(batches.size());
  for (const Batch& batch : batches) commands.push_back(commands_.Renew(batch));
  const std::vector<absl::StatusOr<RedisReply>> replies = client_->RunMany(commands, {.timeout = timeout});
  for (size_t i = 0; i < batches.size(); ++i) RedisLockCommands::TakeAnswer(replies[i], batches[i]);
}

std::vector<RedisLockEngine::Batch> RedisLockEngine::BatchesOf(std::span<LockRenewal> renewals) const {
  std::vector<Batch> batches;
  std::map<uint16_t, size_t> filling;  // By slot: the place in `batches`.
  for (LockRenewal& renewal : renewals) {
    const uint16_t slot = cluster_ ? KeySlot(renewal.hold.name) : uint16_t{0};
    const auto [entry, is_new] = filling.try_emplace(slot, batches.size());
    if (is_new || batches[entry->second].size() == kMostRenewalsACommand) {
      entry->second = batches.size();
      batches.emplace_back();
    }
    batches[entry->second].push_back(&renewal);
  }
  return batches;
}

void RedisLockEngine::ReleaseMany(std::span<LockRelease> releases) {
  if (releases.size() == 1) {
    LockRelease& release = releases[0];
    RedisLockCommands::TakeAnswer(client_->Run(commands_.Release(release), {.timeout = release.timeout}), release);
    return;
  }
  absl::Duration timeout;
  std::vector<RedisCommand> commands;
  commands.reserve(releases.size());
  for (const LockRelease& release : releases) {
    timeout = std::max(timeout, release.timeout);
    commands.push_back(commands_.Release(release));
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = client_->RunMany(commands, {.timeout = timeout});
  for (size_t i = 0; i < releases.size(); ++i) RedisLockCommands::TakeAnswer(replies[i], releases[i]);
}

absl::StatusOr<LockState> RedisLockEngine::Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) {
  return RedisLockCommands::InspectAnswer(client_->Run(commands_.Inspect(name, owner), {.timeout = timeout}), name);
}

absl::StatusOr<std::optional<LockKind>> RedisLockEngine::ForceRelease(std::string_view name, absl::Duration timeout) {
  return RedisLockCommands::ForceReleaseAnswer(client_->Run(commands_.ForceRelease(name), {.timeout = timeout}), name);
}

std::unique_ptr<LockWatch> RedisLockEngine::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  absl::StatusOr<RedisSubscription> subscription = client_->Subscribe(
      commands_.Channel(hold), {.on_message = [on_hint](std::string_view) { on_hint(); }, .on_subscribed = on_hint});
  // Out of channels: retry_after must do.
  if (!subscription.ok()) return nullptr;
  return std::make_unique<Subscribed>(*std::move(subscription));
}

}  // namespace stockade::locks_internal

#include "redis_lock_engine.h"

#include <algorithm>
#include <map>
#include <utility>

#include "key_slot.h"
#include "redis_lock_keys.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_url.h"

namespace stockade::internal {
namespace {

// One script's work on the server is to stay below a millisecond.
constexpr size_t kMostRenewalsACommand = 100;

// "redis 127.0.0.1:6379/0", "redis mymaster@10.0.0.1:26379,10.0.0.2:26379/0".
std::string IdOf(const RedisUrl& url) {
  std::vector<std::string> endpoints;
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
      *std::move(client), IdOf(*parsed), parsed->kind == RedisUrl::Kind::kCluster, std::move(dialect)));
}

RedisLockEngine::RedisLockEngine(std::unique_ptr<RedisClient> client, std::string id, bool cluster,
                                 RedisLockDialect dialect)
    : client_(std::move(client)),
      id_(std::move(id)),
      cluster_(cluster),
      client_id_(dialect.client_id),
      commands_(std::move(dialect)) {}

void RedisLockEngine::TryMany(std::span<LockTry> tries) {
  if (tries.empty()) return;
  if (tries.size() == 1) {
    RedisLockCommands::TakeAnswer(client_->Run(commands_.Try(tries[0]), {.timeout = tries[0].timeout}), tries[0]);
    return;
  }
  std::vector<RedisCommand> commands;
  absl::Duration timeout;
  for (const LockTry& step : tries) {
    commands.push_back(commands_.Try(step));
    timeout = std::max(timeout, step.timeout);
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = client_->RunMany(commands, {.timeout = timeout});
  for (size_t i = 0; i < tries.size(); ++i) RedisLockCommands::TakeAnswer(replies[i], tries[i]);
}

void RedisLockEngine::RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) {
  // The keys of one command are in one slot; a single server has none.
  std::map<uint16_t, std::vector<LockRenewal*>> slots;
  for (LockRenewal& renewal : renewals) slots[cluster_ ? KeySlot(renewal.hold.name) : 0].push_back(&renewal);
  std::vector<std::span<LockRenewal* const>> batches;
  std::vector<RedisCommand> commands;
  for (const auto& [slot, of_slot] : slots) {
    for (std::span<LockRenewal* const> rest = of_slot; !rest.empty();) {
      batches.push_back(rest.first(std::min(rest.size(), kMostRenewalsACommand)));
      rest = rest.subspan(batches.back().size());
      commands.push_back(commands_.Renew(batches.back()));
    }
  }
  const std::vector<absl::StatusOr<RedisReply>> replies = client_->RunMany(commands, {.timeout = timeout});
  for (size_t i = 0; i < batches.size(); ++i) RedisLockCommands::TakeAnswer(replies[i], batches[i]);
}

void RedisLockEngine::Release(LockRelease& release) {
  RedisLockCommands::TakeAnswer(client_->Run(commands_.Release(release), {.timeout = release.timeout}), release);
}

absl::StatusOr<LockState> RedisLockEngine::Inspect(const HoldKey& hold, absl::Duration timeout) {
  return RedisLockCommands::InspectAnswer(client_->Run(commands_.Inspect(hold), {.timeout = timeout}), hold);
}

absl::StatusOr<bool> RedisLockEngine::ForceRelease(std::string_view name, LockKind kind, absl::Duration timeout) {
  return RedisLockCommands::ForceReleaseAnswer(client_->Run(commands_.ForceRelease(name, kind), {.timeout = timeout}),
                                               name);
}

std::unique_ptr<LockWatch> RedisLockEngine::Watch(const HoldKey& hold, std::function<void()> on_hint) {
  absl::StatusOr<RedisSubscription> subscription = client_->Subscribe(
      commands_.Channel(hold), {.on_message = [on_hint](std::string_view) { on_hint(); }, .on_subscribed = on_hint});
  // Out of channels: retry_after must do.
  if (!subscription.ok()) return nullptr;
  return std::make_unique<Subscribed>(*std::move(subscription));
}

}  // namespace stockade::internal

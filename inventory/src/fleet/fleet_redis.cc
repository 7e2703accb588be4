#include <algorithm>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "fleet_dispenser.h"
#include "stockade/base/backoff.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/mutex.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"
#include "stockade/redis/redis_url.h"

namespace stockade::inventory_internal {
namespace {

// How long a node is left alone after an error; until then its lanes pay from the ledger's segments.
constexpr absl::Duration kFirstRetry = absl::Milliseconds(200);
constexpr absl::Duration kLongestRetry = absl::Seconds(5);

// Counters of a node of which it is logged that they cannot be used.
constexpr size_t kMaxLogged = 1000;

// Names in the table `nodes`.
constexpr size_t kMaxNameBytes = 1024;

// Lua's numbers are exact up to this one.
constexpr int64_t kMaxGeneration = int64_t{1} << 52;

// A counter is a hash: g, its generation; f, the number of its last fill; and a field that is named like the
// generation, its units. It expires an hour after its last fill, which costs nothing: its units are in the row of
// stock.
//
// KEYS: the counter. ARGV: the least generation, the units wanted. Takes all of them or none. Returns the units left if
// they are of the least generation; otherwise the generation, the units given and the units left. A lane nearly always
// knows the generation, so that one command takes the units and checks it.
const RedisScript& TakeScript() {
  static const RedisScript& script = *new RedisScript(R"lua(
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], '-' .. ARGV[2])
if left >= 0 then return left end
local want = tonumber(ARGV[2])
if left == -want then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
end
local generation = redis.call('HGET', KEYS[1], 'g') or '0'
local g, n = tonumber(generation), tonumber(redis.call('HGET', KEYS[1], generation) or 0)
if g <= tonumber(ARGV[1]) or n < want then return {g, 0, n} end
return {g, want, redis.call('HINCRBY', KEYS[1], generation, '-' .. ARGV[2])}
)lua");
  return script;
}

// KEYS: the counter. ARGV: the generation, the number of the fill, its units. A later generation replaces the counter,
// and each fill counts once. Returns whether it did, also to a repeat.
const RedisScript& FillScript() {
  static const RedisScript& script = *new RedisScript(R"lua(
local counter = redis.call('HMGET', KEYS[1], 'g', 'f')
local g, f = tonumber(counter[1] or 0) or 0, tonumber(counter[2] or 0) or 0
local generation, fill = tonumber(ARGV[1]), tonumber(ARGV[2])
if g == generation and f == fill then return 1 end
if g > generation or (g == generation and f >= fill) then return 0 end
if g < generation then redis.call('DEL', KEYS[1]) end
redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[3])
redis.call('HSET', KEYS[1], 'g', ARGV[1], 'f', ARGV[2])
redis.call('PEXPIRE', KEYS[1], 3600000)
return 1
)lua");
  return script;
}

// Whether the server has refused the command because of the key that it names.
bool IsOfKey(const absl::Status& status) { return absl::IsFailedPrecondition(status) || absl::IsUnknown(status); }

// Not OK: of the counter if IsOfKey(), otherwise of the node.
absl::StatusOr<FleetDispenser::Got> GotOf(const absl::StatusOr<RedisReply>& reply, const FleetDispenser::Want& want) {
  if (!reply.ok()) return reply.status();
  FleetDispenser::Got got{.generation = want.least_generation, .units = want.units, .left = reply->integer()};
  if (reply->kind() != RedisReply::Kind::kInteger) {
    const std::span<const RedisReply> values = reply->elements();
    if (values.size() != 3) return absl::UnknownError("the script's reply has another form");
    got = {.generation = values[0].integer(), .units = values[1].integer(), .left = values[2].integer()};
  }
  if (got.generation < 0 || got.generation > kMaxGeneration || (got.units != 0 && got.units != want.units)) {
    return absl::UnknownError("its generation or its units are out of range");
  }
  return got;
}

class RedisNodes final : public FleetDispenser {
 public:
  RedisNodes(const FleetInventoryOptions& options, std::vector<FleetDispenser::Node> names)
      : FleetDispenser(std::move(names)), key_prefix_(Concat("stockade:inv:{", options.fleet, ":")) {
    for (const std::string& url : options.redis) {
      nodes_.emplace_back(url, RedisOptions{.name = options.name,
                                            .wait_for_connection = false,
                                            .command_timeout = options.redis_timeout,
                                            .metrics = options.metrics});
    }
  }

  absl::Status Start() {
    for (Node& node : nodes_) {
      absl::StatusOr<std::unique_ptr<RedisClient>> client = RedisClient::Connect(node.url, node.options);
      if (!client.ok()) return client.status();
      node.client = *std::move(client);
    }
    return absl::OkStatus();
  }

  std::optional<std::vector<Got>> Take(size_t at, std::span<const Want> wants) override {
    Node& node = nodes_[at];
    RedisClient* const client = ClientOf(node);
    if (client == nullptr) return std::nullopt;
    std::vector<RedisCommand> commands;
    commands.reserve(wants.size());
    for (const Want& want : wants) {
      const std::string key = KeyOf(at, want.sku);
      commands.push_back(RedisCommand(TakeScript(), {key}).Arg(want.least_generation).Arg(want.units));
    }
    const std::vector<absl::StatusOr<RedisReply>> replies = client->RunMany(commands);
    std::vector<Got> all;
    all.reserve(wants.size());
    absl::Status outcome = absl::UnknownError("it was asked for nothing");
    for (size_t i = 0; i < wants.size(); ++i) {
      const absl::StatusOr<Got> got = GotOf(replies[i], wants[i]);
      const bool answers = got.ok() || IsOfKey(got.status());
      if (answers || (i == 0 && !outcome.ok())) outcome = answers ? absl::OkStatus() : got.status();
      if (!got.ok() && IsOfKey(got.status())) LogUnusable(node, KeyOf(at, wants[i].sku), got.status());
      all.push_back(got.ok() ? *got : Got{.usable = false});
    }
    NoteOutcome(at, outcome);
    if (!outcome.ok()) return std::nullopt;
    return all;
  }

  bool Fill(size_t at, uint64_t sku, int64_t generation, int64_t fill, int64_t units) override {
    Node& node = nodes_[at];
    RedisClient* const client = ClientOf(node);
    if (client == nullptr) return true;
    const std::string key = KeyOf(at, sku);
    const auto filled =
        client->Run(RedisCommand(FillScript(), {key}).Arg(generation).Arg(fill).Arg(units).Idempotent());
    NoteOutcome(at, IsOfKey(filled.status()) ? absl::OkStatus() : filled.status());
    return filled.ok() ? filled->integer() != 0 : !IsOfKey(filled.status());
  }

  bool away(size_t at) const override {
    const MutexLock lock(nodes_[at].mutex);
    return nodes_[at].away;
  }

 private:
  struct Node {
    Node(std::string its_url, RedisOptions its_options) : url(std::move(its_url)), options(std::move(its_options)) {}

    const std::string url;
    const RedisOptions options;
    std::unique_ptr<RedisClient> client;  // Constant after Start().
    mutable Mutex mutex;
    bool away STOCKADE_GUARDED_BY(mutex) = false;
    Instant next_try STOCKADE_GUARDED_BY(mutex) = Instant::InfinitePast();
    Backoff backoff STOCKADE_GUARDED_BY(mutex){kFirstRetry, kLongestRetry, 0};
    absl::flat_hash_set<std::string> unusable STOCKADE_GUARDED_BY(mutex);  // Counters that were logged.
  };

  // One slot per SKU, and a counter per node: another URL of the same server is another node.
  std::string KeyOf(size_t node, uint64_t sku) const { return Concat(key_prefix_, sku, "}:", segment(node)); }

  // Null: the node is to be left alone. Of an away node one caller at a time finds out whether it is back.
  static RedisClient* ClientOf(Node& node) {
    const MutexLock lock(node.mutex);
    if (node.away) {
      const Instant now = Clock::System()->Now();
      if (now < node.next_try) return nullptr;
      node.next_try = now + node.backoff.Next();
    }
    return node.client.get();
  }

  // Once for each counter.
  static void LogUnusable(Node& node, const std::string& counter, const absl::Status& status) {
    {
      const MutexLock lock(node.mutex);
      if (node.unusable.size() >= kMaxLogged || !node.unusable.insert(counter).second) return;
    }
    Log(LogSeverity::kWarning,
        Concat("Inventory '", node.options.name, "': the counter ", counter,
               " at a Redis node cannot be used. Its units are sold without the node: ", status.message()));
  }

  // Not OK: why the node cannot be used.
  void NoteOutcome(size_t at, const absl::Status& outcome) {
    Node& node = nodes_[at];
    {
      const MutexLock lock(node.mutex);
      if (outcome.ok()) node.backoff.Reset();
      if (node.away != outcome.ok()) return;
      node.away = !outcome.ok();
      if (node.away) node.next_try = Clock::System()->Now() + node.backoff.Next();
    }
    const std::string what = Concat("Inventory '", node.options.name, "': the Redis node ", name(at));
    Log(outcome.ok() ? LogSeverity::kInfo : LogSeverity::kWarning,
        outcome.ok() ? Concat(what, " can be used again")
                     : Concat(what, " cannot be used; the ledger sells in its place: ", outcome.ToString()));
  }

  const std::string key_prefix_;
  std::deque<Node> nodes_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> FleetNodeNames(std::span<const std::string> urls) {
  std::vector<std::string> names;
  for (const std::string& url : urls) {
    const absl::StatusOr<RedisUrl> parsed = ParseRedisUrl(url);
    if (!parsed.ok()) return parsed.status();
    std::string name = Redacted(*parsed);
    if (name.size() > kMaxNameBytes) {
      return absl::InvalidArgumentError(
          Concat("the URL of a Redis node has ", name.size(), " bytes; at most ", kMaxNameBytes, " are allowed"));
    }
    if (std::ranges::count(names, name) > 0) {
      return absl::InvalidArgumentError(Concat("the Redis node ", name, " is there twice"));
    }
    names.push_back(std::move(name));
  }
  return names;
}

absl::StatusOr<std::unique_ptr<FleetDispenser>> ConnectFleetNodes(const FleetInventoryOptions& options,
                                                                  std::vector<FleetDispenser::Node> nodes) {
  auto dispenser = std::make_unique<RedisNodes>(options, std::move(nodes));
  if (absl::Status started = dispenser->Start(); !started.ok()) return started;
  return dispenser;
}

}  // namespace stockade::inventory_internal

#include "cluster_router.h"

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "now.h"
#include "status.h"
#include "stockade/base/backoff.h"
#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// For a message.
std::string Shown(std::string_view key) {
  constexpr size_t kMost = 64;
  return Concat("'", absl::CHexEscape(AbslView(key.substr(0, kMost))), key.size() > kMost ? "..." : "", "'");
}

// Nothing where any node will do.
absl::StatusOr<std::optional<uint16_t>> SlotOf(const RedisCommand& command) {
  const std::optional<std::string_view> key = command.routing_key();
  if (!key) return std::nullopt;
  const uint16_t slot = KeySlot(*key);
  for (size_t i = 1; i < command.key_count(); ++i) {
    const uint16_t other = KeySlot(command.key(i));
    if (other == slot) continue;
    return absl::InvalidArgumentError(
        Concat(command.name(), ": the keys ", Shown(command.key(0)), " (slot ", slot, ") and ", Shown(command.key(i)),
               " (slot ", other,
               ") are in different slots of the cluster; a common part in braces would put them "
               "into one; not sent"));
  }
  return slot;
}

}  // namespace

ClusterRouter::ClusterRouter(const RedisUrl& url, const RedisOptions& options, std::shared_ptr<TlsConfig> tls,
                             TimerQueue* timers, ComponentMetrics* metrics)
    : options_(options),
      identity_(IdentityOf(url, std::move(tls))),
      allowed_hosts_(url, options),
      timers_(timers),
      metrics_(metrics),
      order_(url.endpoints) {}

absl::Status ClusterRouter::Start(bool wait) {
  if (wait) {
    if (absl::Status answered = Refresh(Now() + options_.connect_timeout); !answered.ok()) return answered;
  } else {
    const MutexLock lock(mutex_);
    for (const RedisEndpoint& node : order_.Get()) map_.Add(node);
    named_ = map_.nodes().size();
    nodes_.resize(named_);
    WantRefresh();
  }
  return StartThread(thread_, [this] { KeepRefreshing(); });
}

void ClusterRouter::Stop() {
  std::vector<std::shared_ptr<Pipeline>> pipelines;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (Node& node : nodes_) pipelines.push_back(std::move(node.pipeline));
    for (auto& [name, node] : replicas_) pipelines.push_back(std::move(node.pipeline));
    nodes_.clear();
    replicas_.clear();
  }
  refresh_.NotifyAll();
  const absl::Status why = absl::CancelledError(Concat("redis '", options_.name, "': the client was destroyed"));
  // All at once, so that attempts to connect end beside each other.
  for (const std::shared_ptr<Pipeline>& pipeline : pipelines) {
    if (pipeline != nullptr) pipeline->Retire(why);
  }
  for (const std::shared_ptr<Pipeline>& pipeline : pipelines) {
    if (pipeline != nullptr) pipeline->Stop();
  }
  retired_.Stop();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<Hop> ClusterRouter::Route(const RedisCommand& command) {
  const absl::StatusOr<std::optional<uint16_t>> slot = SlotOf(command);
  if (!slot.ok()) return slot.status();
  const MutexLock lock(mutex_);
  if (stopping_) {
    return absl::CancelledError(Concat("redis '", options_.name, "': the client was destroyed"));
  }
  const uint16_t owner = *slot ? map_.OwnerOf(**slot) : keyless_;
  // Of a slot that nobody serves, a node says so, which has it tried again until its time-out.
  const uint16_t node = owner == SlotMap::kNobody ? keyless_ : owner;
  const absl::Status allowed = allowed_hosts_.Check(map_.nodes()[node]);
  if (!allowed.ok()) return allowed;
  absl::StatusOr<std::shared_ptr<Pipeline>> pipeline = PipelineOf(node);
  if (!pipeline.ok()) return pipeline.status();
  return Hop{.pipeline = *std::move(pipeline)};
}

absl::StatusOr<Hop> ClusterRouter::RouteToReplica(const RedisCommand& command) {
  const absl::StatusOr<std::optional<uint16_t>> slot = SlotOf(command);
  if (!slot.ok()) return slot.status();
  if (*slot) {
    const MutexLock lock(mutex_);
    const uint16_t owner = map_.OwnerOf(**slot);
    const std::span<const RedisEndpoint> replicas =
        owner == SlotMap::kNobody || stopping_ ? std::span<const RedisEndpoint>() : map_.ReplicasOf(owner);
    const size_t first = next_replica_++;
    for (size_t i = 0; i < replicas.size(); ++i) {
      const RedisEndpoint& replica = replicas[(first + i) % replicas.size()];
      if (!allowed_hosts_.Contains(replica)) continue;
      absl::StatusOr<std::shared_ptr<Pipeline>> pipeline = PipelineToReplica(replica);
      if (IsNoRoom(pipeline.status())) continue;
      if (!pipeline.ok()) return pipeline.status();
      if ((*pipeline)->connected()) return Hop{.pipeline = *std::move(pipeline), .at_replica = true};
    }
  }
  return Route(command);
}

Verdict ClusterRouter::OnErrorReply(std::string_view error, Hop& hop) {
  const std::string_view code = ErrorCodeOf(error);
  if (code == "MOVED") return Redirect(error, false, hop);
  if (code == "ASK") return Redirect(error, true, hop);
  const bool map_is_old = code == "CLUSTERDOWN" || code == "READONLY" || code == "MASTERDOWN";
  if (!map_is_old && code != "TRYAGAIN" && code != "LOADING") return Verdict::kFinal;
  hop = {};
  if (map_is_old) {
    const MutexLock lock(mutex_);
    WantRefresh();
  }
  return Verdict::kRetryLater;
}

Verdict ClusterRouter::Redirect(std::string_view error, bool asking, Hop& hop) {
  std::optional<Redirection> redirection;
  bool corrected = false;
  auto verdict = Verdict::kRetryNow;
  {
    const MutexLock lock(mutex_);
    const std::optional<uint16_t> from = Find(hop.pipeline.get());
    if (!from) {  // A newer map does not name the node.
      hop = {};
      return Verdict::kRetryNow;
    }
    redirection = ParseRedirection(error, map_.nodes()[*from]);
    if (redirection && !allowed_hosts_.Contains(redirection->to)) {
      hop = {.refused = allowed_hosts_.Check(redirection->to)};
      return Verdict::kRetryNow;
    }
    const uint16_t node = Add(redirection);
    if (node == SlotMap::kNobody || ++hop.redirections > kMaxRedirections) {
      hop = {};
      return Verdict::kRetryLater;
    }
    corrected = !asking && Correct(redirection->slot, node);
    absl::StatusOr<std::shared_ptr<Pipeline>> pipeline = PipelineOf(node);
    if (pipeline.ok()) {
      hop.pipeline = *std::move(pipeline);
      hop.asking = asking;
    } else {
      hop = {};  // Route() tries again to get it. After ASK that is at the old owner, which asks for it once more.
      verdict = Verdict::kRetryLater;
    }
  }
  if (corrected) Corrected(redirection->to);
  return verdict;
}

void ClusterRouter::OnChannelMoved(std::string_view channel, std::string_view error) {
  std::optional<Redirection> redirection;
  bool corrected = false;
  {
    const uint16_t slot = KeySlot(channel);
    const MutexLock lock(mutex_);
    if (stopping_) return;
    const uint16_t owner = map_.OwnerOf(slot);
    if (owner != SlotMap::kNobody && ErrorCodeOf(error) == "MOVED") {
      redirection = ParseRedirection(error, map_.nodes()[owner]);
    }
    const uint16_t node = Add(redirection);
    if (node != SlotMap::kNobody) corrected = Correct(slot, node);
  }
  if (corrected) Corrected(redirection->to);
}

void ClusterRouter::Corrected(const RedisEndpoint& owner) {
  order_.Prefer(owner);
  TopologyChanged();
}

uint16_t ClusterRouter::Add(const std::optional<Redirection>& redirection) {
  const uint16_t node = redirection ? map_.Add(redirection->to) : SlotMap::kNobody;
  if (node == SlotMap::kNobody) WantRefresh();
  nodes_.resize(map_.nodes().size());
  return node;
}

bool ClusterRouter::Correct(uint16_t slot, uint16_t node) {
  if (map_.OwnerOf(slot) == node) return false;
  map_.Assign(slot, node);
  WantRefresh();
  return true;
}

Verdict ClusterRouter::OnFailure(const absl::Status&, Hop& hop) {
  const std::shared_ptr<Pipeline> failed = std::exchange(hop, {}).pipeline;
  const MutexLock lock(mutex_);
  const std::optional<uint16_t> node = Find(failed.get());
  if (!node) return Verdict::kRetryNow;  // It was retired, so there is a newer map.
  if (*node == keyless_) keyless_failed_ = true;
  WantRefresh();
  return Verdict::kRetryLater;
}

absl::StatusOr<std::unique_ptr<Link>> ClusterRouter::ConnectForChannel(std::string_view channel, Instant deadline) {
  const absl::StatusOr<std::optional<RedisEndpoint>> home = NodeOfChannel(channel);
  if (!home.ok()) return home.status();
  return *home ? Connect(**home, deadline) : ConnectForPattern(deadline);
}

absl::StatusOr<std::unique_ptr<Link>> ClusterRouter::ConnectForPattern(Instant deadline) {
  const std::vector<RedisEndpoint> nodes = order_.Get();
  absl::StatusOr<std::unique_ptr<Link>> link;
  for (size_t i = 0; i < nodes.size() && !link.ok(); ++i) {
    link = Connect(nodes[i], EndOfTurn(Now(), deadline, nodes.size() - i));
  }
  return link;
}

absl::StatusOr<std::string> ClusterRouter::ChannelHome(std::string_view channel) {
  const absl::StatusOr<std::optional<RedisEndpoint>> home = NodeOfChannel(channel);
  if (!home.ok()) return home.status();
  return *home ? (*home)->ToString() : std::string();
}

absl::StatusOr<std::optional<RedisEndpoint>> ClusterRouter::NodeOfChannel(std::string_view channel) const {
  const uint16_t slot = KeySlot(channel);
  const MutexLock lock(mutex_);
  if (!sharded_) return absl::UnavailableError(Concat("redis '", options_.name, "': no node has told its slots yet"));
  if (!*sharded_) return std::nullopt;
  const uint16_t owner = map_.OwnerOf(slot);
  if (owner != SlotMap::kNobody) return map_.nodes()[owner];
  return absl::UnavailableError(
      Concat("redis '", options_.name, "': no node serves slot ", slot, " of the channel ", Shown(channel)));
}

bool ClusterRouter::sharded_channels() const {
  const MutexLock lock(mutex_);
  return sharded_.value_or(false);
}

size_t ClusterRouter::pending() const {
  size_t sum = retired_.pending();
  const MutexLock lock(mutex_);
  for (const Node& node : nodes_) sum += node.pipeline != nullptr ? node.pipeline->pending() : 0;
  for (const auto& [name, node] : replicas_) sum += node.pipeline->pending();
  return sum;
}

absl::Status ClusterRouter::Refresh(Instant deadline) {
  const std::vector<RedisEndpoint> nodes = order_.Get();
  std::string said;
  auto code = absl::StatusCode::kUnavailable;
  std::optional<Answer> doubtful;
  RedisEndpoint doubtful_node;
  for (size_t i = 0; i < nodes.size(); ++i) {
    absl::StatusOr<Answer> answer = Ask(nodes[i], EndOfTurn(Now(), deadline, nodes.size() - i));
    if (answer.ok() && answer->healthy) {
      Adopt(*std::move(answer), nodes[i]);
      return absl::OkStatus();
    }
    order_.Failed(nodes[i]);
    if (answer.ok()) {
      if (!doubtful) doubtful_node = nodes[i];
      if (!doubtful) doubtful = *std::move(answer);
      continue;
    }
    said += Concat(said.empty() ? "" : "; ", std::string(answer.status().message()));
    if (answer.status().code() != absl::StatusCode::kUnavailable) code = answer.status().code();
  }
  if (!doubtful) return absl::Status(code, Concat("no node of the cluster tells its slots: ", said));
  Adopt(*std::move(doubtful), doubtful_node);
  return absl::OkStatus();
}

absl::StatusOr<ClusterRouter::Answer> ClusterRouter::Ask(const RedisEndpoint& node, Instant deadline) const {
  const absl::StatusOr<std::unique_ptr<Link>> link = Connect(node, deadline);
  if (!link.ok()) return link.status();
  const RedisCommand questions[] = {
      RedisCommand("CLUSTER").Arg("SLOTS"),
      RedisCommand("CLUSTER").Arg("INFO"),
      RedisCommand("PUBSUB").Arg("SHARDNUMSUB"),
  };
  const absl::StatusOr<std::vector<RedisReply>> replies = (*link)->RoundTrip(questions, deadline);
  absl::Status failed = replies.status();
  if (failed.ok()) {
    const RedisReply& slots = (*replies)[0];
    const RedisReply& info = (*replies)[1];
    absl::StatusOr<SlotMap> map = slots.is_error() ? StatusOfErrorReply(slots.text()) : SlotMap::Parse(slots, node);
    if (map.ok()) {
      // If an ACL forbids the second question, no node counts as better than another.
      return Answer{.map = *std::move(map),
                    .healthy = info.is_error() || info.text().find("cluster_state:ok") != std::string_view::npos,
                    .sharded = !(*replies)[2].is_error()};
    }
    failed = map.status();
  }
  return absl::Status(failed.code(), Concat(node.ToString(), ": ", std::string(failed.message())));
}

void ClusterRouter::Adopt(Answer answer, const RedisEndpoint& answered) {
  std::vector<RedisEndpoint> known(answer.map.nodes().begin(), answer.map.nodes().end());
  known.insert(known.end(), answer.map.replicas().begin(), answer.map.replicas().end());
  allowed_hosts_.Filter(known);
  std::vector<Left> left;
  bool moved = false;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    if (!sharded_) sharded_ = answer.sharded;
    moved = !map_.SameOwners(answer.map);
    const uint16_t keyless = ChooseKeyless(answer.map, answered);
    left = CarryOver(answer.map);
    map_ = std::move(answer.map);
    named_ = map_.nodes().size();
    keyless_ = keyless;
    keyless_failed_ = false;
  }
  if (answer.healthy) order_.Answered(answered, known);
  for (const Left& node : left) {
    // At once: the thread of retired_ may be waiting for another one to end.
    node.pipeline->Retire(RetiredPipelines::Refusal(node.why));
    if (!node.retired) node.pipeline->Stop();
  }
  if (moved) TopologyChanged();
}

uint16_t ClusterRouter::ChooseKeyless(const SlotMap& map, const RedisEndpoint& answered) const {
  const std::span<const RedisEndpoint> nodes = map.nodes();
  const auto index_of = [nodes](const RedisEndpoint& node) {
    return static_cast<size_t>(std::find(nodes.begin(), nodes.end(), node) - nodes.begin());
  };
  size_t keyless = nodes.size();
  if (!keyless_failed_ && !map_.nodes().empty()) keyless = index_of(map_.nodes()[keyless_]);
  if (keyless == nodes.size()) keyless = index_of(answered);  // It can be reached.
  if (keyless == nodes.size()) keyless = (keyless_ + 1) % nodes.size();
  for (size_t i = 0; i < nodes.size() && !allowed_hosts_.Contains(nodes[keyless]); ++i) {
    keyless = (keyless + 1) % nodes.size();
  }
  return static_cast<uint16_t>(keyless);
}

std::vector<ClusterRouter::Left> ClusterRouter::CarryOver(const SlotMap& map) {
  std::vector<Left> left;
  std::vector<Node> nodes(map.nodes().size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].pipeline == nullptr) continue;
    const auto at = std::find(map.nodes().begin(), map.nodes().end(), map_.nodes()[i]);
    if (at == map.nodes().end()) {
      left.push_back(Retire(nodes_[i], map_.nodes()[i].ToString()));
    } else {
      nodes[static_cast<size_t>(at - map.nodes().begin())] = std::move(nodes_[i]);
    }
  }
  nodes_ = std::move(nodes);
  std::set<std::string> named;
  if (!replicas_.empty()) {
    for (const RedisEndpoint& replica : map.replicas()) named.insert(replica.ToString());
  }
  for (auto& [name, node] : replicas_) {
    if (!named.contains(name)) left.push_back(Retire(node, name));
  }
  std::erase_if(replicas_, [&](const auto& replica) { return !named.contains(replica.first); });
  return left;
}

ClusterRouter::Left ClusterRouter::Retire(Node& node, const std::string& name) {
  std::string why = Concat("redis '", options_.name, "': ", name, " serves no slots of the cluster any more");
  // Before another thread can find room: it counts until it has ended.
  const bool retired = retired_.Add(node.pipeline, why, RetiredPipelines::Ending::kWithGrace);
  return {.pipeline = std::move(node.pipeline), .why = std::move(why), .retired = retired};
}

void ClusterRouter::KeepRefreshing() {
  Instant earliest = Instant::InfinitePast();
  Backoff first_map(options_.min_backoff, options_.max_backoff, std::random_device{}());
  const MutexLock lock(mutex_);
  for (;;) {
    const Instant latest = Now() + kRefreshAtLeastEvery;
    while (!stopping_ && !refresh_wanted_ && refresh_.WaitUntil(*Clock::System(), mutex_, latest)) {
    }
    while (!stopping_ && refresh_.WaitUntil(*Clock::System(), mutex_, earliest)) {
    }
    if (stopping_) return;
    refresh_wanted_ = false;
    {
      const MutexUnlock unlocked(mutex_);
      // Without an answer the old map stays.
      (void)Refresh(Now() + options_.connect_timeout);
    }
    earliest = Now() + kRefreshEvery;
    if (!sharded_) {  // There has been none.
      refresh_wanted_ = true;
      earliest = Now() + first_map.Next();
    }
  }
}

absl::StatusOr<std::unique_ptr<Link>> ClusterRouter::Connect(const RedisEndpoint& node, Instant deadline,
                                                             bool read_only) const {
  const absl::Status allowed = allowed_hosts_.Check(node);
  if (!allowed.ok()) return allowed;
  LinkIdentity identity = identity_;
  identity.read_only = read_only;
  return Link::Connect(node, identity, options_.max_reply_bytes, deadline);
}

absl::StatusOr<std::unique_ptr<Link>> ClusterRouter::ConnectToNode(const RedisEndpoint& node, Instant deadline) {
  absl::StatusOr<std::unique_ptr<Link>> link = Connect(node, deadline);
  if (link.ok()) return link;
  // Commands may wait for it: another may have taken its place.
  const MutexLock lock(mutex_);
  if (keyless_ < map_.nodes().size() && map_.nodes()[keyless_] == node) keyless_failed_ = true;
  WantRefresh();
  return link;
}

absl::StatusOr<std::shared_ptr<Pipeline>> ClusterRouter::PipelineOf(uint16_t index) {
  Node& node = nodes_[index];
  node.used = ++ticks_;
  if (node.pipeline != nullptr) return node.pipeline;
  if (absl::Status room = MakeRoom(index); !room.ok()) return room;
  const RedisEndpoint& endpoint = map_.nodes()[index];
  absl::StatusOr<std::shared_ptr<Pipeline>> started =
      Pipeline::Start([this, endpoint](Instant deadline) { return ConnectToNode(endpoint, deadline); },
                      PipelineOptionsOf(options_), timers_, metrics_);
  if (started.ok()) node.pipeline = *started;
  node.started = ticks_;
  return started;
}

absl::StatusOr<std::shared_ptr<Pipeline>> ClusterRouter::PipelineToReplica(const RedisEndpoint& replica) {
  const std::string name = replica.ToString();
  if (const auto found = replicas_.find(name); found != replicas_.end()) {
    found->second.used = ++ticks_;
    return found->second.pipeline;
  }
  if (absl::Status room = CheckRoom(replica); !room.ok()) return room;
  absl::StatusOr<std::shared_ptr<Pipeline>> started =
      Pipeline::Start([this, replica](Instant deadline) { return Connect(replica, deadline, /*read_only=*/true); },
                      PipelineOptionsOf(options_), timers_, metrics_);
  ++ticks_;
  if (started.ok()) replicas_[name] = {.pipeline = *started, .started = ticks_, .used = ticks_};
  return started;
}

absl::Status ClusterRouter::CheckRoom(const RedisEndpoint& node) const {
  const auto in_use =
      std::count_if(nodes_.begin(), nodes_.end(), [](const Node& at) { return at.pipeline != nullptr; });
  if (static_cast<size_t>(in_use) + replicas_.size() + retired_.size() < options_.max_nodes) return absl::OkStatus();
  return NoRoomError(Concat("redis '", options_.name, "': not connected to ", node.ToString(), ": connections to ",
                            options_.max_nodes, " nodes are in use (RedisOptions.max_nodes); not sent"));
}

absl::Status ClusterRouter::MakeRoom(uint16_t node) {
  absl::Status room = CheckRoom(map_.nodes()[node]);
  if (room.ok()) return room;
  const Instant now = Now();
  nodes_[node].refused_at = now;
  const auto waiting = std::count_if(nodes_.begin(), nodes_.end(), [now](const Node& at) {
    return at.pipeline == nullptr && now - at.refused_at < kWaitsForRoom;
  });
  if (retired_.size() >= std::min(static_cast<size_t>(waiting), kMaxEnding)) return room;
  const Choice choice = ChooseToEnd();
  if (choice.node == nullptr) return room;
  const std::string why = Concat("redis '", options_.name, "': the connection to ", choice.name,
                                 " was ended for one to another node (RedisOptions.max_nodes)");
  // Between the choice and the end a command may be sent over an idle one.
  const auto ending = choice.named ? RetiredPipelines::Ending::kWithGrace : RetiredPipelines::Ending::kAtOnce;
  if (!retired_.Add(choice.node->pipeline, why, ending)) return room;
  choice.node->pipeline = nullptr;
  std::erase_if(replicas_, [](const auto& replica) { return replica.second.pipeline == nullptr; });
  return room;
}

ClusterRouter::Choice ClusterRouter::ChooseToEnd() {
  Choice choice;
  for (size_t i = named_; i < nodes_.size(); ++i) {
    if (nodes_[i].pipeline == nullptr) continue;
    if (choice.node != nullptr && choice.node->started < nodes_[i].started) continue;
    choice = {.node = &nodes_[i], .name = map_.nodes()[i].ToString(), .named = false};
  }
  if (choice.node != nullptr) return choice;
  const auto is_better = [&choice](const Node& node) {
    return node.pipeline != nullptr && (choice.node == nullptr || node.used < choice.node->used) &&
           node.pipeline->pending() == 0;
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (is_better(nodes_[i])) choice = {.node = &nodes_[i], .name = map_.nodes()[i].ToString(), .named = true};
  }
  for (auto& [name, node] : replicas_) {
    if (is_better(node)) choice = {.node = &node, .name = name, .named = true};
  }
  return choice;
}

std::optional<uint16_t> ClusterRouter::Find(const Pipeline* pipeline) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].pipeline.get() == pipeline) return static_cast<uint16_t>(i);
  }
  return std::nullopt;
}

void ClusterRouter::WantRefresh() {
  refresh_wanted_ = true;
  refresh_.NotifyAll();
}

}  // namespace stockade::redis_internal

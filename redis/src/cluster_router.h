#ifndef STOCKADE_REDIS_CLUSTER_ROUTER_H_
#define STOCKADE_REDIS_CLUSTER_ROUTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "asking_order.h"
#include "connect.h"
#include "pipeline.h"
#include "retired_pipelines.h"
#include "router.h"
#include "slot_map.h"
#include "stockade/base/mutex.h"
#include "stockade/base/timer_queue.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_url.h"

namespace stockade::redis_internal {

// The nodes of a cluster. A command goes to the node that serves the slot of its keys, over one pipeline per node,
// which is made when it is first needed. A command without keys goes to one node, always the same while that can be
// reached, so that the messages that a thread publishes stay in order.
//
// The map of the slots comes from any node that answers, preferably one that reports the cluster as healthy. MOVED
// corrects its slot at once. The router asks for the whole map again after a MOVED, after a node could not be reached
// and after a sign of a failover. It also does so periodically, because a node that just stands still gives no sign. A
// thread of the router asks, one question at a time, and at most once per kRefreshEvery. If the next map does not name
// a node, its pipeline is retired, and the commands that were to go there go where the map says.
//
// A node may name others without end, so there are at most RedisOptions::max_nodes pipelines, including the retired
// ones that have not ended. If a command needs one more, another one is retired (ChooseToEnd()), and the command is
// tried again after a pause.
//
// Invariants (under mutex_): nodes_ is parallel to map_.nodes(), with null for a pipeline that was not needed yet.
// keyless_ is an index of both. The nodes below named_ are those of the last map, and MOVED or ASK have named the
// others. Before Stop(), no pipeline is stopped while it is in nodes_, so the pipeline that a hop names is either there
// or retired. Lock order: mutex_ before a pipeline's own, and that of retired_. Replies are not delivered and the hook
// is not called with mutex_ held.
class ClusterRouter final : public Router {
 public:
  // `timers` and `metrics` must outlive it.
  ClusterRouter(const RedisUrl& url, const RedisOptions& options, std::shared_ptr<TlsConfig> tls, TimerQueue* timers,
                ComponentMetrics* metrics);

  // With `wait`, blocks until a node has given the map; else what each node has said. Without `wait`, the map names the
  // URL's nodes until then and no owners: a command goes to the first one, which redirects it.
  absl::Status Start(bool wait) override;
  void Stop() override;

  // InvalidArgument if its keys are in different slots, PermissionDenied if AllowedHosts forbids their node.
  // ResourceExhausted: Pipeline::Start()'s, for a node that was not needed before. NoRoomError() if there are as many
  // as there may be. O(bytes of its keys), and one short lock.
  absl::StatusOr<Hop> Route(const RedisCommand& command) override;
  // There is one connection per replica in use, besides those to the masters. The replicas of a slot take turns.
  absl::StatusOr<Hop> RouteToReplica(const RedisCommand& command) override;
  Verdict OnErrorReply(std::string_view error, Hop& hop) override;
  Verdict OnFailure(const absl::Status& status, Hop& hop) override;

  absl::StatusOr<std::unique_ptr<Link>> ConnectForChannel(std::string_view channel, Instant deadline) override;
  absl::StatusOr<std::unique_ptr<Link>> ConnectForPattern(Instant deadline) override;
  // The node of the channel's slot. Where channels are not sharded, every node hears all of them: empty. Unavailable
  // where nobody serves the slot, and before the first map.
  absl::StatusOr<std::string> ChannelHome(std::string_view channel) override;
  void OnChannelMoved(std::string_view channel, std::string_view error) override;
  bool sharded_channels() const override;

  size_t pending() const override;

 private:
  static constexpr absl::Duration kRefreshEvery = absl::Milliseconds(100);
  static constexpr absl::Duration kRefreshAtLeastEvery = absl::Seconds(5);
  static constexpr int kMaxRedirections = 16;

  // So many pipelines may be on their way out to make room: several, because one that connects takes its time.
  static constexpr size_t kMaxEnding = 8;
  // A command that finds no room tries again after a shorter time. So a node that was refused longer ago has none.
  static constexpr absl::Duration kWaitsForRoom = absl::Milliseconds(300);

  struct Answer {
    SlotMap map;
    bool healthy;  // As the node sees it: it is neither cut off nor just started.
    bool sharded;
  };

  // A node's pipeline, and when it was started and used last, by ticks_.
  struct Node {
    std::shared_ptr<Pipeline> pipeline = nullptr;
    uint64_t started = 0;
    uint64_t used = 0;
    Instant refused_at = Instant::InfinitePast();  // There was no room for it.
  };
  struct Choice {
    Node* node = nullptr;  // Null: none may end.
    std::string name = {};
    bool named = false;  // By the last map.
  };
  // A pipeline that Adopt() has taken out of nodes_ or replicas_.
  struct Left {
    std::shared_ptr<Pipeline> pipeline;
    std::string why;
    bool retired;
  };

  Verdict Redirect(std::string_view error, bool asking, Hop& hop);
  void Corrected(const RedisEndpoint& owner) STOCKADE_EXCLUDES(mutex_);
  absl::Status Refresh(Instant deadline) STOCKADE_EXCLUDES(mutex_);
  absl::StatusOr<Answer> Ask(const RedisEndpoint& node, Instant deadline) const;
  void Adopt(Answer answer, const RedisEndpoint& answered);
  // The next keyless_.
  uint16_t ChooseKeyless(const SlotMap& map, const RedisEndpoint& answered) const STOCKADE_REQUIRES(mutex_);
  // Makes nodes_ and replicas_ those of `map`, which is the next one, and retires those that it does not name.
  std::vector<Left> CarryOver(const SlotMap& map) STOCKADE_REQUIRES(mutex_);
  Left Retire(Node& node, const std::string& name) STOCKADE_REQUIRES(mutex_);
  void KeepRefreshing();
  absl::StatusOr<std::unique_ptr<Link>> Connect(const RedisEndpoint& node, Instant deadline,
                                                bool read_only = false) const;
  absl::StatusOr<std::unique_ptr<Link>> ConnectToNode(const RedisEndpoint& node, Instant deadline);
  absl::StatusOr<std::optional<RedisEndpoint>> NodeOfChannel(std::string_view channel) const;

  // kNobody if it cannot be added; WantRefresh() is called then.
  uint16_t Add(const std::optional<Redirection>& redirection) STOCKADE_REQUIRES(mutex_);
  bool Correct(uint16_t slot, uint16_t node) STOCKADE_REQUIRES(mutex_);  // False: it was so already.
  absl::StatusOr<std::shared_ptr<Pipeline>> PipelineOf(uint16_t node) STOCKADE_REQUIRES(mutex_);
  absl::StatusOr<std::shared_ptr<Pipeline>> PipelineToReplica(const RedisEndpoint& replica) STOCKADE_REQUIRES(mutex_);
  // Whether one more may be started. NoRoomError(), which names the node that it is for, if not.
  absl::Status CheckRoom(const RedisEndpoint& node) const STOCKADE_REQUIRES(mutex_);
  // The same, but makes room for the next try, if it can: one pipeline ends for each node that waits for room.
  absl::Status MakeRoom(uint16_t node) STOCKADE_REQUIRES(mutex_);
  // The oldest one that the last map does not name, or else the idle one that was used least recently.
  Choice ChooseToEnd() STOCKADE_REQUIRES(mutex_);
  std::optional<uint16_t> Find(const Pipeline* pipeline) const STOCKADE_REQUIRES(mutex_);
  void WantRefresh() STOCKADE_REQUIRES(mutex_);

  const RedisOptions options_;
  const LinkIdentity identity_;
  const AllowedHosts allowed_hosts_;
  TimerQueue* const timers_;
  ComponentMetrics* const metrics_;
  AskingOrder order_;
  RetiredPipelines retired_;

  mutable Mutex mutex_;
  CondVar refresh_;
  SlotMap map_ STOCKADE_GUARDED_BY(mutex_);
  std::vector<Node> nodes_ STOCKADE_GUARDED_BY(mutex_);
  size_t named_ STOCKADE_GUARDED_BY(mutex_) = 0;
  // By RedisEndpoint::ToString(), and none without a pipeline. Those that the map does not name as replicas are
  // retired.
  std::map<std::string, Node> replicas_ STOCKADE_GUARDED_BY(mutex_);
  uint64_t ticks_ STOCKADE_GUARDED_BY(mutex_) = 0;
  size_t next_replica_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint16_t keyless_ STOCKADE_GUARDED_BY(mutex_) = 0;
  bool keyless_failed_ STOCKADE_GUARDED_BY(mutex_) = false;  // The next map chooses another.
  std::optional<bool> sharded_ STOCKADE_GUARDED_BY(mutex_);  // Set by the first map.
  bool refresh_wanted_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // Started by Start().
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_CLUSTER_ROUTER_H_

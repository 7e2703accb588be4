#ifndef STOCKADE_TESTS_REDIS_SUPPORT_REDIS_CLUSTER_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_REDIS_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "redis/support/redis_server.h"

namespace stockade::testing {

struct RedisClusterOptions {
  RedisServerOptions server = {};  // Of each node.
  bool replicas = false;           // One for each master.
  bool full_coverage = true;       // Whether all slots are refused while one has no master that is up.
};

// A cluster of three masters with a third of the slots each. A node is held for dead after a second. For one thread.
class RedisCluster {
 public:
  static constexpr size_t kMasters = 3;

  // Blocks until every node says cluster_state:ok: 2 seconds, which Redis has each master wait after its start.
  explicit RedisCluster(RedisClusterOptions options = {});

  std::string url() const;  // redis+cluster://127.0.0.1:p1,127.0.0.1:p2,127.0.0.1:p3
  // 0 to 2 began as masters; 3 to 5 are the replicas of 0 to 2.
  RedisServer& node(size_t index) { return *nodes_[index]; }
  size_t size() const { return nodes_.size(); }

  int SlotOf(const std::string& key) const;
  // The index of the node that serves the slot, as the first node that is up has it.
  size_t OwnerOf(int slot) const;
  RedisServer& NodeOf(const std::string& key) { return *nodes_[OwnerOf(SlotOf(key))]; }

  // With all its keys. Blocks until all nodes that are up know.
  void MoveSlot(int slot, size_t from, size_t to);
  // The same in steps. Between the first and the last, `from` answers ASK for a key that it does not have (any more),
  // `to` serves the key after an ASKING, and both answer TRYAGAIN to a command of several keys if only some of them are
  // there.
  void BeginMove(int slot, size_t from, size_t to);
  void MigrateKey(const std::string& key, size_t from, size_t to);
  void FinishMove(int slot, size_t from, size_t to);  // With the keys that are left.
  // Before a key has been migrated.
  void CancelMove(int slot, size_t from, size_t to);

  // Stops and starts all nodes. Blocks as AwaitSettled() does.
  void RestartAll();
  // For after a node was killed or restarted: blocks until all that are up say that the cluster is ok, agree on whose
  // the slots are and, where there are replicas, that each is in step with its master.
  void AwaitSettled();

 private:
  void Join();
  bool Settled() const;
  std::string IdOf(size_t node) const;
  const RedisServer& AnyUp() const;
  RawReply Must(size_t node, const std::vector<std::string>& command) const;

  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_REDIS_CLUSTER_H_

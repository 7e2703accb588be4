#ifndef STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_ZOOKEEPER_H_
#define STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_ZOOKEEPER_H_

#include <zookeeper/zookeeper.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "measure/threads.h"

namespace stockade::bench {

// ZooKeeper's recipe for locks, written by hand with a handle of the C client: an ephemeral sequential node, whose
// owner is in once no node is before it, and meanwhile watches the one before alone. What fails aborts. Thread-safe.
class PlainZooKeeper {
 public:
  enum class Calls {
    kSynchronous,  // One after another, each waited for.
    kPipelined,    // The list of nodes is asked for right behind the new node, which it is sure to tell of.
  };

  // `server`: host:port. Blocks until there is a session.
  PlainZooKeeper(const std::string& server, Calls calls);

  // As OurLocks::Run(), all threads with this handle.
  Throughput Run(Worker& worker, bool own_names, absl::Duration span);

 private:
  using Handle = std::unique_ptr<zhandle_t, int (*)(zhandle_t*)>;

  // The folder of a lock's nodes.
  void Make(const std::string& folder);
  // Blocks until the lock is had; gives the node that holds it.
  std::string Acquire(const std::string& folder);
  void Release(const std::string& node);

  // The node that is before `node`, or nothing.
  std::string Before(const std::string& folder, const std::string& node);
  void AwaitEndOf(const std::string& node);

  const Calls calls_;
  const Handle handle_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_DISTRIBUTED_LOCKS_PLAIN_ZOOKEEPER_H_

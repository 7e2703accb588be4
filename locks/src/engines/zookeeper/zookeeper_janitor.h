#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_JANITOR_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_JANITOR_H_

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "stockade/base/mutex.h"
#include "stockade/locks/lock_engine.h"
#include "zookeeper_session.h"

namespace stockade::locks_internal {

// A node of ours, or one that was asked for and may come to be.
struct ZooKeeperNode {
  std::shared_ptr<ZooKeeperSession> session = nullptr;  // What it ends with.
  std::string directory = {};                           // The path of its lock.
  std::string prefix = {};                              // What its name begins with, and no other's.
  std::string name = {};                                // Empty: not known whether it is there.

  std::string path() const { return directory + "/" + name; }
};

// Deletes nodes that nobody wants any more, until ZooKeeper has confirmed that they are gone, or their session is over.
// Nothing of ours is left behind: each node is wanted, or here. Thread-safe; does not block.
class ZooKeeperJanitor : public std::enable_shared_from_this<ZooKeeperJanitor> {
 public:
  // `existed`: whether it was there when it was deleted; false where its session is over.
  using Done = std::function<void(bool existed)>;

  // Sends the request within the call. `done` is called once, on any thread, without mutexes.
  void Remove(ZooKeeperNode node, const HoldKey& hold, Done done);
  // Calls `done` once nothing of this hold is left to be removed, with false.
  void WhenClear(const HoldKey& hold, Done done);

  // What failed may be tried again.
  void Retry();
  // All that ends with it is done.
  void Forget(const std::shared_ptr<ZooKeeperSession>& session);

 private:
  // The janitor's mutex guards `done` and `asking`. Only the request that is in flight changes the rest.
  struct Removal {
    ZooKeeperNode node;
    HoldKey hold;
    std::vector<Done> done;
    bool asking = false;      // A request is on its way.
    bool maybe_gone = false;  // One before was not answered: where it is gone, that may have been us.
  };
  using Removals = std::list<Removal>;

  void Ask(const std::shared_ptr<Removal>& removal);
  void Find(const std::shared_ptr<Removal>& removal);
  void Failed(const std::shared_ptr<Removal>& removal, int code);
  void Finish(const std::shared_ptr<Removal>& removal, bool existed);

  Mutex mutex_;
  std::list<std::shared_ptr<Removal>> removals_ STOCKADE_GUARDED_BY(mutex_);
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_JANITOR_H_

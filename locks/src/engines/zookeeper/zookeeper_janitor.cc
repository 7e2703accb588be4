#include "zookeeper_janitor.h"

#include <atomic>
#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "zookeeper_nodes.h"

namespace stockade::locks_internal {

void ZooKeeperJanitor::Remove(ZooKeeperNode node, const HoldKey& hold, Done done) {
  auto removal = std::make_shared<Removal>(Removal{.node = std::move(node), .hold = hold, .done = {}, .asking = true});
  removal->done.push_back(std::move(done));
  {
    const MutexLock lock(mutex_);
    removals_.push_back(removal);
  }
  Ask(removal);
}

void ZooKeeperJanitor::WhenClear(const HoldKey& hold, Done done) {
  {
    const MutexLock lock(mutex_);
    // They are ended in any order; the last one that there is now stands for all in most cases, as a hold has one.
    for (auto removal = removals_.rbegin(); removal != removals_.rend(); ++removal) {
      if ((*removal)->hold != hold) continue;
      (*removal)->done.push_back([self = shared_from_this(), hold, done = std::move(done)](bool) mutable {
        self->WhenClear(hold, std::move(done));
      });
      return;
    }
  }
  done(false);
}

void ZooKeeperJanitor::Retry() {
  std::vector<std::shared_ptr<Removal>> again;
  {
    const MutexLock lock(mutex_);
    for (const std::shared_ptr<Removal>& removal : removals_) {
      if (!std::exchange(removal->asking, true)) again.push_back(removal);
    }
  }
  for (const std::shared_ptr<Removal>& removal : again) Ask(removal);
}

void ZooKeeperJanitor::Forget(const std::shared_ptr<ZooKeeperSession>& session) {
  std::vector<std::shared_ptr<Removal>> over;
  {
    const MutexLock lock(mutex_);
    for (const std::shared_ptr<Removal>& removal : removals_) {
      if (removal->node.session == session) over.push_back(removal);
    }
  }
  for (const std::shared_ptr<Removal>& removal : over) Finish(removal, false);
}

void ZooKeeperJanitor::Ask(const std::shared_ptr<Removal>& removal) {
  if (removal->node.name.empty()) return Find(removal);
  removal->node.session->Delete(removal->node.path(),
                                [self = shared_from_this(), removal](const ZooKeeperAnswer& answer) {
                                  if (answer.code == ZOK) return self->Finish(removal, true);
                                  if (answer.code == ZNONODE) return self->Finish(removal, removal->maybe_gone);
                                  self->Failed(removal, answer.code);
                                });
}

void ZooKeeperJanitor::Find(const std::shared_ptr<Removal>& removal) {
  ZooKeeperSession& session = *removal->node.session;
  // What is found behind the barrier is all that there will be. It failing is found below: both go the same way.
  const auto passed = std::make_shared<std::atomic<int>>(ZCONNECTIONLOSS);
  session.Barrier([passed](const ZooKeeperAnswer& answer) { *passed = answer.code; });
  session.Children(removal->node.directory,
                   [self = shared_from_this(), removal, passed](const ZooKeeperAnswer& answer) {
                     if (*passed != ZOK) return self->Failed(removal, *passed);
                     if (answer.code == ZNONODE) return self->Finish(removal, false);
                     if (answer.code != ZOK) return self->Failed(removal, answer.code);
                     const std::optional<std::string> name = FindByPrefix(answer.children, removal->node.prefix);
                     if (!name) return self->Finish(removal, false);
                     removal->node.name = *name;
                     self->Ask(removal);
                   });
}

void ZooKeeperJanitor::Failed(const std::shared_ptr<Removal>& removal, int code) {
  if (code == ZSESSIONEXPIRED || code == ZCLOSING || code == ZINVALIDSTATE) return Finish(removal, false);
  if (!IsUnanswered(code)) {
    Log(LogSeverity::kWarning, Concat("ZooKeeper: ", removal->node.directory, "/", removal->node.prefix,
                                      " cannot be deleted: ", zerror(code)));
  }
  const MutexLock lock(mutex_);
  removal->maybe_gone |= IsUnanswered(code);
  removal->asking = false;
}

void ZooKeeperJanitor::Finish(const std::shared_ptr<Removal>& removal, bool existed) {
  std::vector<Done> done;
  {
    const MutexLock lock(mutex_);
    done = std::exchange(removal->done, {});
    removals_.remove(removal);
  }
  for (const Done& each : done) each(existed);
}

}  // namespace stockade::locks_internal

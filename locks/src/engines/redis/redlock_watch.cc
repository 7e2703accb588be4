#include "redlock_watch.h"

#include <functional>
#include <utility>

#include "stockade/base/mutex.h"

namespace stockade::locks_internal {
namespace {

// Shared with the callbacks, one of which may end the watch.
struct Listener {
  Listener(size_t nodes, std::function<void()> hint) : hints(nodes), on_hint(std::move(hint)) {}

  void Tell(bool (QuorumHints::*what)(size_t), size_t node) {
    {
      const MutexLock lock(mutex);
      if (!std::invoke(what, hints, node)) return;
    }
    on_hint();
  }

  Mutex mutex;
  QuorumHints hints STOCKADE_GUARDED_BY(mutex);
  const std::function<void()> on_hint;
};

class RedlockWatch final : public LockWatch {
 public:
  explicit RedlockWatch(std::vector<RedisSubscription> subscriptions) : subscriptions_(std::move(subscriptions)) {}

 private:
  std::vector<RedisSubscription> subscriptions_;
};

}  // namespace

std::unique_ptr<LockWatch> WatchQuorum(std::span<const std::unique_ptr<RedisClient>> nodes, const std::string& channel,
                                       std::function<void()> on_hint) {
  const auto listener = std::make_shared<Listener>(nodes.size(), std::move(on_hint));
  std::vector<RedisSubscription> subscriptions;
  for (size_t i = 0; i < nodes.size(); ++i) {
    absl::StatusOr<RedisSubscription> subscription = nodes[i]->Subscribe(
        channel, {.on_message = [listener, i](std::string_view) { listener->Tell(&QuorumHints::Released, i); },
                  .on_subscribed = [listener, i] { listener->Tell(&QuorumHints::Listens, i); }});
    if (subscription.ok()) subscriptions.push_back(*std::move(subscription));
  }
  if (subscriptions.size() < MajorityOf(nodes.size())) return nullptr;
  return std::make_unique<RedlockWatch>(std::move(subscriptions));
}

}  // namespace stockade::locks_internal

#ifndef STOCKADE_REDIS_REDIS_SUBSCRIPTION_H_
#define STOCKADE_REDIS_REDIS_SUBSCRIPTION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/export.h"

namespace stockade {

class RedisClient;

namespace internal {
struct Subscription;
class SubscriptionHub;
}  // namespace internal

// What is told of a channel. Both run on the client's subscription thread, which is one for all channels, so they must
// be short and must not wait. They may call Subscribe(), Unsubscribe() and RunAsync(). What they throw is logged.
// Either may be empty.
struct RedisSubscriber {
  // Each message once, those of one publisher in their order, from the first on_subscribed on. `payload` may be any
  // bytes, and is there during the call.
  std::function<void(std::string_view payload)> on_message = {};

  // From here on messages are heard: after the server has confirmed the subscription, and again each time that it was
  // made anew after a lost connection. What was published before may have been missed: look again.
  std::function<void()> on_subscribed = {};
};

// A subscription to one channel, which ends with it. Subscriptions of one client to one channel share one at the
// server, and all share one connection (in a cluster with sharded channels: one for each node), which comes back after
// it broke. A message larger than RedisOptions::max_reply_bytes breaks it too, and is lost.
//
// Any thread, one at a time. It may outlive its client, and then does nothing any more. Not for use in a forked
// child, where only its destructor may run.
class STOCKADE_EXPORT RedisSubscription {
 public:
  RedisSubscription() = default;  // To nothing.
  ~RedisSubscription() { Unsubscribe(); }
  RedisSubscription(RedisSubscription&& other) noexcept = default;
  RedisSubscription& operator=(RedisSubscription&& other) noexcept;

  // Ends it, without waiting for the network. When it returns no callback of it runs or will run, and both are
  // destroyed: it waits for the one that runs. On the thread of callbacks it waits for nothing; a callback that ends
  // its own subscription goes on to its end and is destroyed then. O(subscriptions to this channel).
  void Unsubscribe();

  // Blocks until the server has confirmed it; OK at once where that is so. DeadlineExceeded: not in time. Unavailable,
  // with the reason: there is no connection, or the channel's server is not known. What the server refuses for good
  // (PermissionDenied, ...) comes at once, though it is tried again. Cancelled: the client was destroyed.
  // FailedPrecondition: it has been ended, or this is the thread of callbacks, where nothing would change.
  absl::Status AwaitSubscribed(absl::Duration timeout) const;

  // Empty: to nothing, or ended.
  std::string_view channel() const;

 private:
  friend class RedisClient;
  RedisSubscription(std::shared_ptr<internal::SubscriptionHub> hub,
                    std::shared_ptr<internal::Subscription> subscription);

  std::shared_ptr<internal::SubscriptionHub> hub_;
  std::shared_ptr<internal::Subscription> subscription_;  // Null: to nothing.
};

// The longest name that a channel may have.
inline constexpr size_t kMaxRedisChannelBytes = size_t{64} << 10;

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_SUBSCRIPTION_H_

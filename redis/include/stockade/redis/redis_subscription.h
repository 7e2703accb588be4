#ifndef STOCKADE_REDIS_REDIS_SUBSCRIPTION_H_
#define STOCKADE_REDIS_REDIS_SUBSCRIPTION_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"

namespace stockade {

class RedisClient;

namespace redis_internal {
struct Subscription;
class SubscriptionHub;
}  // namespace redis_internal

// The callbacks of a subscription. The client invokes the callbacks of all channels on one subscription thread, so they
// must be short and must not block. They may call Subscribe(), Unsubscribe() and RunAsync(). Exceptions that they throw
// are logged. Either may be empty.
struct RedisSubscriber {
  // Invoked once per message, in the publisher's order for the messages of one publisher, and only after the first
  // on_subscribed. `payload` may contain any bytes and is valid during the call.
  std::function<void(std::string_view payload)> on_message = {};

  // Invoked when the server has confirmed the subscription, and again each time that the subscription is restored after
  // a lost connection. From then on messages are received. Earlier messages may have been missed, so subscribers should
  // read the current state here.
  std::function<void()> on_subscribed = {};
};

// Like RedisSubscriber, for the channels that match a pattern.
struct RedisPatternSubscriber {
  // Both views may contain any bytes and are valid during the call.
  std::function<void(std::string_view channel, std::string_view payload)> on_message = {};
  std::function<void()> on_subscribed = {};
};

// A subscription to one channel or pattern, which ends with this object. A client's subscriptions to the same channel
// share one subscription at the server. All of them share one connection (in a cluster with sharded channels: one per
// node), which the client restores after it breaks. A message larger than RedisOptions::max_reply_bytes also breaks the
// connection, and is lost.
//
// Callable from any thread, by one thread at a time. A subscription may outlive its client and does nothing then. Not
// usable in a forked child, where only its destructor may run.
class STOCKADE_EXPORT RedisSubscription {
 public:
  RedisSubscription() = default;  // Not subscribed.
  ~RedisSubscription() { Unsubscribe(); }
  RedisSubscription(RedisSubscription&& other) noexcept = default;
  RedisSubscription& operator=(RedisSubscription&& other) noexcept;

  // Ends the subscription without waiting for the network. When it returns, none of its callbacks runs or will run, and
  // both are destroyed: it waits for a callback that is running. On the callback thread it does not wait; a callback
  // that ends its own subscription completes and is destroyed afterwards. O(subscriptions to this channel).
  void Unsubscribe();

  // Blocks until the server has confirmed the subscription; returns OK at once if it already has.
  //   DeadlineExceeded: the server has not confirmed it in time.
  //   Unavailable: there is no connection, or the channel's server is unknown; the message says why.
  //   PermissionDenied and others: the server refuses it permanently. Returned at once, although the client keeps
  //     trying.
  //   Cancelled: the client was destroyed.
  //   FailedPrecondition: the subscription has ended, or this is the callback thread, on which the state cannot change.
  absl::Status AwaitSubscribed(Duration timeout) const;

  // The channel or the pattern; empty if there is no subscription or it has ended.
  std::string_view channel() const;

 private:
  friend class RedisClient;
  RedisSubscription(std::shared_ptr<redis_internal::SubscriptionHub> hub,
                    std::shared_ptr<redis_internal::Subscription> subscription);

  std::shared_ptr<redis_internal::SubscriptionHub> hub_;
  std::shared_ptr<redis_internal::Subscription> subscription_;  // Null if not subscribed.
};

// The longest name of a channel, or pattern, in bytes.
inline constexpr size_t kMaxRedisChannelBytes = size_t{64} << 10;

}  // namespace stockade

#endif  // STOCKADE_REDIS_REDIS_SUBSCRIPTION_H_

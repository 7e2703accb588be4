#ifndef STOCKADE_REDIS_SUBSCRIPTION_HUB_H_
#define STOCKADE_REDIS_SUBSCRIPTION_HUB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "router.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_reply.h"
#include "stockade/redis/redis_subscription.h"
#include "subscription_line.h"

namespace stockade::redis_internal {

struct PushReply;
struct SubscribedChannel;
struct SubscriptionHome;
struct SubscriptionCommand;

// One user's subscription to a channel, or to the channels that match a pattern. The hub's mutex guards all members
// except the name and `pattern`. While `running` is true, the hub's thread uses `subscriber` without the mutex.
struct Subscription {
  const std::string name;
  const bool pattern;
  RedisPatternSubscriber subscriber;
  SubscribedChannel* channel;  // Null: ended, by its user or with the client.
  bool confirmed = false;      // on_subscribed has been called for the current connection.
  bool running = false;        // A callback of it runs.
  bool ended_within = false;   // By the running callback, after which it is destroyed.
  CondVar changed = {};
};

// The subscriptions of a client. What users want and what the server has confirmed are kept apart: users change the one
// and go, and the hub's thread works until the other agrees.
//
// The thread starts with the first subscription. It owns the connections, one for each home that the router names,
// sleeps in poll(2) for all of them, and runs all callbacks, so that no two run at the same time.
//
// Invariants:
//  - A channel is in channels_ while it has users, or the server may still send its messages, or a list of the hub's
//    thread holds it; only that thread takes it out.
//  - A channel whose state does not agree with its users is in changed_, in its home's queue, in later_ or in
//    its home's in_flight, or its home is not up.
//  - in_flight holds the commands without a full answer, in the order of sending, which is that of the answers. A
//  channel is in one
//    of them at most, and is so exactly while it is kSubscribing or kUnsubscribing.
//  - homes_ has at most max_homes_ elements, because servers may name homes without end. A channel whose home would be
//    one more waits in later_. Homes without channels then go at the end of the thread's round.
//  - A subscription is confirmed only while its channel is kSubscribed; on_message follows on_subscribed.
//
// mutex_ is the only lock. No callback, and nothing of the router, runs with it held; a scrape takes it below the
// metrics' own.
class SubscriptionHub {
 public:
  // `options`, `router` and `metrics` must live until Stop() has returned. The router has been started, and is stopped
  // before the hub is destroyed.
  SubscriptionHub(const RedisOptions& options, Router* router, ComponentMetrics* metrics, EventFd wake);
  // After Stop().
  ~SubscriptionHub();

  // ResourceExhausted also if the thread cannot be started.
  absl::StatusOr<std::shared_ptr<Subscription>> Subscribe(std::string name, RedisSubscriber subscriber);
  absl::StatusOr<std::shared_ptr<Subscription>> SubscribePattern(std::string pattern,
                                                                 RedisPatternSubscriber subscriber) {
    return Add(std::move(pattern), true, std::move(subscriber));
  }
  void Unsubscribe(Subscription& subscription);
  absl::Status AwaitSubscribed(Subscription& subscription, absl::Duration timeout);

  // Ends all subscriptions. When it returns no callback runs or will run. Waits for an attempt to connect.
  void Stop();

  bool sharded() const { return router_->sharded_channels(); }
  // Channels and patterns that have users.
  size_t wanted() const;

 private:
  // A channel and a pattern may have the same name. `first` is true for a pattern.
  using NameView = std::pair<bool, std::string_view>;
  struct NameHash {
    using is_transparent = void;
    size_t operator()(NameView name) const { return std::hash<std::string_view>()(name.second) ^ (name.first ? 1 : 0); }
  };
  struct NameEqual {
    using is_transparent = void;
    bool operator()(NameView a, NameView b) const { return a == b; }
  };
  using Channel = SubscribedChannel;
  using Home = SubscriptionHome;

  // The first group is for users' threads, and the others are for the hub's thread.
  absl::StatusOr<std::shared_ptr<Subscription>> Add(std::string name, bool pattern, RedisPatternSubscriber subscriber);
  absl::Status NotConfirmed(const Subscription& subscription, absl::Duration timeout) const STOCKADE_REQUIRES(mutex_);
  void MarkChanged(Channel& channel) STOCKADE_REQUIRES(mutex_);
  static std::string Shown(const Subscription& subscription);

  void Work() STOCKADE_EXCLUDES(mutex_);
  bool TakeChanges() STOCKADE_EXCLUDES(mutex_);
  void RetryLater() STOCKADE_EXCLUDES(mutex_);
  void LeaveOldHomes() STOCKADE_EXCLUDES(mutex_);
  void DropUnusedHomes() STOCKADE_EXCLUDES(mutex_);
  void Tend(Home& home) STOCKADE_EXCLUDES(mutex_);
  void ConnectAgain(Home& home) STOCKADE_EXCLUDES(mutex_);
  void SendQueue(Home& home) STOCKADE_EXCLUDES(mutex_);
  SubscriptionCommand NextCommand(Home& home) STOCKADE_EXCLUDES(mutex_);
  void AwaitEvents() STOCKADE_EXCLUDES(mutex_);
  void Receive(Home& home) STOCKADE_EXCLUDES(mutex_);
  void Lose(Home& home, const absl::Status& why) STOCKADE_EXCLUDES(mutex_);

  // An error breaks the connection.
  absl::Status TakeReply(Home& home, const RedisReply& reply) STOCKADE_EXCLUDES(mutex_);
  absl::Status TakeSubscribed(Home& home, NameView name) STOCKADE_EXCLUDES(mutex_);
  absl::Status TakeUnsubscribed(Home& home, NameView name) STOCKADE_EXCLUDES(mutex_);
  absl::Status TakeError(Home& home, std::string_view text) STOCKADE_EXCLUDES(mutex_);
  void Deliver(const Home& home, const PushReply& message) STOCKADE_EXCLUDES(mutex_);

  void Reconcile(Channel& channel) STOCKADE_EXCLUDES(mutex_);
  void Seek(Channel& channel) STOCKADE_EXCLUDES(mutex_);
  void Greet(Channel& channel) STOCKADE_EXCLUDES(mutex_);
  void Refuse(Channel& channel, const absl::Status& why) STOCKADE_EXCLUDES(mutex_);
  void SetHome(Channel& channel, Home* home) STOCKADE_EXCLUDES(mutex_);
  static void LeaveHome(Channel& channel);
  void Unconfirm(Channel& channel) STOCKADE_REQUIRES(mutex_);
  void Discard(Channel& channel) STOCKADE_REQUIRES(mutex_);
  bool Wanted(const Channel& channel) const STOCKADE_EXCLUDES(mutex_);
  Channel* Find(NameView name) STOCKADE_EXCLUDES(mutex_);
  // A pattern is not in a slot: its home has any node.
  absl::StatusOr<std::string> HomeOf(const Channel& channel) const;
  // A copy: what is done to one may take it out of the home.
  static std::vector<Channel*> ChannelsOf(const Home& home);
  template <typename Callback>
  void RunCallback(Subscription& subscription, std::string_view what, Callback callback) STOCKADE_EXCLUDES(mutex_);

  const std::string who_;  // For messages.
  const SubscriptionLineOptions line_options_;
  const size_t max_channels_;
  const size_t max_homes_;
  Router* const router_;
  ComponentMetrics* const metrics_;
  const ForkGuard fork_;
  const EventFd wake_;
  std::atomic<bool> topology_changed_ = false;

  mutable Mutex mutex_;
  std::unordered_map<std::pair<bool, std::string>, std::unique_ptr<Channel>, NameHash, NameEqual> channels_
      STOCKADE_GUARDED_BY(mutex_);
  size_t wanted_ STOCKADE_GUARDED_BY(mutex_) = 0;
  std::vector<Channel*> changed_ STOCKADE_GUARDED_BY(mutex_);  // Channels whose users have changed.
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread::id thread_id_ STOCKADE_GUARDED_BY(mutex_);
  std::thread thread_;  // Started with mutex_ held.

  // The hub's thread's own.
  std::map<std::string, std::unique_ptr<Home>> homes_;
  std::multimap<Instant, Channel*> later_;
  std::vector<std::shared_ptr<Subscription>> addressed_;  // By what is being delivered.
  std::mt19937_64 random_;
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SUBSCRIPTION_HUB_H_

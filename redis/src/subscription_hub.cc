#include "subscription_hub.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"
#include "subscribed_channel.h"

namespace stockade::redis_internal {

SubscriptionHub::SubscriptionHub(const RedisOptions& options, Router* router, ComponentMetrics* metrics, EventFd wake)
    : who_(Concat("redis '", options.name, "'")),
      line_options_{.connect_timeout = options.connect_timeout,
                    .min_backoff = options.min_backoff,
                    .max_backoff = options.max_backoff,
                    // A short command time-out must not cost a new connection after each pause.
                    .silence = std::max(options.command_timeout, options.connect_timeout)},
      max_channels_(options.max_channels),
      max_homes_(options.max_nodes),
      router_(router),
      metrics_(metrics),
      wake_(std::move(wake)),
      random_(std::random_device()()) {
  router->SetOnTopologyChange([this] {
    topology_changed_ = true;
    wake_.Set();
  });
}

SubscriptionHub::~SubscriptionHub() = default;

absl::StatusOr<std::shared_ptr<Subscription>> SubscriptionHub::Subscribe(std::string name, RedisSubscriber subscriber) {
  RedisPatternSubscriber general{.on_subscribed = std::move(subscriber.on_subscribed)};
  if (subscriber.on_message) {
    general.on_message = [on_message = std::move(subscriber.on_message)](std::string_view, std::string_view payload) {
      on_message(payload);
    };
  }
  return Add(std::move(name), false, std::move(general));
}

absl::StatusOr<std::shared_ptr<Subscription>> SubscriptionHub::Add(std::string name, bool pattern,
                                                                   RedisPatternSubscriber subscriber) {
  if (name.size() > kMaxRedisChannelBytes) {
    return absl::InvalidArgumentError(Concat(who_, pattern ? ": a pattern of " : ": a channel name of ", name.size(),
                                             " bytes exceeds ", kMaxRedisChannelBytes));
  }
  const MutexLock lock(mutex_);
  if (stopping_) return absl::CancelledError(Concat(who_, ": the client was destroyed"));
  if (!thread_.joinable()) {
    const absl::Status started = StartThread(thread_, [this] { Work(); });
    if (!started.ok()) return absl::Status(started.code(), Concat(who_, ": ", std::string(started.message())));
    thread_id_ = thread_.get_id();
  }
  std::unique_ptr<Channel>* channel = nullptr;
  if (const auto found = channels_.find(NameView(pattern, name)); found != channels_.end()) {
    channel = &found->second;
  } else if (channels_.size() >= max_channels_) {
    return absl::ResourceExhaustedError(Concat(who_, ": max_channels (", max_channels_, ") is reached"));
  } else {
    channel = &channels_[{pattern, name}];
    channel->reset(new Channel{.name = name, .pattern = pattern});
  }
  auto subscription = std::make_shared<Subscription>(std::move(name), pattern, std::move(subscriber), channel->get());
  if ((*channel)->users.empty()) ++wanted_;
  (*channel)->users.push_back(subscription);
  MarkChanged(**channel);
  return subscription;
}

void SubscriptionHub::Unsubscribe(Subscription& subscription) {
  if (fork_.InForkedChild()) return;
  RedisPatternSubscriber dropped;  // Destroyed after the mutex is released: it is the user's.
  const MutexLock lock(mutex_);
  if (Channel* const channel = std::exchange(subscription.channel, nullptr); channel != nullptr) {
    std::erase_if(channel->users, [&](const auto& user) { return user.get() == &subscription; });
    if (channel->users.empty()) {
      --wanted_;
      MarkChanged(*channel);
    }
  }
  if (subscription.running && std::this_thread::get_id() == thread_id_) {
    subscription.ended_within = true;
    return;
  }
  while (subscription.running) subscription.changed.Wait(mutex_);
  dropped = std::exchange(subscription.subscriber, {});
}

absl::Status SubscriptionHub::AwaitSubscribed(Subscription& subscription, absl::Duration timeout) {
  fork_.Check("RedisSubscription", subscription.name);
  const Instant deadline = Clock::System()->Now() + timeout;
  const MutexLock lock(mutex_);
  for (;;) {
    if (stopping_) return absl::CancelledError(Concat(who_, ": the client was destroyed"));
    if (subscription.confirmed) return absl::OkStatus();
    const absl::Status& refused = subscription.channel->error;
    const bool for_good = !refused.ok() && refused.code() != absl::StatusCode::kUnavailable;
    if (for_good || Clock::System()->Now() >= deadline) return NotConfirmed(subscription, timeout);
    if (std::this_thread::get_id() == thread_id_) {
      return absl::FailedPreconditionError(Concat(who_, ": AwaitSubscribed() was called on the callback thread"));
    }
    subscription.changed.WaitUntil(*Clock::System(), mutex_, deadline);
  }
}

std::string SubscriptionHub::Shown(const Subscription& subscription) {
  return Concat(subscription.pattern ? "pattern '" : "channel '", absl::CHexEscape(AbslView(subscription.name)), "'");
}

absl::Status SubscriptionHub::NotConfirmed(const Subscription& subscription, absl::Duration timeout) const {
  const std::string where = Concat(who_, ": ", Shown(subscription), ": ");
  const Channel& channel = *subscription.channel;
  const absl::Status& why = channel.error.ok() && channel.home != nullptr ? channel.home->error : channel.error;
  if (!why.ok()) return absl::Status(why.code(), Concat(where, std::string(why.message())));
  return absl::DeadlineExceededError(Concat(where, "not confirmed within ", absl::FormatDuration(timeout)));
}

void SubscriptionHub::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const auto& [name, channel] : channels_) {
      for (const std::shared_ptr<Subscription>& user : channel->users) user->changed.NotifyAll();
    }
  }
  wake_.Set();
  if (thread_.joinable()) thread_.join();
  homes_.clear();
  const MutexLock lock(mutex_);
  for (const auto& [name, channel] : channels_) {
    for (const std::shared_ptr<Subscription>& user : channel->users) user->channel = nullptr;
  }
  changed_.clear();
  channels_.clear();
  wanted_ = 0;
}

size_t SubscriptionHub::wanted() const {
  const MutexLock lock(mutex_);
  return wanted_;
}

void SubscriptionHub::MarkChanged(Channel& channel) {
  if (std::exchange(channel.changed, true)) return;
  changed_.push_back(&channel);
  if (changed_.size() == 1) wake_.Set();
}

}  // namespace stockade::redis_internal

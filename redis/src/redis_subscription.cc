#include "stockade/redis/redis_subscription.h"

#include <utility>

#include "subscription_hub.h"

namespace stockade {

RedisSubscription::RedisSubscription(std::shared_ptr<redis_internal::SubscriptionHub> hub,
                                     std::shared_ptr<redis_internal::Subscription> subscription)
    : hub_(std::move(hub)), subscription_(std::move(subscription)) {}

RedisSubscription& RedisSubscription::operator=(RedisSubscription&& other) noexcept {
  if (this != &other) {
    Unsubscribe();
    hub_ = std::move(other.hub_);
    subscription_ = std::move(other.subscription_);
  }
  return *this;
}

void RedisSubscription::Unsubscribe() {
  if (subscription_ == nullptr) return;
  hub_->Unsubscribe(*subscription_);
  subscription_.reset();
  hub_.reset();
}

absl::Status RedisSubscription::AwaitSubscribed(Duration timeout) const {
  if (subscription_ == nullptr) return absl::FailedPreconditionError("redis: the subscription has ended");
  return hub_->AwaitSubscribed(*subscription_, timeout);
}

std::string_view RedisSubscription::channel() const {
  return subscription_ == nullptr ? std::string_view() : subscription_->name;
}

}  // namespace stockade

#ifndef STOCKADE_TESTS_REDIS_SUPPORT_EAR_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_EAR_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "stockade/redis/redis_subscription.h"

namespace stockade::testing {

// Records the callbacks of a subscription. Outlives it. Thread-safe.
class Ear {
 public:
  RedisSubscriber subscriber() {
    return {.on_message = [this](std::string_view payload) { Note([&] { heard_.emplace_back(payload); }); },
            .on_subscribed = [this] { Note([&] { ++confirmations_; }); }};
  }

  // Hears each message as "channel: payload".
  RedisPatternSubscriber pattern_subscriber() {
    return {.on_message =
                [this](std::string_view channel, std::string_view payload) {
                  Note([&] { heard_.push_back(std::string(channel) + ": " + std::string(payload)); });
                },
            .on_subscribed = [this] { Note([&] { ++confirmations_; }); }};
  }

  // Block until there are so many or more; false where that takes 30 seconds.
  bool AwaitMessages(size_t count) {
    return Await([&] { return heard_.size() >= count; });
  }
  bool AwaitMessage(std::string_view payload) {
    return Await([&] { return std::find(heard_.begin(), heard_.end(), payload) != heard_.end(); });
  }
  bool AwaitConfirmations(int count) {
    return Await([&] { return confirmations_ >= count; });
  }

  std::vector<std::string> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  int confirmations() const {
    const std::lock_guard lock(mutex_);
    return confirmations_;
  }

 private:
  template <typename Change>
  void Note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Predicate>
  bool Await(Predicate holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(10), holds);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
  int confirmations_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_EAR_H_

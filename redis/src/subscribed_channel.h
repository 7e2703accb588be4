#ifndef STOCKADE_REDIS_SUBSCRIBED_CHANNEL_H_
#define STOCKADE_REDIS_SUBSCRIBED_CHANNEL_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "stockade/base/instant.h"
#include "subscription_hub.h"
#include "subscription_line.h"

namespace stockade::redis_internal {

// A channel, or a pattern of channels, that somebody wants, or that is on its way out.
struct SubscribedChannel {
  // What the server knows on the connection that there is.
  enum class State { kAbsent, kSubscribing, kSubscribed, kUnsubscribing };
  // Which list of the hub's thread holds it.
  enum class Place { kNowhere, kQueue, kLater };

  const std::string name;
  const bool pattern;

  // The hub's mutex guards these. Only the hub's thread writes `home` and `error`, and it reads them without the mutex.
  std::vector<std::shared_ptr<Subscription>> users = {};
  bool changed = false;              // It is in changed_.
  SubscriptionHome* home = nullptr;  // Null: not known.
  absl::Status error = {};           // Why the server, or the router, has refused it last.

  // The hub's thread's own.
  State state = State::kAbsent;
  Place place = Place::kNowhere;
  bool alone = false;  // Not in one command with others: one of them was refused.
  int refusals = 0;    // In a row.
};

// A command that waits for answers, one for each channel, or one error for all.
struct SubscriptionCommand {
  bool subscribe = true;  // Or unsubscribe.
  bool pattern = false;   // What its channels are.
  std::vector<SubscribedChannel*> channels = {};
  size_t answered = 0;
};

// Where channels live together: a connection.
struct SubscriptionHome {
  const std::string name;
  SubscriptionLine line;
  std::unordered_set<SubscribedChannel*> channels = {};  // Whose home it is.
  Instant unused_since = {};                             // Since when it has none.
  std::deque<SubscribedChannel*> queue = {};             // To be looked at once there is room for commands.
  std::deque<SubscriptionCommand> in_flight = {};
  absl::Status error = {};  // Why it is not up. The hub's mutex guards it like a channel's error.
};

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SUBSCRIBED_CHANNEL_H_

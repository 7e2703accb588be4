// The hub's thread: it makes the server agree with what users want, and tells users what came.
#include <poll.h>

#include <algorithm>
#include <utility>

#include "now.h"
#include "push_reply.h"
#include "redis_metrics.h"
#include "status.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_command.h"
#include "subscribed_channel.h"
#include "subscription_hub.h"

namespace stockade::redis_internal {
namespace {

using State = SubscribedChannel::State;
using Place = SubscribedChannel::Place;

// Channels in one command, and bytes of their names after which no other is added.
constexpr size_t kMostChannels = 512;
constexpr size_t kMostNameBytes = size_t{64} << 10;

}  // namespace

void SubscriptionHub::Work() {
  while (TakeChanges()) {
    RetryLater();
    if (topology_changed_.exchange(false)) LeaveOldHomes();
    for (const auto& [name, home] : homes_) Tend(*home);
    DropUnusedHomes();
    AwaitEvents();
  }
}

bool SubscriptionHub::TakeChanges() {
  std::vector<Channel*> changes;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return false;
    changes.swap(changed_);
    for (Channel* channel : changes) channel->changed = false;
  }
  for (Channel* channel : changes) Reconcile(*channel);
  return true;
}

void SubscriptionHub::RetryLater() {
  const Instant now = Now();
  while (!later_.empty() && later_.begin()->first <= now) {
    Channel& channel = *later_.begin()->second;
    later_.erase(later_.begin());
    channel.place = Place::kNowhere;
    Seek(channel);
  }
}

// A connection to where no channel is heard any more is dropped: the server may be a master no longer, or stand still.
// Where some are, the server itself tells which are not.
void SubscriptionHub::LeaveOldHomes() {
  std::vector<Home*> up;
  for (const auto& [name, home] : homes_) {
    if (home->line.up() && !home->channels.empty()) up.push_back(home.get());
  }
  for (Home* home : up) {
    const std::vector<Channel*> channels = ChannelsOf(*home);
    const bool left = std::all_of(channels.begin(), channels.end(), [&](const Channel* channel) {
      const absl::StatusOr<std::string> now = HomeOf(*channel);
      return now.ok() && *now != home->name;
    });
    if (!left) continue;
    Lose(*home, absl::UnavailableError(Concat(home->name, " no longer has the channels")));
    for (Channel* channel : ChannelsOf(*home)) {
      if (channel->place == Place::kNowhere) Seek(*channel);
    }
  }
}

void SubscriptionHub::DropUnusedHomes() {
  const bool full = homes_.size() >= max_homes_;
  std::erase_if(homes_, [&](const auto& entry) {
    const Home& home = *entry.second;
    if (!home.channels.empty() || home.line.connecting()) return false;
    return full || !home.line.up() || Now() >= home.unused_since + line_options_.silence;
  });
}

void SubscriptionHub::Tend(Home& home) {
  const Instant now = Now();
  if (const std::optional<absl::Status> ended = home.line.TakeAttempt(now)) {
    metrics_->Add(ended->ok() ? kRedisConnectSuccesses : kRedisConnectErrors);
    {
      const MutexLock lock(mutex_);
      home.error = *ended;
    }
    if (ended->ok() && !home.name.empty() && home.name != home.line.endpoint().ToString()) {
      // The channel that it was made for has moved in between.
      Lose(home,
           absl::UnavailableError(Concat("a connection to ", home.line.endpoint().ToString(), " for ", home.name)));
    } else if (ended->ok()) {
      for (Channel* channel : ChannelsOf(home)) Reconcile(*channel);
    }
  }
  if (!home.channels.empty() && home.line.MayConnect(now)) ConnectAgain(home);
  if (home.line.up()) SendQueue(home);
}

void SubscriptionHub::ConnectAgain(Home& home) {
  // Since it was here, a channel may have moved.
  for (Channel* channel : ChannelsOf(home)) {
    if (channel->place == Place::kNowhere) Seek(*channel);
  }
  const std::vector<Channel*> channels = ChannelsOf(home);
  if (channels.empty()) return;
  home.line.Connect(
      [router = router_, name = channels.front()->name, pattern = channels.front()->pattern](Instant deadline) {
        return pattern ? router->ConnectForPattern(deadline) : router->ConnectForChannel(name, deadline);
      },
      Now(), &wake_);
}

void SubscriptionHub::SendQueue(Home& home) {
  while (home.line.HasRoom() && !home.queue.empty()) {
    SubscriptionCommand next = NextCommand(home);
    if (next.channels.empty()) continue;
    const std::string_view kind = next.pattern ? "P" : sharded() ? "S" : "";
    RedisCommand command(Concat(kind, next.subscribe ? "SUBSCRIBE" : "UNSUBSCRIBE"));
    for (const Channel* channel : next.channels) command.Arg(channel->name);
    home.line.Write(command.Wire());
    home.in_flight.push_back(std::move(next));
  }
  const absl::Status sent = home.line.Flush();
  if (!sent.ok()) Lose(home, sent);
}

SubscriptionCommand SubscriptionHub::NextCommand(Home& home) {
  SubscriptionCommand command;
  // Sharded: channels of one command must be of one slot, and few are.
  size_t most = kMostChannels;
  size_t bytes = 0;
  while (!home.queue.empty() && command.channels.size() < most && bytes < kMostNameBytes) {
    Channel& channel = *home.queue.front();
    const bool wanted = Wanted(channel);
    const bool subscribe = wanted && channel.state == State::kAbsent;
    const bool needs_command = subscribe || (!wanted && channel.state == State::kSubscribed);
    if (needs_command && !command.channels.empty() &&
        (subscribe != command.subscribe || channel.pattern != command.pattern || channel.alone)) {
      break;
    }
    home.queue.pop_front();
    channel.place = Place::kNowhere;
    if (!needs_command) {
      Reconcile(channel);
      continue;
    }
    channel.state = subscribe ? State::kSubscribing : State::kUnsubscribing;
    bytes += channel.name.size();
    command.subscribe = subscribe;
    command.pattern = channel.pattern;
    if (sharded() && !channel.pattern) most = 1;
    command.channels.push_back(&channel);
    if (channel.alone) break;
  }
  return command;
}

void SubscriptionHub::AwaitEvents() {
  std::vector<pollfd> ready = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  std::vector<Home*> polled;
  Instant deadline = later_.empty() ? Instant::InfiniteFuture() : later_.begin()->first;
  for (const auto& [name, home] : homes_) {
    deadline = std::min(deadline, home->line.wakes_at());
    if (!home->line.up()) continue;
    if (home->channels.empty()) deadline = std::min(deadline, home->unused_since + line_options_.silence);
    const int events = home->line.blocked() ? POLLIN | POLLOUT : POLLIN;
    ready.push_back({.fd = home->line.fd(), .events = static_cast<short>(events), .revents = 0});
    polled.push_back(home.get());
  }
  // Read before: what comes while this thread then stands still must not count as silence.
  const Instant polled_at = Now();
  Poll(ready, deadline);
  if (ready[0].revents != 0) wake_.Clear();
  for (size_t i = 0; i < polled.size(); ++i) {
    if ((ready[i + 1].revents & ~POLLOUT) != 0) {
      Receive(*polled[i]);
    } else if (const absl::Status alive = polled[i]->line.JudgeSilence(polled_at, Now()); !alive.ok()) {
      Lose(*polled[i], alive);
    }
  }
}

void SubscriptionHub::Receive(Home& home) {
  absl::StatusOr<bool> more = home.line.Receive(Now());
  RedisReply reply;
  while (more.ok() && *more) {
    more = home.line.Next(reply);
    if (!more.ok() || !*more) break;
    const absl::Status taken = TakeReply(home, reply);
    if (!taken.ok()) more = taken;
  }
  if (!more.ok()) Lose(home, more.status());
}

void SubscriptionHub::Lose(Home& home, const absl::Status& why) {
  metrics_->Add(kRedisConnectionsLost);
  home.queue.clear();
  home.in_flight.clear();
  home.line.Lose(Now());
  const std::vector<Channel*> channels = ChannelsOf(home);
  const MutexLock lock(mutex_);
  home.error = absl::UnavailableError(Concat("the connection was lost: ", std::string(why.message())));
  for (Channel* channel : channels) {
    Unconfirm(*channel);
    channel->state = State::kAbsent;
    if (channel->place == Place::kQueue) channel->place = Place::kNowhere;
    Discard(*channel);
  }
}

absl::Status SubscriptionHub::TakeReply(Home& home, const RedisReply& reply) {
  const PushReply push = ReadPushReply(reply, sharded());
  absl::Status taken = absl::DataLossError("its type was not expected");
  switch (push.kind) {
    case PushReply::Kind::kMessage: Deliver(home, push); return absl::OkStatus();
    case PushReply::Kind::kSubscribed: taken = TakeSubscribed(home, {push.pattern, push.channel}); break;
    case PushReply::Kind::kUnsubscribed: taken = TakeUnsubscribed(home, {push.pattern, push.channel}); break;
    case PushReply::Kind::kError: taken = TakeError(home, push.text); break;
    case PushReply::Kind::kPong: taken = home.line.TakePong(); break;
    case PushReply::Kind::kOther: break;
  }
  if (taken.ok()) return taken;
  return absl::DataLossError(Concat(home.line.endpoint().ToString(), ": a reply (", RedisReplyKindName(reply.kind()),
                                    ") on a connection for subscriptions: ", std::string(taken.message())));
}

void SubscriptionHub::Deliver(const Home& home, const PushReply& message) {
  metrics_->Add(kRedisMessages);
  {
    const MutexLock lock(mutex_);
    const auto found = channels_.find(NameView(message.pattern, message.channel));
    // What is still on its way when a subscription ends.
    if (found == channels_.end() || found->second->home != &home) return;
    for (const std::shared_ptr<Subscription>& user : found->second->users) {
      if (user->confirmed) addressed_.push_back(user);
    }
  }
  for (const std::shared_ptr<Subscription>& user : addressed_) {
    RunCallback(*user, "on_message", [&] {
      if (user->subscriber.on_message) user->subscriber.on_message(message.published, message.text);
    });
  }
  addressed_.clear();
}

void SubscriptionHub::Greet(Channel& channel) {
  {
    const MutexLock lock(mutex_);
    for (const std::shared_ptr<Subscription>& user : channel.users) {
      if (std::exchange(user->confirmed, true)) continue;
      user->changed.NotifyAll();
      addressed_.push_back(user);
    }
  }
  for (const std::shared_ptr<Subscription>& user : addressed_) {
    RunCallback(*user, "on_subscribed", [&] {
      if (user->subscriber.on_subscribed) user->subscriber.on_subscribed();
    });
  }
  addressed_.clear();
}

template <typename Callback>
void SubscriptionHub::RunCallback(Subscription& subscription, std::string_view what, Callback callback) {
  {
    const MutexLock lock(mutex_);
    if (stopping_ || subscription.channel == nullptr) return;
    subscription.running = true;
  }
  const absl::Status ran = GuardCallback<absl::Status>(what, [&] {
    callback();
    return absl::OkStatus();
  });
  if (!ran.ok()) {
    Log(LogSeverity::kError, Concat(who_, ": ", Shown(subscription), ": ", std::string(ran.message())));
  }
  RedisPatternSubscriber dropped;  // Destroyed after the mutex is released: it is the user's.
  const MutexLock lock(mutex_);
  subscription.running = false;
  if (subscription.ended_within) dropped = std::exchange(subscription.subscriber, {});
  subscription.changed.NotifyAll();
}

absl::Status SubscriptionHub::TakeSubscribed(Home& home, NameView name) {
  if (home.in_flight.empty() || !home.in_flight.front().subscribe) {
    return absl::DataLossError("no command asked for it");
  }
  SubscriptionCommand& command = home.in_flight.front();
  Channel& channel = *command.channels[command.answered];
  if (NameView(channel.pattern, channel.name) != name)
    return absl::DataLossError("a reply for another channel was due");
  if (++command.answered == command.channels.size()) home.in_flight.pop_front();
  channel.state = State::kSubscribed;
  channel.alone = false;
  channel.refusals = 0;
  {
    const MutexLock lock(mutex_);
    channel.error = absl::OkStatus();
  }
  Reconcile(channel);
  return absl::OkStatus();
}

absl::Status SubscriptionHub::TakeUnsubscribed(Home& home, NameView name) {
  if (!home.in_flight.empty() && !home.in_flight.front().subscribe) {
    SubscriptionCommand& command = home.in_flight.front();
    Channel& channel = *command.channels[command.answered];
    if (NameView(channel.pattern, channel.name) == name) {
      if (++command.answered == command.channels.size()) home.in_flight.pop_front();
      channel.state = State::kAbsent;
      Reconcile(channel);
      return absl::OkStatus();
    }
  }
  Channel* const channel = sharded() && !name.first ? Find(name) : nullptr;
  if (channel == nullptr || channel->home != &home) return absl::DataLossError("no command asked for it");
  // The slot has gone from the server, which then answers our own command with MOVED.
  if (channel->state == State::kUnsubscribing) return absl::OkStatus();
  if (channel->state != State::kSubscribed) return absl::DataLossError("not subscribed");
  channel->state = State::kAbsent;
  {
    const MutexLock lock(mutex_);
    Unconfirm(*channel);
  }
  router_->OnChannelMoved(channel->name, "");
  // In the queue, it finds out there.
  if (channel->place == Place::kNowhere) Refuse(*channel, absl::UnavailableError("the channel's slot has moved"));
  return absl::OkStatus();
}

absl::Status SubscriptionHub::TakeError(Home& home, std::string_view text) {
  if (home.in_flight.empty() || home.in_flight.front().answered > 0) {
    return absl::DataLossError("no command waits for it");
  }
  const SubscriptionCommand command = std::move(home.in_flight.front());
  home.in_flight.pop_front();
  const bool moved = ErrorCodeOf(text) == "MOVED";
  // A channel that is no longer there needs no unsubscribing.
  if (!command.subscribe && !moved) return absl::DataLossError("UNSUBSCRIBE was refused");
  for (Channel* channel : command.channels) {
    channel->state = State::kAbsent;
    if (command.subscribe && command.channels.size() == 1) {
      if (moved) router_->OnChannelMoved(channel->name, text);
      Refuse(*channel, StatusOfErrorReply(text));
    } else {
      channel->alone = command.subscribe;  // Which of them is refused, each will tell.
      Reconcile(*channel);
    }
  }
  return absl::OkStatus();
}

// Does what the channel needs next, if it is not being done.
void SubscriptionHub::Reconcile(Channel& channel) {
  if (channel.place != Place::kNowhere) return;
  const bool wanted = Wanted(channel);
  switch (channel.state) {
    case State::kSubscribing:
    case State::kUnsubscribing: return;
    case State::kSubscribed:
      if (wanted) return Greet(channel);
      break;
    case State::kAbsent:
      if (!wanted) {
        const MutexLock lock(mutex_);
        Discard(channel);
        return;
      }
      if (channel.home == nullptr) return Seek(channel);
      break;
  }
  if (!channel.home->line.up()) return;
  channel.place = Place::kQueue;
  channel.home->queue.push_back(&channel);
}

// Asks where a channel lives that is kAbsent and in no list.
void SubscriptionHub::Seek(Channel& channel) {
  if (!Wanted(channel)) {
    const MutexLock lock(mutex_);
    Discard(channel);
    return;
  }
  const absl::StatusOr<std::string> name = HomeOf(channel);
  if (!name.ok()) {
    SetHome(channel, nullptr);
    return Refuse(channel, name.status());
  }
  if (!homes_.contains(*name) && homes_.size() >= max_homes_) {
    SetHome(channel, nullptr);
    return Refuse(channel, absl::UnavailableError(Concat("not connected to ", *name, ": connections to ", max_homes_,
                                                         " nodes are in use (RedisOptions.max_nodes)")));
  }
  std::unique_ptr<Home>& home = homes_[*name];
  if (home == nullptr) home.reset(new Home{.name = *name, .line = SubscriptionLine(line_options_, random_())});
  SetHome(channel, home.get());
  Reconcile(channel);
}

// It is tried again after a pause, or at once where it now has another home.
void SubscriptionHub::Refuse(Channel& channel, const absl::Status& why) {
  Home* const before = channel.home;
  {
    const MutexLock lock(mutex_);
    channel.error = why;
    for (const std::shared_ptr<Subscription>& user : channel.users) user->changed.NotifyAll();
  }
  if (before != nullptr) {
    const absl::StatusOr<std::string> now = HomeOf(channel);
    if (now.ok() && *now != before->name) return Seek(channel);
  }
  const absl::Duration span = line_options_.min_backoff * (1 << std::min(channel.refusals++, 16));
  Backoff pause(std::min(span, line_options_.max_backoff), line_options_.max_backoff, random_());
  channel.place = Place::kLater;
  later_.emplace(Now() + pause.Next(), &channel);
}

void SubscriptionHub::SetHome(Channel& channel, Home* home) {
  if (channel.home == home) return;
  LeaveHome(channel);
  if (home != nullptr) home->channels.insert(&channel);
  const MutexLock lock(mutex_);
  channel.home = home;
}

void SubscriptionHub::LeaveHome(Channel& channel) {
  if (channel.home == nullptr) return;
  channel.home->channels.erase(&channel);
  if (channel.home->channels.empty()) channel.home->unused_since = Now();
}

void SubscriptionHub::Unconfirm(Channel& channel) {
  for (const std::shared_ptr<Subscription>& user : channel.users) user->confirmed = false;
}

// Forgets a channel that nobody wants, whom the server does not know, and that no list holds.
void SubscriptionHub::Discard(Channel& channel) {
  if (!channel.users.empty() || channel.changed || channel.place != Place::kNowhere) return;
  LeaveHome(channel);
  channels_.erase(channels_.find(NameView(channel.pattern, channel.name)));
}

bool SubscriptionHub::Wanted(const Channel& channel) const {
  const MutexLock lock(mutex_);
  return !channel.users.empty();
}

absl::StatusOr<std::string> SubscriptionHub::HomeOf(const Channel& channel) const {
  if (channel.pattern && sharded()) return std::string();
  return router_->ChannelHome(channel.name);
}

SubscriptionHub::Channel* SubscriptionHub::Find(NameView name) {
  const MutexLock lock(mutex_);
  const auto found = channels_.find(name);
  return found == channels_.end() ? nullptr : found->second.get();
}

std::vector<SubscriptionHub::Channel*> SubscriptionHub::ChannelsOf(const Home& home) {
  return {home.channels.begin(), home.channels.end()};
}

}  // namespace stockade::redis_internal

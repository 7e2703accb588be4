#include "sentinel_router.h"

#include <random>
#include <span>
#include <utility>
#include <vector>

#include "connect.h"
#include "now.h"
#include "stockade/base/clock.h"
#include "stockade/base/start_thread.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// Sleeps until something comes, or until `deadline`, and takes in all that came. False: the connection is broken.
bool AwaitEvent(Link& events, Instant deadline) {
  pollfd ready{.fd = events.fd(), .events = POLLIN, .revents = 0};
  Poll({&ready, 1}, deadline);
  absl::StatusOr<bool> more = events.Receive();
  RedisReply event;
  while (more.ok() && *more) more = events.Next(event);
  return more.ok();
}

}  // namespace

SentinelRouter::SentinelRouter(const RedisUrl& url, const RedisOptions& options, std::shared_ptr<TlsConfig> tls,
                               TimerQueue* timers, ComponentMetrics* metrics)
    : options_(options),
      sentinels_(url, options, std::move(tls)),
      timers_(timers),
      metrics_(metrics),
      single_([this](Instant deadline) { return Connect(deadline); }, true, PipelineOptionsOf(options), timers,
              metrics) {}

absl::Status SentinelRouter::Start(bool wait) {
  absl::Status started = single_.Start(wait);
  if (started.ok()) started = StartThread(thread_, [this] { Watch(); });
  return started;
}

absl::StatusOr<Hop> SentinelRouter::RouteToReplica(const RedisCommand& command) {
  {
    const MutexLock lock(mutex_);
    if (replica_ == nullptr && !stopping_) {
      absl::StatusOr<std::shared_ptr<Pipeline>> started =
          Pipeline::Start([this](Instant deadline) { return sentinels_.ConnectToReplica(deadline); },
                          PipelineOptionsOf(options_), timers_, metrics_);
      if (!started.ok()) return started.status();
      replica_ = *std::move(started);
    }
    if (replica_ != nullptr && replica_->connected()) return Hop{.pipeline = replica_, .at_replica = true};
  }
  return Route(command);
}

size_t SentinelRouter::pending() const {
  const MutexLock lock(mutex_);
  return single_.pending() + (replica_ != nullptr ? replica_->pending() : 0);
}

void SentinelRouter::Stop() {
  std::shared_ptr<Pipeline> replica;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    replica = replica_;
    if (events_ != nullptr) events_->ShutDown();
  }
  stopped_.NotifyAll();
  single_.Stop();
  if (replica != nullptr) replica->Stop();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::string> SentinelRouter::ChannelHome(std::string_view) {
  const MutexLock lock(mutex_);
  return master_ ? master_->ToString() : std::string();
}

absl::StatusOr<std::unique_ptr<Link>> SentinelRouter::Connect(Instant deadline) {
  absl::StatusOr<std::unique_ptr<Link>> link = sentinels_.ConnectToMaster(deadline);
  if (link.ok()) SetMaster((*link)->endpoint());
  return link;
}

void SentinelRouter::SetMaster(const RedisEndpoint& master) {
  std::shared_ptr<Pipeline> replica;
  {
    const MutexLock lock(mutex_);
    if (master_ == master) return;
    master_ = master;
    replica = replica_;
  }
  // It may be the new master, or follow the old one.
  if (replica != nullptr) replica->Drop(absl::UnavailableError("the Sentinels name another master"));
  TopologyChanged();
}

void SentinelRouter::Watch() {
  Backoff backoff(options_.min_backoff, options_.max_backoff, std::random_device{}());
  for (;;) {
    const RedisEndpoint sentinel = sentinels_.Next();
    if (WatchAt(sentinel)) backoff.Reset();
    sentinels_.Failed(sentinel);
    if (!PauseUntil(Now() + backoff.Next())) return;
  }
}

bool SentinelRouter::PauseUntil(Instant until) {
  const MutexLock lock(mutex_);
  while (!stopping_ && stopped_.WaitUntil(*Clock::System(), mutex_, until)) {
  }
  return !stopping_;
}

bool SentinelRouter::WatchAt(const RedisEndpoint& sentinel) {
  const Instant deadline = Now() + options_.connect_timeout;
  const absl::StatusOr<std::unique_ptr<Link>> events = sentinels_.Connect(sentinel, deadline);
  if (!events.ok()) return false;
  const absl::StatusOr<std::unique_ptr<Link>> asks = sentinels_.Connect(sentinel, deadline);
  if (!asks.ok()) return false;
  const RedisCommand subscribe = RedisCommand("SUBSCRIBE").Arg("+switch-master");
  const absl::StatusOr<std::vector<RedisReply>> subscribed = (*events)->RoundTrip({&subscribe, 1}, deadline);
  if (!subscribed.ok() || subscribed->front().is_error()) return false;
  {
    const MutexLock lock(mutex_);
    if (stopping_) return false;
    events_ = events->get();
  }
  const bool was_of_use = WatchOn(**events, **asks);
  const MutexLock lock(mutex_);
  events_ = nullptr;
  return was_of_use;
}

bool SentinelRouter::WatchOn(Link& events, Link& asks) {
  bool was_of_use = false;
  Backoff between(kLeastBetween, kMostBetween, std::random_device{}());
  for (;;) {
    const Instant asked_at = Now();
    const absl::StatusOr<RedisEndpoint> master = sentinels_.AskForMaster(asks, Now() + options_.connect_timeout);
    if (!master.ok() || !Follow(*master)) return was_of_use;
    was_of_use = true;
    // Which master an event is about, the next answer tells.
    if (!AwaitEvent(events, Now() + kAskEvery)) return was_of_use;
    if (Now() - asked_at > kMostBetween) between.Reset();
    // A Sentinel may send events without end; what it names by then is asked for all the same.
    if (!PauseUntil(asked_at + between.Next())) return was_of_use;
  }
}

bool SentinelRouter::Follow(const RedisEndpoint& master) {
  bool known = false;
  {
    const MutexLock lock(mutex_);
    known = master_ == master;
  }
  if (!known) {
    if (!sentinels_.ConnectAsMaster(master, Now() + options_.connect_timeout).ok()) return false;
    SetMaster(master);
  }
  // Also where it was known: a connection to the last master may have been under way.
  single_.DropUnlessTo(master,
                       absl::UnavailableError(Concat("the Sentinels name another master, ", master.ToString())));
  if (!known) single_.ConnectNow();
  return true;
}

}  // namespace stockade::redis_internal

#include "stockade/redis/redis_client.h"

#include <atomic>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "async_call.h"
#include "attempt.h"
#include "connect.h"
#include "now.h"
#include "redis_metrics.h"
#include "router.h"
#include "status.h"
#include "stockade/base/clock.h"
#include "stockade/base/event_fd.h"
#include "stockade/base/executor.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/base/timer_queue.h"
#include "stockade/redis/redis_url.h"
#include "subscription_hub.h"

namespace stockade {
namespace {

// A callback of RunAsync() and its result.
struct AsyncReply {
  // The first time: an executor may run a task and throw all the same.
  void Call() {
    if (!called.exchange(true, std::memory_order_acq_rel)) std::exchange(done, nullptr)(std::move(result));
  }

  RedisClient::Callback done;
  absl::StatusOr<RedisReply> result;
  std::atomic<bool> called{false};
};

// If the executor throws, it has not taken the callback, which then runs here.
void Deliver(Executor& executor, RedisClient::Callback done, absl::StatusOr<RedisReply> result,
             const std::string& client) {
  const auto reply = std::make_shared<AsyncReply>(std::move(done), std::move(result));
  const auto thrown = base_internal::GuardCallback<absl::Status>("callback_executor", [&] {
    executor.Schedule([reply] { reply->Call(); });
    return absl::OkStatus();
  });
  if (thrown.ok()) return;
  base_internal::Log(LogSeverity::kError, base_internal::Concat("redis '", client, "': ", thrown.message()));
  InlineExecutor().Schedule([reply] { reply->Call(); });
}

}  // namespace

struct RedisClient::Impl {
  explicit Impl(RedisOptions given)
      : options(std::move(given)),
        timers(Clock::System()),
        metrics(options.metrics, redis_internal::RedisMetricDefs(), {{"client", options.name}}) {}

  ~Impl() {
    if (router == nullptr) return;
    // Its callbacks may still send commands.
    if (hub != nullptr) hub->Stop();
    // What is pending ends here, what waits for a timer with the timers; then nobody is left who would go on.
    router->Stop();
    timers.Stop();
    // Callbacks may still send commands; those are Cancelled.
    own_thread.Finish();
  }

  // The executor that runs the callback of a command. ResourceExhausted: its thread cannot be started.
  absl::StatusOr<Executor*> CallbackExecutor() {
    if (options.callback_executor != nullptr) return options.callback_executor;
    if (absl::Status started = own_thread.Start(); !started.ok()) return started;
    return &own_thread;
  }

  Instant DeadlineAfter(std::optional<absl::Duration> call_timeout) const {
    fork.Check("RedisClient", options.name);
    const absl::Duration timeout = call_timeout.value_or(options.command_timeout);
    return timeout > absl::ZeroDuration() ? redis_internal::Now() + timeout : Instant::InfinitePast();
  }
  redis_internal::CallTerms TermsOf(RedisCallOptions call) const {
    return {.deadline = DeadlineAfter(call.timeout),
            .on_server = std::move(call.on_server),
            .read_from = call.read_from,
            .retry = call.retry};
  }

  redis_internal::Attempt Begin(const RedisCommand& command, redis_internal::CallTerms terms) {
    return redis_internal::Attempt(&command, router.get(), &metrics, std::move(terms));
  }

  // Sends a command, and waits for what comes of it. False: `request` has its end.
  bool Send(redis_internal::Attempt& attempt, redis_internal::Request& request) {
    absl::Status prepared = attempt.Prepare(request);
    if (prepared.ok()) {
      attempt.pipeline()->Run({&request, 1}, attempt.deadline());
      return true;
    }
    const bool may_wait = redis_internal::IsNoRoom(prepared);
    request.result = std::move(prepared);
    return may_wait;
  }

  // Goes on with a command, from what came of sending it, to its end.
  absl::StatusOr<RedisReply> Finish(redis_internal::Attempt& attempt, redis_internal::Request& request) {
    while (const std::optional<absl::Duration> pause = attempt.Judge(request.result)) {
      if (*pause > absl::ZeroDuration()) absl::SleepFor(*pause);
      if (!Send(attempt, request)) break;
    }
    return Conclude(std::move(request.result));
  }

  absl::StatusOr<RedisReply> Conclude(absl::StatusOr<RedisReply> result) {
    redis_internal::CountResult(result.status(), metrics);
    return result;
  }

  void Start(RedisCommand command, redis_internal::CallTerms terms, redis_internal::ReplyCallback done) {
    redis_internal::AsyncCall::Start(std::move(command), router.get(), &timers, &metrics, std::move(terms),
                                     std::move(done));
  }

  const RedisOptions options;
  const base_internal::ForkGuard fork;
  base_internal::LazyThreadPool own_thread{1};
  base_internal::TimerQueue timers;
  std::unique_ptr<redis_internal::Router> router;
  std::shared_ptr<redis_internal::SubscriptionHub> hub;  // Shared with the subscriptions.
  metrics_internal::ComponentMetrics metrics;
};

RedisClient::RedisClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RedisClient::~RedisClient() {
  if (impl_->fork.InForkedChild()) (void)impl_.release();
}

absl::StatusOr<std::unique_ptr<RedisClient>> RedisClient::Connect(std::string_view url, RedisOptions options) {
  const absl::StatusOr<RedisUrl> parsed = ParseRedisUrl(url);
  if (!parsed.ok()) return parsed.status();
  const absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  auto impl = std::make_unique<Impl>(std::move(options));
  absl::StatusOr<std::unique_ptr<redis_internal::Router>> router =
      redis_internal::MakeRouter(*parsed, impl->options, &impl->timers, &impl->metrics);
  if (!router.ok()) return router.status();
  impl->router = *std::move(router);
  const absl::Status started = impl->router->Start(impl->options.wait_for_connection);
  if (!started.ok()) return started;
  impl->metrics.AddGauge(redis_internal::kRedisPendingCommands,
                         [router = impl->router.get()] { return static_cast<double>(router->pending()); });
  absl::StatusOr<base_internal::EventFd> wake = base_internal::EventFd::Create();
  if (!wake.ok()) return wake.status();
  impl->hub = std::make_shared<redis_internal::SubscriptionHub>(impl->options, impl->router.get(), &impl->metrics,
                                                                *std::move(wake));
  impl->metrics.AddGauge(redis_internal::kRedisSubscriptions,
                         [hub = impl->hub.get()] { return static_cast<double>(hub->wanted()); });
  return std::unique_ptr<RedisClient>(new RedisClient(std::move(impl)));
}

absl::StatusOr<RedisReply> RedisClient::Run(const RedisCommand& command, RedisCallOptions options) {
  redis_internal::Attempt attempt = impl_->Begin(command, impl_->TermsOf(std::move(options)));
  redis_internal::Request request;
  if (!impl_->Send(attempt, request)) return impl_->Conclude(std::move(request.result));
  return impl_->Finish(attempt, request);
}

std::vector<absl::StatusOr<RedisReply>> RedisClient::RunMany(std::span<const RedisCommand> commands,
                                                             RedisCallOptions options) {
  const redis_internal::CallTerms terms = impl_->TermsOf(std::move(options));
  std::vector<absl::StatusOr<RedisReply>> results(commands.size(), absl::UnknownError("not answered"));
  std::vector<redis_internal::Attempt> attempts;
  std::vector<redis_internal::Request> requests;
  std::vector<size_t> places;  // Of those that are sent, in `commands`.
  bool one_server = true;      // And no command has to wait for its connection.
  for (size_t i = 0; i < commands.size(); ++i) {
    redis_internal::Attempt attempt = impl_->Begin(commands[i], terms);
    redis_internal::Request request;
    const absl::Status prepared = attempt.Prepare(request);
    if (redis_internal::IsNoRoom(prepared)) {
      one_server = false;
      places.push_back(i);
      continue;
    }
    if (!prepared.ok()) {
      results[i] = impl_->Conclude(prepared);
      continue;
    }
    one_server = one_server && (attempts.empty() || attempts.front().pipeline() == attempt.pipeline());
    attempts.push_back(std::move(attempt));
    requests.push_back(std::move(request));
    places.push_back(i);
  }
  if (one_server) {
    if (!requests.empty()) attempts.front().pipeline()->Run(requests, terms.deadline);
    for (size_t i = 0; i < requests.size(); ++i) results[places[i]] = impl_->Finish(attempts[i], requests[i]);
    return results;
  }
  // To all servers at once; this thread can drive only one connection.
  std::latch answered(static_cast<std::ptrdiff_t>(places.size()));
  for (const size_t place : places) {
    impl_->Start(commands[place], terms, [&answered, &result = results[place]](absl::StatusOr<RedisReply> reply) {
      result = std::move(reply);
      answered.count_down();
    });
  }
  answered.wait();
  return results;
}

absl::StatusOr<std::vector<absl::StatusOr<RedisReply>>> RedisClient::RunTransaction(
    std::span<const RedisCommand> commands, RedisCallOptions options) {
  absl::StatusOr<RedisReply> ran = Run(RedisCommand::Transaction(commands), std::move(options));
  if (!ran.ok()) return ran.status();
  std::vector<RedisReply> replies = std::move(*ran).TakeElements();
  std::vector<absl::StatusOr<RedisReply>> results;
  results.reserve(replies.size());
  for (size_t i = 0; i < replies.size(); ++i) {
    if (replies[i].is_error()) {
      results.emplace_back(redis_internal::StatusOfErrorTo(commands[i].name(), replies[i].text()));
    } else {
      results.emplace_back(std::move(replies[i]));
    }
  }
  return results;
}

void RedisClient::RunAsync(RedisCommand command, Callback done, RedisCallOptions options) {
  redis_internal::CallTerms terms = impl_->TermsOf(std::move(options));
  if (!done)
    base_internal::Fatal(base_internal::Concat("redis '", impl_->options.name, "': RunAsync() without a callback"));
  const absl::StatusOr<Executor*> executor = impl_->CallbackExecutor();
  if (!executor.ok()) {
    return InlineExecutor().Schedule([&] { done(impl_->Conclude(executor.status())); });
  }
  impl_->Start(std::move(command), std::move(terms),
               [executor = *executor, done = std::move(done),
                name = &impl_->options.name](absl::StatusOr<RedisReply> result) mutable {
                 Deliver(*executor, std::move(done), std::move(result), *name);
               });
}

std::future<absl::StatusOr<RedisReply>> RedisClient::RunFuture(RedisCommand command, RedisCallOptions options) {
  std::promise<absl::StatusOr<RedisReply>> promise;
  std::future<absl::StatusOr<RedisReply>> future = promise.get_future();
  impl_->Start(std::move(command), impl_->TermsOf(std::move(options)),
               [promise = std::move(promise)](absl::StatusOr<RedisReply> result) mutable {
                 promise.set_value(std::move(result));
               });
  return future;
}

absl::StatusOr<RedisServerIdentity> RedisClient::ServerOf(std::string_view key, std::optional<Duration> timeout) {
  const Instant deadline = impl_->DeadlineAfter(timeout);
  constexpr absl::Duration kPauseForRoom = absl::Milliseconds(5);
  const RedisCommand command = RedisCommand("").RouteBy(key);
  for (;;) {
    const absl::StatusOr<redis_internal::Hop> hop = impl_->router->Route(command);
    if (redis_internal::IsNoRoom(hop.status()) && redis_internal::Now() + kPauseForRoom < deadline) {
      absl::SleepFor(kPauseForRoom);
      continue;
    }
    if (!hop.ok()) return hop.status();
    absl::StatusOr<RedisServerIdentity> server = hop->pipeline->AwaitServer(deadline);
    // A node that the cluster no longer uses ends the wait early; then another one serves the key.
    if (!absl::IsUnavailable(server.status()) || redis_internal::Now() >= deadline) return server;
  }
}

absl::StatusOr<RedisSubscription> RedisClient::Subscribe(std::string channel, RedisSubscriber subscriber) {
  impl_->fork.Check("RedisClient", impl_->options.name);
  absl::StatusOr<std::shared_ptr<redis_internal::Subscription>> subscription =
      impl_->hub->Subscribe(std::move(channel), std::move(subscriber));
  if (!subscription.ok()) return subscription.status();
  return RedisSubscription(impl_->hub, *std::move(subscription));
}

absl::StatusOr<RedisSubscription> RedisClient::SubscribePattern(std::string pattern,
                                                                RedisPatternSubscriber subscriber) {
  impl_->fork.Check("RedisClient", impl_->options.name);
  absl::StatusOr<std::shared_ptr<redis_internal::Subscription>> subscription =
      impl_->hub->SubscribePattern(std::move(pattern), std::move(subscriber));
  if (!subscription.ok()) return subscription.status();
  return RedisSubscription(impl_->hub, *std::move(subscription));
}

bool RedisClient::sharded_channels() const { return impl_->hub->sharded(); }

std::string_view RedisClient::publish_command() const { return sharded_channels() ? "SPUBLISH" : "PUBLISH"; }

}  // namespace stockade

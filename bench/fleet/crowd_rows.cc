// What the heartbeats and messages of many processes cost Redis.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fleet/crowd.h"
#include "fleet/rows.h"
#include "measure/require.h"
#include "servers/redis_process.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

constexpr size_t kCaches = 20;
constexpr std::chrono::milliseconds kPause(10);  // Between two invalidations.
constexpr char kCore[] = "core";
constexpr char kScripts[] = "scripts";
constexpr char kInvalidations[] = "invalidations";

using SteadyClock = std::chrono::steady_clock;

// What Redis has done since its start.
struct RedisWork {
  double cpu_seconds = 0;
  double scripts = 0;
};

// The number after `label` in the reply to an INFO.
double NumberAfter(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return 0;
  double number = 0;
  std::from_chars(text.data() + at + label.size(), text.data() + text.size(), number);
  return number;
}

RedisWork WorkOf(RedisClient& client) {
  const RedisReply cpu = Require(client.Run(RedisCommand("INFO").Arg("cpu")), "INFO");
  const RedisReply commands = Require(client.Run(RedisCommand("INFO").Arg("commandstats")), "INFO");
  return {.cpu_seconds = NumberAfter(cpu.text(), "used_cpu_sys:") + NumberAfter(cpu.text(), "used_cpu_user:"),
          .scripts = NumberAfter(commands.text(), "cmdstat_evalsha:calls=")};
}

struct EmptyCache final : TierListener {
  void OnInvalidated(uint64_t, const TierTarget&) override {}
  void OnReset() override {}
};

// A crowd and one whole process, which invalidates.
class InvalidatedCrowd {
 public:
  InvalidatedCrowd(size_t processes, bool messages) : processes_(processes), messages_(messages) {
    RedisCacheTierOptions options = {.prefix = kPrefix, .pubsub = messages, .metrics = nullptr};
    options.timeout = absl::Seconds(10);  // A busy machine is not a fault.
    options.max_staleness = absl::Minutes(1);
    tier_ = Require(RedisCacheTier::Connect(redis_.url(), std::move(options)), "RedisCacheTier");
    for (size_t i = 0; i < kCaches; ++i) {
      caches_.push_back(Require(tier_->Open("bench" + std::to_string(i), "number", empty_), "Open"));
    }
    crowd_ = std::make_unique<Crowd>(processes, redis_.port(), kPrefix, messages);
  }

  Figures Run(std::chrono::milliseconds span) {
    const int64_t received = crowd_->messages();
    int64_t count = 0;
    std::jthread beats([this](const std::stop_token& stop) { crowd_->Run(stop); });
    // Until each process has had a heartbeat, which reads what came after the last run.
    count += Invalidate(span / 4).count;
    const RedisWork before = WorkOf(*client_);
    const Invalidated run = Invalidate(span);
    const RedisWork after = WorkOf(*client_);
    count += run.count;
    const int64_t expected = messages_ ? count * static_cast<int64_t>(processes_) : 0;
    const SteadyClock::time_point deadline = SteadyClock::now() + std::chrono::minutes(1);
    while (crowd_->messages() - received < expected && SteadyClock::now() < deadline) {
      std::this_thread::sleep_for(kPause);
    }
    beats.request_stop();
    beats.join();
    if (crowd_->messages() - received != expected) {
      base_internal::Fatal(base_internal::Concat("bench: the crowd has received ", crowd_->messages() - received,
                                                 " messages, not ", expected));
    }
    return {{kCore, 100 * (after.cpu_seconds - before.cpu_seconds) / run.seconds},
            {kScripts, (after.scripts - before.scripts) / run.seconds},
            {kInvalidations, static_cast<double>(run.count) / run.seconds}};
  }

 private:
  struct Invalidated {
    int64_t count = 0;
    double seconds = 0;
  };
  Invalidated Invalidate(std::chrono::milliseconds span) {
    Invalidated done;
    const SteadyClock::time_point begin = SteadyClock::now();
    for (SteadyClock::time_point next = begin; next < begin + span; next += kPause) {
      std::this_thread::sleep_until(next);
      const std::string key = std::to_string(++done.count);
      caches_[0]->Await(caches_[0]->Queue({.kind = TierTarget::Kind::kKey, .text = key}), false);
    }
    std::this_thread::sleep_until(begin + span);
    done.seconds = std::chrono::duration<double>(SteadyClock::now() - begin).count();
    return done;
  }

  static constexpr char kPrefix[] = "bench";

  const size_t processes_;
  const bool messages_;
  const RedisProcess redis_;
  const std::unique_ptr<RedisClient> client_ = Require(RedisClient::Connect(redis_.url()), "RedisClient");
  EmptyCache empty_;
  std::shared_ptr<CacheTier> tier_;
  std::vector<std::unique_ptr<TierCache>> caches_;
  std::unique_ptr<Crowd> crowd_;
};

void AddCrowdRows(Suite& suite, size_t processes) {
  const std::string of = base_internal::Concat(processes, " processes of ", kCaches, " caches, 100 invalidations/s");
  const std::string peer = "ours, without messages";
  const Comparison core = {.name = "Redis' processor, " + of,
                           .unit = "% of a core",
                           .peer = peer,
                           .target = "<= 50 % of a core",
                           .counter = kCore};
  const Comparison scripts = {
      .name = "scripts, " + of, .unit = "1/s", .peer = peer, .target = "<= 4500 1/s", .counter = kScripts};
  const Comparison invalidations = {.name = "invalidations, " + of,
                                    .unit = "1/s",
                                    .peer = peer,
                                    .better = Better::kHigher,
                                    .target = ">= 95 1/s",
                                    .counter = kInvalidations};
  suite.AddRows({core, scripts, invalidations}, {.prepare = [processes](const Scale& scale) -> Contestants {
                  const auto ours = std::make_shared<InvalidatedCrowd>(processes, true);
                  const auto polling = std::make_shared<InvalidatedCrowd>(processes, false);
                  const std::chrono::milliseconds span(scale.Sized(100, 2000));
                  return {[=](Worker&) { return ours->Run(span); }, [=](Worker&) { return polling->Run(span); }};
                }});
}

}  // namespace

void AddFleetCrowdRows(Suite& suite) {
  if (suite.quick()) return AddCrowdRows(suite, 4);
  for (const size_t processes : {10, 100, 300, 1000}) AddCrowdRows(suite, processes);
}

}  // namespace stockade::bench

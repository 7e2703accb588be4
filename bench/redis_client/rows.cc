// A client that all threads share, beside plain hiredis, a connection each, and Redis's own load generator, which keeps
// as many commands outstanding and does nothing with the replies.
#include "redis_client/rows.h"

#include <hiredis.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "measure/threads.h"
#include "redis_client/libssl_connection.h"
#include "servers/redis_process.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_client.h"

namespace stockade::bench {
namespace {

constexpr size_t kCallers = 64;
constexpr size_t kAsyncThreads = 2;
// Callbacks that a thread has outstanding. It starts the next half of them when half of them have run.
constexpr int kOutstanding = 500;
constexpr int kRefill = kOutstanding / 2;
constexpr char kScript[] = "return redis.call('INCRBY', KEYS[1], ARGV[1])";

// The same command for each of the three.
struct Load {
  std::string name;
  RedisCommand command;
  std::vector<std::string> words;
};

std::vector<Load> Loads() {
  const RedisScript script(kScript);
  return {{"GET", RedisCommand("GET").Key("key"), {"GET", "key"}},
          {"SET", RedisCommand("SET").Key("key").Arg("value"), {"SET", "key", "value"}},
          {"EVALSHA",
           RedisCommand(script, {"counter"}).Arg(1),
           {"EVALSHA", std::string(script.sha1()), "1", "counter", "1"}}};
}

struct CallerRun {
  double per_second = 0;
  double us = 0;      // Of a caller, for each command.
  double cpu_us = 0;  // Of this process's processor time, for each command.
};

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename Body>
CallerRun RunCallers(Worker& worker, absl::Duration span, Body&& body) {
  const double cpu = CpuSeconds();
  const Throughput run = worker.RunFor(span, 1, [&](size_t caller, int64_t) { body(caller); });
  return {.per_second = run.PerSecond(),
          .us = run.NsPerOp() * static_cast<double>(worker.threads()) / 1000,
          .cpu_us = (CpuSeconds() - cpu) * 1e6 / static_cast<double>(run.ops)};
}

// A server, our client, and plain connections, as many as callers.
class World {
 public:
  explicit World(size_t callers) : ours_(Require(RedisClient::Connect(server_.url()), "RedisClient")) {
    for (const Load& load : Loads()) Require(ours_->Run(load.command).status(), load.name);
    for (size_t i = 0; i < callers; ++i) plain_.emplace_back(redisConnect("127.0.0.1", server_.port()), &redisFree);
  }

  CallerRun Ours(Worker& worker, const Load& load, absl::Duration span) {
    return RunCallers(worker, span, [&](size_t) { Require(ours_->Run(load.command).status(), load.name); });
  }

  CallerRun Plain(Worker& worker, const Load& load, absl::Duration span) {
    std::vector<const char*> words;
    std::vector<size_t> sizes;
    for (const std::string& word : load.words) {
      words.push_back(word.data());
      sizes.push_back(word.size());
    }
    return RunCallers(worker, span, [&](size_t caller) {
      auto* reply = static_cast<redisReply*>(
          redisCommandArgv(plain_[caller].get(), static_cast<int>(words.size()), words.data(), sizes.data()));
      if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) base_internal::Fatal("bench: hiredis got no reply");
      freeReplyObject(reply);
    });
  }

  double Async(Worker& worker, const Load& load, absl::Duration span) {
    std::atomic<int>& outstanding = windows_[worker.thread()].outstanding;
    const auto done = [&outstanding, &load](const absl::StatusOr<RedisReply>& reply) {
      Require(reply.status(), load.name);
      const int left = outstanding.fetch_sub(1) - 1;
      if (left == kOutstanding - kRefill || left == 0) outstanding.notify_one();
    };
    const auto refill = [&](size_t, int64_t batch) {
      for (int now = 0; (now = outstanding.load()) > kOutstanding - kRefill;) outstanding.wait(now);
      outstanding += kRefill;
      for (int64_t i = 0; i < batch; ++i) ours_->RunAsync(load.command, done);
    };
    const double per_second = worker.RunFor(span, kRefill, refill).PerSecond();
    for (int now = 0; (now = outstanding.load()) > 0;) outstanding.wait(now);
    return per_second;
  }

  double RedisBenchmark(const Load& load, int64_t commands) { return server_.RedisBenchmark(load.words, commands); }

 private:
  struct alignas(128) Window {
    std::atomic<int> outstanding{0};
  };

  RedisProcess server_;
  std::array<Window, kAsyncThreads> windows_;  // Of the threads of Async().
  std::unique_ptr<RedisClient> ours_;
  std::vector<std::unique_ptr<redisContext, void (*)(redisContext*)>> plain_;
};

// The same with TLS, beside loops over libssl.
class TlsWorld {
 public:
  explicit TlsWorld(size_t callers) : ours_(Require(RedisClient::Connect(server_.url()), "RedisClient")) {
    for (const Load& load : Loads()) Require(ours_->Run(load.command).status(), load.name);
    for (size_t i = 0; i < callers; ++i) {
      plain_.push_back(std::make_unique<LibsslConnection>(server_.port(), server_.ca_file()));
    }
  }

  CallerRun Ours(Worker& worker, const Load& load, absl::Duration span) {
    return RunCallers(worker, span, [&](size_t) { Require(ours_->Run(load.command).status(), load.name); });
  }

  CallerRun Plain(Worker& worker, const Load& load, absl::Duration span) {
    std::string wire = base_internal::Concat("*", load.words.size(), "\r\n");
    for (const std::string& word : load.words) {
      wire += base_internal::Concat("$", word.size(), "\r\n", word, "\r\n");
    }
    return RunCallers(worker, span, [&](size_t caller) { plain_[caller]->Call(wire); });
  }

 private:
  RedisProcess server_{RedisProcess::Tls::kWith};
  std::unique_ptr<RedisClient> ours_;
  std::vector<std::unique_ptr<LibsslConnection>> plain_;
};

constexpr char kRate[] = "rate";
constexpr char kTime[] = "time";
constexpr char kProcessorTime[] = "processor_time";

template <typename Setting>
Pair BesidePlain(const Load& load, size_t callers, int spans) {
  return {.threads = callers, .prepare = [=](const Scale& scale) -> Contestants {
            const auto world = std::make_shared<Setting>(callers);
            const auto measure = [=, span = spans * scale.span](auto run) {
              return [=](Worker& worker) -> Figures {
                const CallerRun figures = (*world.*run)(worker, load, span);
                return {{kRate, figures.per_second}, {kTime, figures.us}, {kProcessorTime, figures.cpu_us}};
              };
            };
            return {measure(&Setting::Ours), measure(&Setting::Plain)};
          }};
}

void AddAloneRow(Suite& suite, const Load& load) {
  suite.Add({.name = load.name + ", alone", .unit = "us", .peer = "hiredis", .target = "<= 1.1", .counter = kTime},
            BesidePlain<World>(load, 1, 2));
}

// `run` is our side: `threads` threads, for a span of time, to commands per second.
template <typename Run>
void AddRowBesideRedisBenchmark(Suite& suite, const std::string& name, const Load& load, size_t threads, Run run) {
  suite.Add({.name = name,
             .unit = "1/s",
             .peer = "redis-benchmark -c 4 -P 16",
             .better = Better::kHigher,
             .target = ">= 0.8"},
            {.threads = threads, .peer_threads = 1, .prepare = [=](const Scale& scale) -> Contestants {
               const auto world = std::make_shared<World>(threads);
               return {[=](Worker& worker) { return run(*world, worker, 4 * scale.span); },
                       [=](Worker&) { return world->RedisBenchmark(load, scale.Sized(10'000, 200'000)); }};
             }});
}

void AddCrowdRows(Suite& suite, const Load& load) {
  const std::string crowd = base_internal::Concat(load.name, ", ", kCallers, " callers");
  const std::string plain = base_internal::Concat("hiredis, ", kCallers, " connections");
  const Comparison rate = {
      .name = crowd, .unit = "1/s", .peer = plain, .better = Better::kHigher, .target = ">= 5", .counter = kRate};
  const Comparison processor_time = {
      .name = crowd + ", processor time", .unit = "us", .peer = plain, .counter = kProcessorTime};
  suite.AddRows({rate, processor_time}, BesidePlain<World>(load, kCallers, 4));
  AddRowBesideRedisBenchmark(suite, crowd, load, kCallers, [=](World& world, Worker& worker, absl::Duration span) {
    return world.Ours(worker, load, span).per_second;
  });
}

void AddAsyncRow(Suite& suite, const Load& load) {
  AddRowBesideRedisBenchmark(
      suite, load.name + ", 1,000 callbacks outstanding", load, kAsyncThreads,
      [=](World& world, Worker& worker, absl::Duration span) { return world.Async(worker, load, span); });
}

void AddTlsRows(Suite& suite, const Load& load) {
  const std::string alone = load.name + " with TLS, alone";
  const Comparison time = {.name = alone, .unit = "us", .peer = "libssl", .target = "<= 1.15", .counter = kTime};
  const Comparison processor_time = {
      .name = alone + ", processor time", .unit = "us", .peer = "libssl", .counter = kProcessorTime};
  suite.AddRows({time, processor_time}, BesidePlain<TlsWorld>(load, 1, 2));
  suite.Add({.name = base_internal::Concat(load.name, " with TLS, ", kCallers, " callers"),
             .unit = "1/s",
             .peer = base_internal::Concat("libssl, ", kCallers, " connections"),
             .better = Better::kHigher,
             .counter = kRate},
            BesidePlain<TlsWorld>(load, kCallers, 4));
}

}  // namespace

void AddRedisClientRows(Suite& suite) {
  if (const absl::Status there = RedisProcess::Check(); !there.ok()) {
    suite.LeaveOut("all rows", std::string(there.message()));
    return;
  }
  const std::vector<Load> loads = Loads();
  for (const Load& load : loads) AddAloneRow(suite, load);
  for (const Load& load : loads) AddCrowdRows(suite, load);
  for (const Load& load : loads) AddAsyncRow(suite, load);
  for (const Load& load : {loads[0], loads[1]}) AddTlsRows(suite, load);
}

}  // namespace stockade::bench

// A lock service beside those who send Redis the same scripts, and do nothing else.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "distributed_locks/our_locks.h"
#include "distributed_locks/plain_lock.h"
#include "distributed_locks/rows.h"
#include "servers/redis_process.h"
#include "stockade/locks/redis_lock_service.h"

namespace stockade::bench {
namespace {

constexpr size_t kScriptThreads = 64;

struct BesideHiredis {
  RedisProcess server;
  OurLocks ours{RedisLockService::Connect(server.url())};
  PlainLock plain{server.port(), "plain"};
};

// redis-benchmark sends one command over and over: acquires alone, then releases alone, of locks drawn from many.
class BesideRedisBenchmark {
 public:
  explicit BesideRedisBenchmark(const Scale& scale) : locks_(scale.Sized(600, 24'000)) {}

  double Ours(Worker& worker, absl::Duration span) {
    return ours_.Run(worker, LockKind::kReentrant, true, span).PerSecond();
  }

  // Pairs per second. An acquire finds the lock free and its token there, and a release finds it held. One draw in
  // twelve is an exception: its lock was drawn before.
  double RedisBenchmark() {
    plain_.CallAll({{{"FLUSHALL"}}});
    CallForAll(words_.acquire, 1);
    CallForAll(words_.release, 2);
    const double acquires = Send(words_.acquire, 3);
    plain_.CallAll({{{"FLUSHALL"}}});
    CallForAll(words_.acquire, 1);
    const double releases = Send(words_.release, 2);
    return 1 / (1 / acquires + 1 / releases);
  }

 private:
  static constexpr char kPlace[] = "__rand_int__";

  void CallForAll(StepWords& step, uint64_t sequence) {
    step.SetSequence(sequence);
    std::vector<std::vector<std::string>> commands;
    for (int64_t lock = 0; lock < locks_; ++lock) {
      char digits[13];
      std::snprintf(digits, sizeof digits, "%012d", static_cast<int>(lock));
      commands.push_back(step.words);
      for (std::string& word : commands.back()) word = absl::StrReplaceAll(word, {{kPlace, digits}});
    }
    plain_.CallAll(commands);
  }

  double Send(StepWords& step, uint64_t sequence) {
    step.SetSequence(sequence);
    return server_.RedisBenchmark(step.words, locks_ / 6, locks_);
  }

  const int64_t locks_;
  RedisProcess server_;
  OurLocks ours_{RedisLockService::Connect(server_.url())};
  PlainLock plain_{server_.port(), "loads the scripts"};
  LockWords words_{kPlace};
};

}  // namespace

void AddScriptRows(Suite& suite) {
  if (const absl::Status there = RedisProcess::Check(); !there.ok()) {
    suite.LeaveOut("all rows", std::string(there.message()));
    return;
  }
  suite.Add({.name = "lock + unlock, alone", .unit = "us", .peer = "hiredis, same scripts", .target = "<= 1.1"},
            {.prepare = [](const Scale& scale) -> Contestants {
              const auto world = std::make_shared<BesideHiredis>();
              const absl::Duration span = 2 * scale.span;
              return {[=](Worker& worker) {
                        return world->ours.Run(worker, LockKind::kReentrant, true, span).NsPerOp() / 1000;
                      },
                      [=](Worker& worker) {
                        const auto pair = [&](size_t, int64_t) {
                          world->plain.Acquire();
                          world->plain.Release();
                        };
                        return worker.RunFor(span, 1, pair).NsPerOp() / 1000;
                      }};
            }});
  suite.Add({.name = "lock + unlock, 64 threads, own names",
             .unit = "1/s",
             .peer = "redis-benchmark -c 4 -P 16",
             .better = Better::kHigher,
             .target = ">= 0.8"},
            {.threads = kScriptThreads, .peer_threads = 1, .prepare = [](const Scale& scale) -> Contestants {
               const auto world = std::make_shared<BesideRedisBenchmark>(scale);
               return {[=](Worker& worker) { return world->Ours(worker, 4 * scale.span); },
                       [=](Worker&) { return world->RedisBenchmark(); }};
             }});
}

}  // namespace stockade::bench

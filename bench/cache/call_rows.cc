// The cost of each other call that answers a hit, as a ratio of Get() in the same run, by one thread.
#include <array>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cache/rows.h"
#include "measure/threads.h"
#include "stockade/base/executor.h"
#include "stockade/base/strings.h"
#include "stockade/cache/coroutine.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/cache/transparent_string_hash.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr size_t kCallKeys = 1024;
constexpr size_t kManyCallKeys = 100;  // Keys of one GetAll().

struct Calls {
  Calls()
      : numbers({.name = "numbers", .max_weight = 1 << 16, .metrics = &registry}),
        texts({.name = "texts", .max_weight = 1 << 16, .metrics = &registry}),
        with_ttl({.name = "with ttl", .max_weight = 1 << 16, .ttl = absl::Hours(1), .metrics = &registry}),
        with_idle_ttl({.name = "with idle", .max_weight = 1 << 16, .idle_ttl = absl::Hours(1), .metrics = &registry}) {
    for (size_t key = 0; key < kCallKeys; ++key) {
      keys.push_back(key);
      absent.push_back(~key);
      names.push_back(base_internal::Concat("a key of some length, ", key));
      numbers.Put(key, key);
      texts.Put(names.back(), key);
      with_ttl.Put(key, key);
      with_idle_ttl.Put(key, key);
    }
  }

  MetricsRegistry registry;
  InlineExecutor executor;
  std::vector<uint64_t> keys;
  std::vector<uint64_t> absent;
  std::vector<std::string> names;
  LoadingCache<uint64_t, uint64_t> numbers;
  LoadingCache<std::string, uint64_t, TransparentStringHash, std::equal_to<>> texts;
  LoadingCache<uint64_t, uint64_t> with_ttl;
  LoadingCache<uint64_t, uint64_t> with_idle_ttl;
};

// `call` answers `kPerCall` hits, from the key with this index on.
template <size_t kPerCall, typename Call>
Measurement EachCall(std::shared_ptr<Calls> calls, absl::Duration span, Call call) {
  return [=](Worker& worker) {
    const Throughput done = worker.RunFor(span, 256 * kPerCall, [&](size_t, int64_t ops) {
      size_t at = 0;
      for (int64_t i = 0; i < ops; i += kPerCall) {
        KeepAlive(call(*calls, at));
        at = (at + 7 * kPerCall) % (kCallKeys - kPerCall);
      }
    });
    return done.NsPerOp();
  };
}

bool HitByGet(Calls& calls, size_t at) { return calls.numbers.Get(calls.keys[at]).ok(); }

// A coroutine that ends when it returns, because hits do not suspend it.
struct Routine {
  struct promise_type {
    Routine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Routine AwaitHits(Calls& calls, AwaitOn on, int64_t ops) {
  size_t at = 0;
  for (int64_t i = 0; i < ops; ++i) {
    const absl::StatusOr<CacheHandle<uint64_t>> hit = co_await GetAwait(calls.numbers, calls.keys[at], on);
    KeepAlive(hit.ok());
    at = (at + 7) % (kCallKeys - 1);
  }
}

void AddAwaitRow(Suite& suite) {
  suite.Add({.name = "GetAwait, hit", .unit = "ns", .peer = "Get", .target = "<= 2"},
            {.threads = 1, .prepare = [](const Scale& scale) -> Contestants {
               const auto calls = std::make_shared<Calls>();
               const auto awaits = [=, span = scale.span](Worker& worker) {
                 const AwaitOn on(calls->executor);
                 const Throughput done =
                     worker.RunFor(span, 256, [&](size_t, int64_t ops) { AwaitHits(*calls, on, ops); });
                 return done.NsPerOp();
               };
               return {awaits, EachCall<1>(calls, scale.span, HitByGet)};
             }});
}

template <size_t kPerCall, typename Call, typename Peer>
void AddCallRow(Suite& suite, const std::string& name, const std::string& target, Call call,
                const std::string& peer_name, Peer peer) {
  suite.Add({.name = name, .unit = "ns", .peer = peer_name, .target = target},
            {.threads = 1, .prepare = [=](const Scale& scale) -> Contestants {
               const auto calls = std::make_shared<Calls>();
               return {EachCall<kPerCall>(calls, scale.span, call), EachCall<1>(calls, scale.span, peer)};
             }});
}

}  // namespace

void AddCallRows(Suite& suite) {
  constexpr char kGetPeer[] = "Get";
  AddCallRow<1>(
      suite, "GetOrAsync, hit", "<= 2",
      [](Calls& calls, size_t at) {
        return calls.numbers.GetOrAsync(calls.keys[at], calls.executor, [](const auto&) {}).has_value();
      },
      kGetPeer, HitByGet);
  AddAwaitRow(suite);
  AddCallRow<kManyCallKeys>(
      suite, "GetAll of 100 hits, per key", "<= 1.5",
      [](Calls& calls, size_t at) {
        return calls.numbers.GetAll(std::span(calls.keys).subspan(at, kManyCallKeys)).size();
      },
      kGetPeer, HitByGet);
  AddCallRow<1>(
      suite, "GetAll of 1 hit", "-",
      [](Calls& calls, size_t at) { return calls.numbers.GetAll(std::span(calls.keys).subspan(at, 1)).size(); },
      kGetPeer, HitByGet);
  AddCallRow<kManyCallKeys>(
      suite, "PutAll of 100, per key", "-",
      [](Calls& calls, size_t at) {
        std::vector<std::pair<uint64_t, uint64_t>> entries;
        for (const uint64_t key : std::span(calls.keys).subspan(at, kManyCallKeys)) entries.emplace_back(key, at);
        calls.numbers.PutAll(std::move(entries));
        return true;
      },
      "Put",
      [](Calls& calls, size_t at) {
        calls.numbers.Put(calls.keys[at], at);
        return true;
      });
  AddCallRow<kManyCallKeys>(
      suite, "InvalidateKeys of 100 that are absent, per key", "-",
      [](Calls& calls, size_t at) {
        calls.with_ttl.InvalidateKeys(std::span(calls.absent).subspan(at, kManyCallKeys));
        return true;
      },
      "Invalidate",
      [](Calls& calls, size_t at) {
        calls.with_ttl.Invalidate(calls.absent[at]);
        return true;
      });
  AddCallRow<1>(
      suite, "GetCopy, hit", "-", [](Calls& calls, size_t at) { return calls.numbers.GetCopy(calls.keys[at]).ok(); },
      kGetPeer, HitByGet);
  AddCallRow<1>(
      suite, "GetEntry, hit", "-", [](Calls& calls, size_t at) { return calls.numbers.GetEntry(calls.keys[at]).ok(); },
      kGetPeer, HitByGet);
  AddCallRow<1>(
      suite, "Peek", "-", [](Calls& calls, size_t at) { return calls.numbers.Peek(calls.keys[at]).has_value(); },
      kGetPeer, HitByGet);
  AddCallRow<kCallKeys - 1>(
      suite, "ForEach, per entry", "-",
      [](Calls& calls, size_t) {
        size_t seen = 0;
        const absl::Status walked =
            calls.numbers.ForEach([&](const auto&, const auto&) { return ++seen < kCallKeys - 1; });
        return walked.ok() ? seen : 0;
      },
      kGetPeer, HitByGet);
  AddCallRow<1>(
      suite, "Get with an idle_ttl, hit", "<= 1.1",
      [](Calls& calls, size_t at) { return calls.with_idle_ttl.Get(calls.keys[at]).ok(); }, "Get with a ttl",
      [](Calls& calls, size_t at) { return calls.with_ttl.Get(calls.keys[at]).ok(); });
  AddCallRow<1>(
      suite, "Get by std::string_view", "<= 1.05",
      [](Calls& calls, size_t at) { return calls.texts.Get(std::string_view(calls.names[at])).ok(); },
      "Get by std::string", [](Calls& calls, size_t at) { return calls.texts.Get(calls.names[at]).ok(); });
}

}  // namespace stockade::bench

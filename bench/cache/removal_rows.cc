// How long a hit and a Put are held up while another thread removes 100,000 entries at once. The figure is the longest
// call of all that overlap one removal: few are held up, so a percentile would hide them. So that it is the cache's and
// not the machine's, calls during which the thread was taken from its processor do not count, and of the removals of a
// repetition the median is taken.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "harness/durations.h"
#include "harness/shared_runs.h"
#include "harness/threads.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr int kRemovals = 3;        // Of a repetition.
constexpr uint64_t kOthers = 1024;  // Keys that are put and looked up meanwhile, from `entries` on.
constexpr char kTag[] = "tag";

enum class By { kAll, kTag };

class Ours {
 public:
  Ours(uint64_t entries, By by)
      : entries_(entries),
        by_(by),
        cache_({.name = "bench", .max_weight = static_cast<int64_t>(2 * entries + (1 << 16)), .metrics = &registry_}) {}

  void Fill() {
    for (uint64_t key = 0; key < entries_; ++key) {
      if (by_ == By::kTag) {
        cache_.Put(key, key, {.tags = {kTag}});
      } else {
        cache_.Put(key, key);
      }
    }
  }
  void Remove() {
    if (by_ == By::kTag) {
      cache_.InvalidateTag(kTag);
    } else {
      cache_.InvalidateAll();
    }
  }
  void Put(uint64_t key) { cache_.Put(key, key); }
  bool Find(uint64_t key) { return cache_.GetIfPresent(key).has_value(); }

 private:
  const uint64_t entries_;
  const By by_;
  MetricsRegistry registry_;
  LoadingCache<uint64_t, uint64_t> cache_;
};

class Lru {
 public:
  Lru(uint64_t entries, By by) : entries_(entries), by_(by), cache_(2 * entries + (1 << 16)) {}

  void Fill() {
    for (uint64_t key = 0; key < entries_; ++key) cache_.Put(key, key);
  }
  void Remove() {
    if (by_ == By::kTag) {
      cache_.RemoveIf([this](uint64_t key) { return key < entries_; });
    } else {
      cache_.Clear();
    }
  }
  void Put(uint64_t key) { cache_.Put(key, key); }
  bool Find(uint64_t key) { return cache_.Get(key).has_value(); }

 private:
  const uint64_t entries_;
  const By by_;
  ShardedLru<uint64_t> cache_;
};

// How often the calling thread was taken from its processor while it had something to do.
int64_t Preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// In nanoseconds.
struct Longest {
  uint64_t hit = 0;
  uint64_t put = 0;
};

// Of what overlapped one removal.
template <typename Cache>
Longest LongestDuring(Cache& cache, uint64_t entries) {
  cache.Fill();
  enum Phase { kBefore, kRemoving, kDone };
  std::atomic<Phase> phase = kBefore;
  std::atomic<bool> calling = false;
  Longest longest;
  // `call` returns if it counts.
  const auto time = [&](const auto& call, uint64_t& most) {
    const int64_t preemptions = Preemptions();
    const Phase before = phase.load();
    bool counts = false;
    const uint64_t nanoseconds = NanosecondsOf([&] { counts = call(); });
    counts = counts && (before == kRemoving || phase.load() != before) && Preemptions() == preemptions;
    if (counts) most = std::max(most, nanoseconds);
  };
  RunOps(2, 1, [&](size_t thread, int64_t) {
    if (thread == 0) {
      while (!calling.load()) std::this_thread::yield();
      phase.store(kRemoving);
      cache.Remove();
      phase.store(kDone);
      return;
    }
    for (uint64_t i = 0; phase.load() != kDone; ++i) {
      const uint64_t key = entries + i % kOthers;
      time([&] { return cache.Put(key), true; }, longest.put);
      time([&] { return cache.Find(key); }, longest.hit);  // Unless it was removed in between.
      if (i == kOthers) calling.store(true);
    }
  });
  return longest;
}

template <typename Cache>
std::function<Longest()> MedianOf(uint64_t entries, By by) {
  return [=, cache = std::make_shared<Cache>(entries, by)] {
    std::array<Longest, kRemovals> all;
    for (Longest& longest : all) longest = LongestDuring(*cache, entries);
    const auto median = [&](uint64_t Longest::*of) {
      std::ranges::nth_element(all, all.begin() + kRemovals / 2, {}, of);
      return all[kRemovals / 2].*of;
    };
    return Longest{median(&Longest::hit), median(&Longest::put)};
  };
}

}  // namespace

void AddRemovalRows(Suite& suite) {
  for (const By by : {By::kAll, By::kTag}) {
    const auto runs = SharedRuns<Longest>::Of([by](const Scale& scale) -> SharedRuns<Longest>::Sides {
      const auto entries = static_cast<uint64_t>(scale.Sized(1'000, 100'000));
      return {MedianOf<Ours>(entries, by), MedianOf<Lru>(entries, by)};
    });
    const auto add = [&](std::string_view what, uint64_t Longest::*of) {
      runs->AddRow(suite,
                   base_internal::Concat("longest ", what, " while 100,000 entries ",
                                         by == By::kAll ? "are all invalidated" : "of a tag are invalidated"),
                   "us", "sharded LRU, mutexes",
                   [of](const Longest& longest) { return static_cast<double>(longest.*of) / 1e3; });
    };
    add("hit", &Longest::hit);
    add("Put", &Longest::put);
  }
}

}  // namespace stockade::bench

// How long a hit and a Put are held up while another thread removes 100,000 entries at once. The figure is the longest
// call of all that overlap one removal: few are held up, so a percentile would hide them. So that it is the cache's and
// not the machine's, calls during which the thread was taken from its processor do not count, and of the removals of a
// repetition the median is taken.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "cache/rows.h"
#include "cache/sharded_lru.h"
#include "measure/durations.h"
#include "measure/threads.h"
#include "stockade/base/strings.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr int kRemovals = 3;        // Of a repetition.
constexpr uint64_t kOthers = 1024;  // Keys that are put and looked up meanwhile, from `entries` on.
constexpr char kTag[] = "tag";

enum class By { kAll, kTag };

class OurRemovals {
 public:
  OurRemovals(uint64_t entries, By by)
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

// One removal, by thread 0, and the calls of thread 1 meanwhile.
template <typename Cache>
class Removal {
 public:
  Removal(uint64_t entries, By by) : entries_(entries), cache_(entries, by) {}

  void Run(Worker& worker) {
    worker.Once([this] {
      cache_.Fill();
      phase_ = kBefore;
      calling_ = false;
      longest_ = {};
    });
    worker.RunOps(1, [this](size_t thread, int64_t) { thread == 0 ? Remove() : Call(); });
  }

  // The longest calls that overlapped the last removal. Only for thread 0, which begins the next one.
  const Longest& longest() const { return longest_; }

 private:
  enum Phase { kBefore, kRemoving, kDone };

  void Remove() {
    while (!calling_.load()) std::this_thread::yield();
    phase_.store(kRemoving);
    cache_.Remove();
    phase_.store(kDone);
  }

  void Call() {
    for (uint64_t i = 0; phase_.load() != kDone; ++i) {
      const uint64_t key = entries_ + i % kOthers;
      Time([&] { return cache_.Put(key), true; }, longest_.put);
      Time([&] { return cache_.Find(key); }, longest_.hit);  // Unless it was removed in between.
      if (i == kOthers) calling_.store(true);
    }
  }

  // `call` returns whether it counts.
  template <typename F>
  void Time(const F& call, uint64_t& most) {
    const int64_t preemptions = Preemptions();
    const Phase before = phase_.load();
    bool counts = false;
    const uint64_t nanoseconds = NanosecondsOf([&] { counts = call(); });
    counts = counts && (before == kRemoving || phase_.load() != before) && Preemptions() == preemptions;
    if (counts) most = std::max(most, nanoseconds);
  }

  const uint64_t entries_;
  Cache cache_;
  std::atomic<Phase> phase_ = kBefore;
  std::atomic<bool> calling_ = false;
  Longest longest_;
};

template <typename Cache>
Measurement Medians(uint64_t entries, By by) {
  return [removal = std::make_shared<Removal<Cache>>(entries, by)](Worker& worker) -> Figures {
    std::array<Longest, kRemovals> all;
    for (Longest& longest : all) {
      removal->Run(worker);
      if (worker.thread() == 0) longest = removal->longest();
    }
    const auto median_us = [&](uint64_t Longest::*of) {
      std::ranges::nth_element(all, all.begin() + kRemovals / 2, {}, of);
      return static_cast<double>(all[kRemovals / 2].*of) / 1e3;
    };
    return {{"hit", median_us(&Longest::hit)}, {"Put", median_us(&Longest::put)}};
  };
}

}  // namespace

void AddRemovalRows(Suite& suite) {
  for (const By by : {By::kAll, By::kTag}) {
    const auto row = [by](const std::string& call, const std::string& target) -> Comparison {
      return {.name = base_internal::Concat("longest ", call, " while 100,000 entries ",
                                            by == By::kAll ? "are all invalidated" : "of a tag are invalidated"),
              .unit = "us",
              .peer = "sharded LRU, mutexes",
              .target = target,
              .counter = call};
    };
    suite.AddRows({row("hit", "-"), row("Put", "<= 100 us")},
                  {.threads = 2, .prepare = [by](const Scale& scale) -> Contestants {
                     const auto entries = static_cast<uint64_t>(scale.Sized(1'000, 100'000));
                     return {Medians<OurRemovals>(entries, by), Medians<Lru>(entries, by)};
                   }});
  }
}

}  // namespace stockade::bench

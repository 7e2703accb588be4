#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <random>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr int kKeys = 12;
constexpr int kMaxWeight = 8;
constexpr int kThreads = 8;
constexpr int kPoolThreads = 2;
constexpr int kRefreshThreads = 2;  // The cache's own.

// The database. A change of a row stores a new version, then notifies the cache (Put, Invalidate or InvalidateAll),
// then raises `floor` to say that the notification has returned: a Get() that begins later must not return an older
// version.
struct Row {
  std::mutex changes;  // One change at a time.
  std::atomic<int> version{1};
  std::atomic<int> floor{1};
  std::atomic<int> loads{0};
};

struct World {
  World(int s, Executor* load_executor)
      : seed(s),
        cache({.max_weight = kMaxWeight,
               .ttl = absl::Milliseconds(20),
               .ttl_jitter = 0.5,
               .refresh_ahead = 0.5,
               .negative_ttl = absl::Milliseconds(3),
               .stale_if_error = absl::Milliseconds(20),
               .retry_backoff = absl::Milliseconds(2),
               .clock = &clock,
               .load_executor = load_executor,
               .seed = static_cast<uint64_t>(s),
               .metrics = &registry},
              [this](const int& key, LoadContext& load) { return Load(key, load); }) {}

  absl::StatusOr<int> Load(int key, LoadContext& load) {
    static thread_local std::mt19937 random(static_cast<uint32_t>(seed));
    Row& row = rows[static_cast<size_t>(key)];
    if (++row.loads > 2) ++wrong;
    for (uint32_t i = random() % 4; i > 0; --i) std::this_thread::yield();
    const int seen = row.version.load();
    for (uint32_t i = random() % 4; i > 0; --i) std::this_thread::yield();
    absl::StatusOr<int> result = seen;
    switch (random() % 16) {
      case 0: result = absl::UnavailableError("down"); break;
      case 1: result = absl::NotFoundError("no row"); break;
      case 2: load.set_ttl(absl::ZeroDuration()); break;
      case 3:
      case 4: Read(static_cast<int>(random() % kKeys), CacheGetOptions{}); break;
      default: break;
    }
    --row.loads;
    return result;
  }

  void Read(int key, const CacheGetOptions& options) {
    const Row& row = rows[static_cast<size_t>(key)];
    const int floor = row.floor.load();
    const IntAnswer answer = cache.Get(key, options);
    if (answer.ok()) {
      if (**answer < floor || **answer > row.version.load()) ++wrong;
      ++answers;
      return;
    }
    switch (answer.status().code()) {
      case absl::StatusCode::kUnavailable:
      case absl::StatusCode::kNotFound:
      case absl::StatusCode::kDeadlineExceeded:
      case absl::StatusCode::kFailedPrecondition: break;
      default: ++wrong;
    }
  }

  void Change(int key, uint32_t how) {
    Row& row = rows[static_cast<size_t>(key)];
    std::lock_guard lock(row.changes);
    const int version = ++row.version;
    if (how < 6) {
      cache.Invalidate(key);
    } else if (how < 9) {
      cache.Put(key, version);
    } else {
      cache.InvalidateAll();
    }
    row.floor.store(version);
  }

  void Step(std::mt19937& random) {
    const int key = static_cast<int>(random() % kKeys);
    switch (random() % 20) {
      case 0:
      case 1: Change(key, random() % 10); break;
      case 2: Read(key, {.timeout = absl::Milliseconds(random() % 5)}); break;
      case 3: clock.Advance(absl::Milliseconds(1)); break;
      case 4: {
        const int floor = rows[static_cast<size_t>(key)].floor.load();
        const auto present = cache.GetIfPresent(key);
        if (present.has_value() && **present < floor) ++wrong;
        break;
      }
      default: Read(key, CacheGetOptions{}); break;
    }
    if (cache.weight() > kMaxWeight + kThreads + kPoolThreads + kRefreshThreads) ++wrong;
  }

  const int seed;
  ManualClock clock;
  MetricsRegistry registry;
  std::array<Row, kKeys> rows;
  std::atomic<int> wrong{0};
  std::atomic<int> answers{0};
  IntCache cache;
};

class StressTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(CallersThreadOrExecutor, StressTest, ::testing::Bool());

TEST_P(StressTest, EverythingAtOnce_NobodySeesWhatWasInvalidatedBeforeItsCall) {
  for (int seed = 1; seed <= 4; ++seed) {
    ThreadPool pool(kPoolThreads);
    World world(seed, GetParam() ? &pool : nullptr);
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&world, seed, t] {
          std::mt19937 random(static_cast<uint32_t>(seed * 100 + t));
          for (int64_t i = 0; i < Scaled(10'000, 500'000); ++i) world.Step(random);
        });
      }
      // A timed wait ends only when the clock moves, and every thread may be in one, or behind one that is.
      std::atomic<bool> over{false};
      std::jthread ticking([&] {
        while (!over) {
          world.clock.Advance(absl::Milliseconds(1));
          std::this_thread::yield();
        }
      });
      for (std::jthread& thread : threads) thread.join();
      over = true;
    }
    EXPECT_EQ(world.wrong, 0) << "seed " << seed;
    EXPECT_GT(world.answers, 0);
    SpinUntil([&] { return Metric(world.registry, "stockade_cache_flights") == 0; });
    EXPECT_EQ(Metric(world.registry, "stockade_cache_waiters"), 0);
    // A flight ends before the thread that ran it has evicted entries in favour of its result.
    SpinUntil([&] { return world.cache.weight() <= kMaxWeight && world.cache.weight() == world.cache.size(); });
  }
}

}  // namespace
}  // namespace stockade::testing

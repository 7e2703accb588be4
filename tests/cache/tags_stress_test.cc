#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "cache/test_cache.h"
#include "support/scale.h"

namespace stockade::testing {
namespace {

constexpr int kTags = 3;
constexpr int kKeys = 12;  // Key k depends on tag k % kTags, and on the tag that all have.
constexpr int kInvalidators = 3;
constexpr int kReaders = 4;

std::string TagOf(int tag) { return "tag:" + std::to_string(tag); }

// The database: what each tag stands for has a version, which is also the value of its keys. A change is: a new
// version, then InvalidateTag(), then `floor` says that it has returned. A lookup that begins later must not see an
// older version.
struct Topic {
  std::atomic<int> version{1};
  std::atomic<int> floor{1};
};

struct World {
  explicit World(Executor* load_executor)
      : cache({.ttl = absl::Milliseconds(5),
               .ttl_jitter = 0.5,
               .refresh_ahead = 0.5,
               .negative_ttl = absl::Milliseconds(3),
               .stale_while_revalidate = absl::Seconds(100),
               .stale_if_error = absl::Seconds(100),
               .retry_backoff = absl::Milliseconds(1),
               .load_executor = load_executor,
               .metrics = &registry},
              {.load = [this](const int& key, ValueLoadContext<int>& load) { return Load(key, load); },
               .load_all = [this](const std::vector<int>& keys,
                                  BatchLoad<int, int>& batch) { return LoadAll(keys, batch); }}) {}

  static uint32_t Random() {
    static std::atomic<uint32_t> seed{1};
    static thread_local std::mt19937 random(seed++);
    return random();
  }
  static void Dawdle() {
    for (uint32_t i = Random() % 8; i > 0; --i) std::this_thread::yield();
  }

  // What `key` has by now, or why not. Two loads of a key at once are allowed, three are not.
  absl::StatusOr<int> Query(int key, const int* previous) {
    if (++running[static_cast<size_t>(key)] > 2) ++wrong;
    Dawdle();
    const int version = topics[static_cast<size_t>(key % kTags)].version;
    Dawdle();
    --running[static_cast<size_t>(key)];
    ++loads;
    if (Random() % 16 == 0) return absl::UnavailableError("down");
    if (Random() % 16 == 0) return absl::NotFoundError("no row");
    if (previous != nullptr && *previous == version) return LoadContext::NotModified();
    return version;
  }
  absl::StatusOr<int> Load(int key, ValueLoadContext<int>& load) {
    if (Random() % 2 == 0) load.AddTag(TagOf(key % kTags));
    const absl::StatusOr<int> found = Query(key, load.previous());
    load.AddTag("all");
    load.AddTag(TagOf(key % kTags));
    return found;
  }
  absl::Status LoadAll(const std::vector<int>& keys, BatchLoad<int, int>& batch) {
    for (const int key : keys) {
      const absl::StatusOr<int> found = Query(key, batch.previous(key));
      if (found.ok()) {
        batch.Add(key, *found, {.tags = {"all", TagOf(key % kTags)}});
      } else if (!absl::IsNotFound(found.status())) {  // A batch has no tags for an absence.
        batch.Fail(key, found.status());
      } else {
        batch.Fail(key, absl::UnavailableError("no row"));
      }
    }
    return absl::OkStatus();
  }

  void Check(int key, int floor, int value) {
    if (value < floor || value > topics[static_cast<size_t>(key % kTags)].version) ++wrong;
    ++answers;
  }

  void Read(int key) {
    const int other = static_cast<int>(Random() % kKeys);
    const int floor = topics[static_cast<size_t>(key % kTags)].floor;
    const int other_floor = topics[static_cast<size_t>(other % kTags)].floor;
    switch (Random() % 8) {
      case 0: cache.Refresh(key); break;
      case 1:
        if (const auto found = cache.GetIfPresent(key); found.has_value()) Check(key, floor, **found);
        break;
      case 2: {
        const std::vector<IntAnswer> found = cache.GetAll({key, other, key});
        if (found[0].ok()) Check(key, floor, **found[0]);
        if (found[1].ok()) Check(other, other_floor, **found[1]);
        break;
      }
      default:
        if (const IntAnswer found = cache.Get(key); found.ok()) Check(key, floor, **found);
    }
  }

  void Change(int tag) {
    Topic& topic = topics[static_cast<size_t>(tag)];
    const int version = ++topic.version;
    cache.InvalidateTag(TagOf(tag));
    int floor = topic.floor;
    while (floor < version && !topic.floor.compare_exchange_weak(floor, version)) {
    }
  }

  MetricsRegistry registry;
  std::array<Topic, kTags> topics;
  std::array<std::atomic<int>, kKeys> running{};
  std::atomic<int> wrong{0};
  std::atomic<int> loads{0};
  std::atomic<int> answers{0};
  IntCache cache;
};

class TagStressTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(CallersThreadOrExecutor, TagStressTest, ::testing::Bool());

TEST_P(TagStressTest, InvalidateTag_AStormFromSeveralThreads_NothingInvalidatedIsServedAgain) {
  ThreadPool pool(3);
  World world(GetParam() ? &pool : nullptr);
  const int64_t rounds = Scaled(10'000, 500'000);
  {
    std::atomic<int> reading{kReaders};
    std::vector<std::jthread> threads;
    for (int i = 0; i < kReaders; ++i) {
      threads.emplace_back([&] {
        for (int64_t n = 0; n < rounds; ++n) world.Read(static_cast<int>(World::Random() % kKeys));
        --reading;
      });
    }
    for (int i = 0; i < kInvalidators; ++i) {
      threads.emplace_back([&] {
        while (reading > 0) {
          world.Change(static_cast<int>(World::Random() % kTags));
          World::Dawdle();
        }
      });
    }
  }
  SpinUntil([&] { return Metric(world.registry, "stockade_cache_flights") == 0; });
  EXPECT_EQ(world.wrong, 0);
  EXPECT_GT(world.answers, rounds);
  EXPECT_GT(world.loads, 0);
  world.cache.InvalidateTag("all");
  EXPECT_EQ(world.cache.size(), 0);
  EXPECT_EQ(world.cache.weight(), 0);
}

}  // namespace
}  // namespace stockade::testing

// User code throws, or an executor refuses a task. In each case no call throws, no flight is left behind, and the cache
// answers all later calls. The n-th call of user code throws, for each n.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

#include "cache/test_cache.h"

namespace stockade::testing {
namespace {

// Counts the calls of user code, of all threads, and throws in one of them.
class Turns {
 public:
  static void Step() {
    if (IsTurn()) throw std::runtime_error("its turn");
  }
  static bool IsTurn() { return armed && ++calls == turn; }

  static inline std::atomic<bool> armed{false};
  static inline std::atomic<int> calls{0};
  static inline std::atomic<int> turn{0};
};

// What throws in a test, or refuses.
enum class Fault { kUserCodeThrows, kExecutorThrows, kExecutorDrops };

struct ThrowingKey {
  explicit ThrowingKey(int i) : id(i) {}
  ThrowingKey(const ThrowingKey& other) : id(other.id) { Turns::Step(); }
  ThrowingKey& operator=(const ThrowingKey&) = delete;

  int id;
};
struct ThrowingHash {
  size_t operator()(const ThrowingKey& key) const {
    Turns::Step();
    return static_cast<size_t>(key.id % 2);  // They collide, so that Eq runs.
  }
};
struct ThrowingEq {
  bool operator()(const ThrowingKey& a, const ThrowingKey& b) const {
    Turns::Step();
    return a.id == b.id;
  }
};
struct ThrowingValue {
  explicit ThrowingValue(int n) : number(n) {}
  ThrowingValue(const ThrowingValue& other) : number(other.number) { Turns::Step(); }
  ThrowingValue& operator=(const ThrowingValue&) = delete;

  int number;
};

// For each of whose tasks it may be its turn.
class RefusingExecutor final : public Executor {
 public:
  explicit RefusingExecutor(Fault fault) : fault_(fault) {}
  void Schedule(Task task) override {
    if (fault_ == Fault::kExecutorDrops) {
      if (Turns::IsTurn()) return;
    } else {
      Turns::Step();
    }
    inline_.Schedule(std::move(task));
  }

 private:
  const Fault fault_;
  InlineExecutor inline_;
};

using ThrowingCache = LoadingCache<ThrowingKey, ThrowingValue, ThrowingHash, ThrowingEq>;
using ThrowingBatch = ThrowingCache::Callbacks::Batch;

constexpr int kLastId = 6;  // Keys are from 1 on. The last one has no value.

struct Shop {
  Shop(Fault f, LoadingCacheOptions options, bool batch) : fault(f), executor(f) {
    for (int id = 1; id < kLastId; ++id) source[id] = id;
    options.name = "throwing";
    options.metrics = &registry;
    options.clock = &clock;
    if (options.load_executor != nullptr) options.load_executor = &executor;
    if (options.refresh_executor != nullptr) options.refresh_executor = &executor;
    ThrowingCache::Callbacks callbacks{
        .weigh = [this](const ThrowingKey&, const ThrowingValue&) -> int64_t {
          UserCode();
          return 1;
        },
        .on_removal = [this](const ThrowingKey&, const CacheHandle<ThrowingValue>&, RemovalCause) { UserCode(); }};
    callbacks.load = [this](const ThrowingKey& key, LoadContext& load) -> absl::StatusOr<ThrowingValue> {
      UserCode();
      load.AddTag("shop");
      return Fetch(key.id);
    };
    if (batch) {
      callbacks.load_all = [this](const std::vector<ThrowingKey>& keys, ThrowingBatch& load) {
        for (const ThrowingKey& key : keys) {
          UserCode();
          const absl::StatusOr<ThrowingValue> value = Fetch(key.id);
          if (value.ok()) load.Add(key, *value, {.tags = {"shop"}});
        }
        return absl::OkStatus();
      };
    }
    cache = std::make_unique<ThrowingCache>(options, callbacks);
    EXPECT_TRUE(cache->Get(ThrowingKey(1)).ok());
  }

  void UserCode() const {
    if (fault == Fault::kUserCodeThrows) Turns::Step();
  }
  absl::StatusOr<ThrowingValue> Fetch(int id) {
    if (fails) return absl::UnavailableError("away");
    const auto found = source.find(id);
    if (found == source.end()) return absl::NotFoundError("none");
    return ThrowingValue(found->second);
  }
  // Each key has its value of now, and nothing is under way.
  void ExpectSound(const std::string& where) {
    for (int id = 1; id < kLastId; ++id) {
      // A load that was dropped fails a little later: until then it is joined.
      int number = 0;
      SpinUntil([&] {
        const auto got = cache->Get(ThrowingKey(id));
        if (got.ok()) number = (*got)->number;
        return got.ok();
      });
      EXPECT_EQ(number, source[id]) << where << ", key " << id;
    }
    EXPECT_EQ(cache->Get(ThrowingKey(kLastId)).status().code(), absl::StatusCode::kNotFound) << where;
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
    EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 0) << where;
  }

  const Fault fault;
  std::map<int, int> source;
  bool fails = false;
  MetricsRegistry registry;
  ManualClock clock;
  RefusingExecutor executor;
  InlineExecutor inline_executor;
  std::atomic<int> called_back{0};
  int awaited = 0;
  std::unique_ptr<ThrowingCache> cache;
};

struct Scenario {
  const char* name;
  std::function<void(Shop&)> run;
};

// Those whose key is 1 find its value, the others find none.
std::vector<Scenario> Scenarios() {
  const auto get_async = [](Shop& shop, int id) {
    Executor& executor = shop.fault == Fault::kExecutorDrops ? static_cast<Executor&>(shop.inline_executor)
                                                             : static_cast<Executor&>(shop.executor);
    ++shop.awaited;
    shop.cache->GetAsync(ThrowingKey(id), executor, [&shop](const auto&) { ++shop.called_back; });
  };
  const auto keys = [] {
    const bool armed = Turns::armed.exchange(false);
    std::vector<ThrowingKey> all;
    for (int id = 1; id <= kLastId; ++id) all.emplace_back(id);
    Turns::armed = armed;
    return all;
  };
  return {
      {"Get, hit", [](Shop& shop) { (void)shop.cache->Get(ThrowingKey(1)); }},
      {"Get, miss", [](Shop& shop) { (void)shop.cache->Get(ThrowingKey(3)); }},
      {"Get, no value", [](Shop& shop) { (void)shop.cache->Get(ThrowingKey(kLastId)); }},
      {"Get, stale",
       [](Shop& shop) {
         shop.clock.Advance(absl::Seconds(61));
         (void)shop.cache->Get(ThrowingKey(1));
       }},
      {"Get, expired",
       [](Shop& shop) {
         shop.clock.Advance(absl::Seconds(75));
         (void)shop.cache->Get(ThrowingKey(1));
       }},
      {"Get, the loader fails",
       [](Shop& shop) {
         shop.clock.Advance(absl::Seconds(75));
         shop.fails = true;
         (void)shop.cache->Get(ThrowingKey(1));
         (void)shop.cache->Get(ThrowingKey(2));
         shop.fails = false;
         shop.clock.Advance(absl::Minutes(10));
       }},
      {"GetIfPresent",
       [](Shop& shop) {
         (void)shop.cache->GetIfPresent(ThrowingKey(1));
         shop.clock.Advance(absl::Minutes(10));
         (void)shop.cache->GetIfPresent(ThrowingKey(1));
       }},
      {"GetOrLoad",
       [](Shop& shop) {
         const auto loader = [&shop](const ThrowingKey& key, LoadContext&) { return shop.Fetch(key.id); };
         (void)shop.cache->GetOrLoad(ThrowingKey(3), loader);
       }},
      {"GetAsync",
       [=](Shop& shop) {
         get_async(shop, 1);
         get_async(shop, 3);
         get_async(shop, kLastId);
       }},
      {"GetAll",
       [=](Shop& shop) {
         const std::vector<ThrowingKey> all = keys();
         EXPECT_EQ(shop.cache->GetAll(all).size(), all.size());
       }},
      {"WarmUp", [=](Shop& shop) { (void)shop.cache->WarmUp(keys(), {.parallelism = 1, .batch_size = 2}); }},
      {"Refresh",
       [](Shop& shop) {
         shop.cache->Refresh(ThrowingKey(1));
         shop.cache->Refresh(ThrowingKey(3));
       }},
      {"Put",
       [](Shop& shop) {
         shop.source[1] = 100;
         shop.source[3] = 300;
         shop.cache->Put(ThrowingKey(1), ThrowingValue(100), {.tags = {"put"}});
         shop.cache->Put(ThrowingKey(3), ThrowingValue(300), absl::Seconds(10));
       }},
      {"Invalidate",
       [](Shop& shop) {
         shop.source[1] = 100;
         shop.cache->Invalidate(ThrowingKey(1));
       }},
      {"InvalidateTag",
       [](Shop& shop) {
         shop.source[1] = 100;
         shop.cache->InvalidateTag("shop");
       }},
      {"InvalidateAll",
       [](Shop& shop) {
         shop.source[1] = 100;
         shop.cache->InvalidateAll();
       }},
      {"UpdateThrough",
       [](Shop& shop) {
         const absl::Status done = shop.cache->UpdateThrough(ThrowingKey(1), [&] {
           shop.source[1] = 100;
           shop.UserCode();
           return absl::OkStatus();
         });
       }},
      {"Evict",
       [](Shop& shop) {
         for (int id = 1; id < kLastId; ++id) (void)shop.cache->Get(ThrowingKey(id));
       }},
  };
}

// Runs each scenario with each fault at each of its places.
void RunAll(Fault fault, const LoadingCacheOptions& options, bool batch) {
  SetLogSink([](LogSeverity, std::string_view) {});
  for (const Scenario& scenario : Scenarios()) {
    for (int turn = 1;; ++turn) {
      ASSERT_LT(turn, 10'000);
      const std::string where = std::string(scenario.name) + ", turn " + std::to_string(turn);
      Shop shop(fault, options, batch);
      Turns::calls = 0;
      Turns::turn = turn;
      Turns::armed = true;
      try {
        scenario.run(shop);
      } catch (const std::exception& error) {
        ADD_FAILURE() << where << ": threw " << error.what();
      }
      // A load that was dropped is answered by a thread of the cache, which calls back.
      SpinUntil([&] { return shop.called_back == shop.awaited; });
      Turns::armed = false;
      shop.ExpectSound(where);
      if (::testing::Test::HasFailure()) break;
      if (Turns::calls < turn) break;
    }
  }
  SetLogSink({});
}

InlineExecutor some_executor;  // Stands for the shop's.

TEST(ThrowingTest, UserCodeThrowsAtEachPlace_NoCallThrowsAndEachKeyIsAnsweredLater) {
  for (const bool batch : {false, true}) {
    const LoadingCacheOptions options{.max_weight = 3,
                                      .ttl = absl::Seconds(60),
                                      .negative_ttl = absl::Seconds(5),
                                      .stale_while_revalidate = absl::Seconds(10),
                                      .stale_if_error = absl::Seconds(30),
                                      .refresh_executor = &some_executor};
    RunAll(Fault::kUserCodeThrows, options, batch);
    LoadingCacheOptions queued = options;
    queued.load_executor = &some_executor;
    RunAll(Fault::kUserCodeThrows, queued, batch);
    LoadingCacheOptions strict = options;
    strict.strict = true;
    RunAll(Fault::kUserCodeThrows, strict, batch);
  }
}

// Against the contract of Executor.
class TwiceExecutor final : public Executor {
 public:
  void Schedule(Task task) override {
    task();
    task();
  }
};

TEST(TwiceExecutorTest, LoadRunsTwice_Aborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto get = [] {
    TwiceExecutor executor;
    LoadingCache<int, int> cache({.name = "c", .load_executor = &executor}, [](const int& key) { return key; });
    (void)cache.Get(1);
  };
  EXPECT_DEATH(get(), "an executor has run a load of a LoadingCache twice");
}

class RefusingExecutorTest : public ::testing::TestWithParam<Fault> {};

TEST_P(RefusingExecutorTest, ExecutorRefusesEachTask_NoCallThrowsAndEachKeyIsAnsweredLater) {
  for (const bool batch : {false, true}) {
    RunAll(GetParam(),
           {.ttl = absl::Seconds(60),
            .stale_while_revalidate = absl::Seconds(10),
            .load_executor = &some_executor,
            .refresh_executor = &some_executor},
           batch);
  }
}

INSTANTIATE_TEST_SUITE_P(ThrowsOrDrops, RefusingExecutorTest,
                         ::testing::Values(Fault::kExecutorThrows, Fault::kExecutorDrops));

}  // namespace
}  // namespace stockade::testing

// There is no memory on the thread of a call, at each of its allocations in turn. No call throws or ends the process,
// each has an answer, and what it leaves is consistent. This program replaces operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cache/test_cache.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/cache/coroutine.h"
#include "stockade/metrics/metrics_registry.h"

namespace {

// The memory of one thread.
struct Memory {
  bool fails = false;     // From some allocation on.
  bool for_good = false;  // Not only that one.
  int64_t allowed = 0;    // Allocations before it.
  int64_t failed = 0;
};
constinit thread_local Memory memory;

void* Allocate(size_t size, size_t alignment) noexcept {
  if (memory.fails && memory.allowed-- <= 0) {
    ++memory.failed;
    memory.fails = memory.for_good;
    return nullptr;
  }
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const allocated = Allocate(size, alignment);
  if (allocated == nullptr) throw std::bad_alloc();
  return allocated;
}

constexpr size_t kPlain = alignof(std::max_align_t);

}  // namespace

// Not inlined: g++ 12 would think that what new gave is freed by the wrong one.
#define STOCKADE_REPLACED [[gnu::noinline]]
STOCKADE_REPLACED void* operator new(size_t size) { return AllocateOrThrow(size, kPlain); }
STOCKADE_REPLACED void* operator new[](size_t size) { return AllocateOrThrow(size, kPlain); }
STOCKADE_REPLACED void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
STOCKADE_REPLACED void* operator new[](size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
STOCKADE_REPLACED void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size, kPlain); }
STOCKADE_REPLACED void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size, kPlain); }
STOCKADE_REPLACED void* operator new(size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
STOCKADE_REPLACED void* operator new[](size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<size_t>(alignment));
}
STOCKADE_REPLACED void operator delete(void* freed) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete[](void* freed) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete(void* freed, size_t) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete[](void* freed, size_t) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete(void* freed, std::align_val_t) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete[](void* freed, std::align_val_t) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete(void* freed, size_t, std::align_val_t) noexcept { std::free(freed); }
STOCKADE_REPLACED void operator delete[](void* freed, size_t, std::align_val_t) noexcept { std::free(freed); }

namespace stockade::testing {
namespace {

// While it exists, the thread has memory: user code, and the test itself, do not fail.
class Spared {
 public:
  Spared() : was_(std::exchange(memory, Memory())) {}
  ~Spared() { memory = was_; }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  const Memory was_;
};

void FailFrom(int64_t allowed, bool for_good) { memory = {.fails = true, .for_good = for_good, .allowed = allowed}; }
// Returns the number of allocations that failed.
int64_t FailNoMore() { return std::exchange(memory, Memory()).failed; }

template <typename T>
T Made(int number) {
  if constexpr (std::is_same_v<T, std::string>) {
    return "longer than a string without memory of its own: " + std::to_string(number);
  } else {
    return number;
  }
}

bool IsAnswer(const absl::Status& status) { return status.ok() || absl::IsResourceExhausted(status); }

constexpr int kAbsent = 7;  // Keys are from 1 on; this one has no value, and 1 and 2 are in the cache at first.
constexpr absl::Duration kTtl = absl::Minutes(1);

template <typename Key, typename Value>
struct Shop {
  using Cache = LoadingCache<Key, Value>;
  using Batch = typename Cache::Callbacks::Batch;

  explicit Shop(LoadingCacheOptions options, bool batch) {
    strict = options.strict;
    options.name = "short";
    options.metrics = &registry;
    options.clock = &clock;
    options.ttl = kTtl;
    options.negative_ttl = absl::Seconds(5);
    options.stale_while_revalidate = absl::Seconds(10);
    options.stale_if_error = absl::Seconds(30);
    if (options.load_executor != nullptr) options.load_executor = &executor;
    options.refresh_executor = &executor;
    typename Cache::Callbacks callbacks{
        .weigh = [](const Key&, const Value&) -> int64_t { return 2; },
        .on_removal = [this](const Key&, const CacheHandle<Value>&, RemovalCause) { ++removals; }};
    callbacks.load = [this](const Key& key, auto& load) -> absl::StatusOr<Value> {
      const Spared user;
      load.AddTag("shop");
      if (load.previous() != nullptr && not_modified) return load.NotModified();
      return Fetch(key);
    };
    if (batch) {
      callbacks.load_all = [this](const std::vector<Key>& keys, Batch& load) {
        const Spared user;
        for (const Key& key : keys) {
          const absl::StatusOr<Value> value = Fetch(key);
          if (value.ok()) load.Add(key, *value, {.tags = {"shop"}});
        }
        return absl::OkStatus();
      };
    }
    cache = std::make_unique<Cache>(options, callbacks);
    handles.push_back(*cache->Get(KeyOf(1)));
    handles.push_back(*cache->Get(KeyOf(2)));
  }

  static Key KeyOf(int id) { return Made<Key>(id); }
  Value ValueOf(int id) const { return Made<Value>(100 * id + version); }
  absl::StatusOr<Value> Fetch(const Key& key) const {
    if (fails) return absl::UnavailableError("away");
    for (int id = 1; id < kAbsent; ++id) {
      if (key == KeyOf(id)) return ValueOf(id);
    }
    return absl::NotFoundError("none");
  }

  // Nothing is under way, each entry has its tags and its weight, and all later calls work.
  void ExpectSound() {
    // A thread of the cache answers what an executor has dropped.
    SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 0; });
    EXPECT_EQ(Metric(registry, "stockade_cache_waiters"), 0);
    cache->InvalidateTag("shop");
    const int64_t absences = cache->size();  // Those of a batch have no tag, and the weight 1.
    EXPECT_LE(absences, 1);
    EXPECT_EQ(cache->weight(), absences);
    for (size_t i = 0; i < handles.size(); ++i) {
      EXPECT_EQ(*handles[i], Made<Value>(100 * (static_cast<int>(i) + 1)));
    }
    clock.Advance(absl::Hours(1));
    for (int id = 1; id < kAbsent; ++id) EXPECT_EQ(**cache->Get(KeyOf(id)), ValueOf(id)) << id;
    EXPECT_EQ(cache->Get(KeyOf(kAbsent)).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(cache->size(), kAbsent);
    EXPECT_EQ(cache->weight(), 2 * (kAbsent - 1) + 1);
    cache->InvalidateAll();
    EXPECT_EQ(cache->size(), 0);
    EXPECT_EQ(cache->weight(), 0);
  }

  MetricsRegistry registry;
  ManualClock clock;
  InlineExecutor executor;
  std::atomic<int> version{0};
  bool fails = false;
  bool not_modified = false;
  bool strict = false;
  int removals = 0;
  std::unique_ptr<Cache> cache;
  std::vector<CacheHandle<Value>> handles;
};

// A call under test. It returns what is to be checked with memory again.
using Check = std::function<void()>;
using Call = std::function<Check()>;
const Check nothing = [] {};

// Prepares a shop for a call.
template <typename Shop>
struct Scenario {
  const char* name;
  std::function<Call(Shop&)> prepare;
};
template <typename Key, typename Value>
using ScenariosOf = std::vector<Scenario<Shop<Key, Value>>>;

// A Get() whose answer is a value, no memory, or one of `others`.
template <typename Key, typename Value>
Call GetOf(Shop<Key, Value>& shop, int id, std::vector<absl::StatusCode> others = {}) {
  const auto key = std::make_shared<Key>(shop.KeyOf(id));
  return [&shop, key, others, id]() -> Check {
    auto got = shop.cache->Get(*key);
    const Spared checks;
    return [got = std::move(got), others, id, &shop] {
      const bool other = std::find(others.begin(), others.end(), got.status().code()) != others.end();
      EXPECT_TRUE(IsAnswer(got.status()) || other) << got.status();
      if (got.ok() && !shop.fails) {
        EXPECT_TRUE(**got == shop.ValueOf(id) || **got == Made<Value>(100 * id));
      }
    };
  };
}

// Lookups of one key.
template <typename Key, typename Value>
ScenariosOf<Key, Value> Lookups() {
  using S = Shop<Key, Value>;
  return {
      {"hit",
       [](S& shop) -> Call {
         return [&shop, key = S::KeyOf(1)]() -> Check {
           const bool hit = shop.cache->Get(key).ok() && shop.cache->GetIfPresent(key).has_value();
           if (hit || shop.strict) return nothing;  // A strict read locks its key.
           return [] { ADD_FAILURE() << "a hit needs no memory"; };
         };
       }},
      {"miss", [](S& shop) { return GetOf(shop, 3); }},
      {"absent", [](S& shop) { return GetOf(shop, kAbsent, {absl::StatusCode::kNotFound}); }},
      {"expired",
       [](S& shop) {
         shop.clock.Advance(kTtl + absl::Seconds(15));
         ++shop.version;
         return GetOf(shop, 1);
       }},
      {"expired, not modified",
       [](S& shop) {
         shop.not_modified = true;
         shop.clock.Advance(kTtl + absl::Seconds(15));
         return GetOf(shop, 1);
       }},
      {"stale, refreshes",
       [](S& shop) {
         ++shop.version;
         shop.clock.Advance(kTtl + absl::Seconds(1));
         return GetOf(shop, 1);
       }},
      {"GetIfPresent",
       [](S& shop) -> Call {
         shop.clock.Advance(absl::Hours(1));
         return [&shop, key = S::KeyOf(1)]() -> Check {
           return shop.cache->GetIfPresent(key).has_value() ? [] { ADD_FAILURE() << "it has expired"; } : nothing;
         };
       }},
      {"GetOrLoad",
       [](S& shop) -> Call {
         const auto load = std::make_shared<std::function<absl::StatusOr<Value>(const Key&)>>([&shop](const Key& key) {
           const Spared user;
           return shop.Fetch(key);
         });
         return [&shop, load, key = S::KeyOf(3)]() -> Check {
           auto got = shop.cache->GetOrLoad(key, *load);
           const Spared checks;
           return [&shop, status = got.status()] {
             EXPECT_TRUE(IsAnswer(status)) << status;
             shop.cache->InvalidateAll();  // It has no tag.
           };
         };
       }},
  };
}

// Lookups whose loader fails.
template <typename Key, typename Value>
ScenariosOf<Key, Value> FailedLoads() {
  using S = Shop<Key, Value>;
  return {
      {"fails, an old value is there",
       [](S& shop) -> Call {
         shop.clock.Advance(kTtl + absl::Seconds(15));
         shop.fails = true;
         const Call call = GetOf(shop, 1, {absl::StatusCode::kUnavailable});
         return [&shop, call]() -> Check {
           const Check check = call();
           const Spared checks;
           return [&shop, check] {
             check();
             shop.fails = false;
             shop.clock.Advance(absl::Hours(1));
           };
         };
       }},
      {"fails",
       [](S& shop) -> Call {
         shop.fails = true;
         const Call call = GetOf(shop, 3, {absl::StatusCode::kUnavailable});
         return [&shop, call]() -> Check {
           const Check check = call();
           const Spared checks;
           return [&shop, check] {
             check();
             shop.fails = false;
           };
         };
       }},
  };
}

// Suspended at first, so that its frame has its memory. Ends by itself.
struct Awaiting {
  struct promise_type {
    Awaiting get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<> frame;
};

template <typename Cache, typename Key>
Awaiting Awaits(Cache& cache, Key key, AwaitOn on, int& called) {
  const auto answer = co_await GetAwait(cache, key, on);
  const Spared checks;
  ++called;
  EXPECT_TRUE(IsAnswer(answer.status())) << answer.status();
}

// Lookups of many keys, or that nobody waits for.
template <typename Key, typename Value>
ScenariosOf<Key, Value> OtherLookups() {
  using S = Shop<Key, Value>;
  return {
      {"GetAll",
       [](S& shop) -> Call {
         std::vector<Key> keys;
         for (int id = 1; id <= kAbsent; ++id) keys.push_back(S::KeyOf(id));
         return [&shop, keys = std::make_shared<std::vector<Key>>(std::move(keys))]() -> Check {
           auto got = shop.cache->GetAll(*keys);
           const Spared checks;
           return [got = std::move(got), keys] {
             EXPECT_TRUE(got.empty() || got.size() == keys->size());
             for (const auto& answer : got) {
               EXPECT_TRUE(IsAnswer(answer.status()) || absl::IsNotFound(answer.status())) << answer.status();
             }
           };
         };
       }},
      {"GetAsync",
       [](S& shop) -> Call {
         auto called = std::make_shared<int>(0);
         auto done = std::make_shared<typename S::Cache::AsyncCallback>([called](const auto& answer) {
           const Spared user;
           ++*called;
           EXPECT_TRUE(IsAnswer(answer.status())) << answer.status();
         });
         return [&shop, called, done, key = S::KeyOf(3)]() -> Check {
           shop.cache->GetAsync(key, shop.executor, std::move(*done));
           const Spared checks;
           return [called] {
             SpinUntil([&] { return *called > 0; });
             EXPECT_EQ(*called, 1);
           };
         };
       }},
      {"GetAwait",
       [](S& shop) -> Call {
         const auto called = std::make_shared<int>(0);
         const AwaitOn on(shop.executor, std::stop_source().get_token(), Clock::System()->Now() + absl::Hours(1));
         const std::coroutine_handle<> begins = Awaits(*shop.cache, S::KeyOf(3), on, *called).frame;
         return [called, begins]() -> Check {
           begins.resume();
           const Spared checks;
           return [called] {
             SpinUntil([&] { return *called > 0; });
             EXPECT_EQ(*called, 1);
           };
         };
       }},
      {"Refresh",
       [](S& shop) -> Call {
         return [&shop, one = S::KeyOf(1), three = S::KeyOf(3)]() -> Check {
           shop.cache->Refresh(one);
           shop.cache->Refresh(three);
           return nothing;
         };
       }},
      {"WarmUp",
       [](S& shop) -> Call {
         std::vector<Key> keys = {S::KeyOf(3), S::KeyOf(4), S::KeyOf(kAbsent)};
         return [&shop, keys]() -> Check {
           auto report = shop.cache->WarmUp(keys, {.parallelism = 1});
           const Spared checks;
           return [status = report.status()] { EXPECT_TRUE(IsAnswer(status)) << status; };
         };
       }},
      {"evict",
       [](S& shop) -> Call {
         std::vector<Key> keys;
         for (int id = 1; id < kAbsent; ++id) keys.push_back(S::KeyOf(id));
         return [&shop, keys]() -> Check {
           for (const Key& key : keys) (void)shop.cache->Get(key);
           return [&shop] { EXPECT_LE(shop.cache->weight(), 8); };
         };
       }},
  };
}

// Changes of one key.
template <typename Key, typename Value>
ScenariosOf<Key, Value> Changes() {
  using S = Shop<Key, Value>;
  return {
      {"Put",
       [](S& shop) -> Call {
         ++shop.version;
         auto values = std::make_shared<std::vector<Value>>();
         for (const int id : {1, 2, 3, 4}) values->push_back(shop.ValueOf(id));
         std::vector<Key> keys;
         for (const int id : {1, 2, 3, 4}) keys.push_back(S::KeyOf(id));
         EntryOptions entry{.tags = {"put", "tag that is longer than a string without memory"}};
         return [&shop, values, keys, entry]() mutable -> Check {
           shop.cache->Put(keys[0], std::move((*values)[0]), std::move(entry));
           shop.cache->Put(keys[1], std::move((*values)[1]));
           shop.cache->Put(keys[2], std::move((*values)[2]), kTtl);
           shop.cache->Put(keys[3], std::move((*values)[3]));
           const Spared checks;
           return [&shop] {
             for (const int id : {1, 2, 3, 4}) {
               const auto value = shop.cache->GetIfPresent(S::KeyOf(id));
               if (value.has_value()) EXPECT_EQ(**value, shop.ValueOf(id)) << "not the old value";
             }
             shop.cache->InvalidateAll();
           };
         };
       }},
      {"Invalidate",
       [](S& shop) -> Call {
         ++shop.version;
         return [&shop, key = S::KeyOf(1)]() -> Check {
           shop.cache->Invalidate(key);
           return [&shop] { EXPECT_FALSE(shop.cache->GetIfPresent(S::KeyOf(1)).has_value()); };
         };
       }},
      {"UpdateThrough",
       [](S& shop) -> Call {
         return [&shop, key = S::KeyOf(1)]() -> Check {
           bool ran = false;
           absl::Status done = shop.cache->UpdateThrough(key, [&] {
             ++shop.version;
             ran = true;
             return absl::OkStatus();
           });
           const Spared checks;
           return [&shop, ran, done] {
             EXPECT_EQ(done.code(), ran ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted);
             if (ran) EXPECT_FALSE(shop.cache->GetIfPresent(S::KeyOf(1)).has_value());
             shop.cache->InvalidateAll();
           };
         };
       }},
  };
}

// Changes of many keys.
template <typename Key, typename Value>
ScenariosOf<Key, Value> Invalidations() {
  using S = Shop<Key, Value>;
  return {
      {"InvalidateTag",
       [](S& shop) -> Call {
         ++shop.version;
         const auto tag = std::make_shared<std::string>("a tag that is longer than a string without memory");
         for (int id = 3; id < kAbsent; ++id) shop.cache->Put(S::KeyOf(id), Made<Value>(0), {.tags = {*tag, "shop"}});
         return [&shop, tag]() -> Check {
           shop.cache->InvalidateTag(*tag);
           shop.cache->InvalidateTag("shop");
           return [&shop] { EXPECT_EQ(shop.cache->size(), 0); };
         };
       }},
      {"InvalidateAll",
       [](S& shop) -> Call {
         ++shop.version;
         return [&shop]() -> Check {
           shop.cache->InvalidateAll();
           return [&shop] { EXPECT_EQ(shop.cache->size(), 0); };
         };
       }},
  };
}

template <typename Key, typename Value>
ScenariosOf<Key, Value> Scenarios() {
  ScenariosOf<Key, Value> all;
  for (const auto& some : {Lookups<Key, Value>(), FailedLoads<Key, Value>(), OtherLookups<Key, Value>(),
                           Changes<Key, Value>(), Invalidations<Key, Value>()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Lets each allocation of each call fail, alone and with all later ones.
template <typename Key, typename Value>
void RunAll(const LoadingCacheOptions& options, bool batch) {
  for (const auto& scenario : Scenarios<Key, Value>()) {
    if (options.max_weight < 20 && std::string_view(scenario.name) != "evict") continue;
    if (options.max_weight > 20 && std::string_view(scenario.name) == "evict") continue;
    for (const bool for_good : {false, true}) {
      bool failed = true;
      for (int allowed = 0; failed && !::testing::Test::HasFailure(); ++allowed) {
        ASSERT_LT(allowed, 10'000);
        SCOPED_TRACE(std::string(scenario.name) + (for_good ? ", from " : ", only ") + std::to_string(allowed));
        Shop<Key, Value> shop(options, batch);
        const auto call = scenario.prepare(shop);
        FailFrom(allowed, for_good);
        const std::function<void()> check = call();
        failed = FailNoMore() > 0;
        check();
        if (options.max_weight > 20) shop.ExpectSound();
      }
    }
  }
}

template <typename Types>
class NoMemoryTest : public ::testing::Test {
 protected:
  using Key = typename Types::first_type;
  using Value = typename Types::second_type;

  void SetUp() override {
    SetLogSink([](LogSeverity, std::string_view) {});
  }
  void TearDown() override { SetLogSink({}); }
};

// Keys and values that are copied into slots, and others.
using KindsOfEntries = ::testing::Types<std::pair<int, int>, std::pair<int, std::string>, std::pair<std::string, int>,
                                        std::pair<std::string, std::string>>;
TYPED_TEST_SUITE(NoMemoryTest, KindsOfEntries);

InlineExecutor some_executor;  // Stands for the shop's.

TYPED_TEST(NoMemoryTest, EachAllocationFails_CallsHaveAnswersAndTheCacheIsConsistent) {
  for (const bool batch : {false, true}) {
    RunAll<typename TestFixture::Key, typename TestFixture::Value>({.max_weight = 1000}, batch);
  }
}

TYPED_TEST(NoMemoryTest, EachAllocationFails_WithALoadExecutor_CallsHaveAnswersAndTheCacheIsConsistent) {
  for (const bool batch : {false, true}) {
    RunAll<typename TestFixture::Key, typename TestFixture::Value>(
        {.max_weight = 1000, .load_executor = &some_executor}, batch);
  }
}

TYPED_TEST(NoMemoryTest, EachAllocationFails_OfAStrictCache_CallsHaveAnswersAndTheCacheIsConsistent) {
  RunAll<typename TestFixture::Key, typename TestFixture::Value>({.max_weight = 1000, .strict = true}, true);
}

TYPED_TEST(NoMemoryTest, EachAllocationFails_WhileEntriesAreEvicted_TheBoundHolds) {
  RunAll<typename TestFixture::Key, typename TestFixture::Value>({.max_weight = 8}, false);
}

// The calling thread runs the load, and has no memory from its end on.
TYPED_TEST(NoMemoryTest, LoadEndsWithoutMemory_WhileAnotherCallWaits_BothHaveAnswers) {
  using Key = typename TestFixture::Key;
  using Value = typename TestFixture::Value;
  for (const bool for_good : {false, true}) {
    int64_t failed = 1;
    for (int allowed = 0; failed > 0; ++allowed) {
      SCOPED_TRACE(allowed);
      MetricsRegistry registry;
      const Key key = Made<Key>(1);
      std::atomic<int> loads{0};
      LoadingCache<Key, Value> cache({.name = "short", .ttl = kTtl, .metrics = &registry},
                                     [&](const Key&, LoadContext& load) -> absl::StatusOr<Value> {
                                       load.AddTag("a tag that is longer than a string without memory");
                                       if (loads++ > 0) return Made<Value>(2);
                                       AwaitWaiters(registry, 1);
                                       Value value = Made<Value>(1);
                                       FailFrom(allowed, for_good);
                                       return value;
                                     });
      absl::Status other;
      std::thread waiter([&] {
        SpinUntil([&] { return Metric(registry, "stockade_cache_flights") == 1; });
        other = cache.Get(key).status();
      });
      const auto own = cache.Get(key);
      failed = FailNoMore();
      waiter.join();
      EXPECT_TRUE(IsAnswer(own.status())) << own.status();
      EXPECT_TRUE(IsAnswer(other)) << other;
      EXPECT_EQ(own.status().code(), other.code());
      EXPECT_EQ(cache.weight(), cache.size());
      cache.InvalidateTag("a tag that is longer than a string without memory");
      EXPECT_EQ(cache.size(), 0);
      EXPECT_EQ(**cache.Get(key), Made<Value>(2));
    }
  }
}

class NoMemoryAtStartTest : public NoMemoryTest<std::pair<int, int>> {};

TEST_F(NoMemoryAtStartTest, Create_EachAllocationFails_IsResourceExhausted) {
  bool failed = true;
  for (int allowed = 0; failed; ++allowed) {
    MetricsRegistry registry;
    LoadingCacheOptions options{.name = "a name that is longer than a string without memory", .metrics = &registry};
    IntCache::Loader load = ItsKey;
    FailFrom(allowed, true);
    auto cache = IntCache::Create(std::move(options), std::move(load));
    failed = FailNoMore() > 0;
    EXPECT_EQ(cache.status().code(), failed ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
  }
}

Awaiting AwaitsHits(IntCache& cache, Executor& executor, int& hits) {
  const AwaitOn on(executor);
  for (int i = 0; i < 100; ++i) {
    const absl::StatusOr<CacheHandle<int>> hit = co_await GetAwait(cache, 1, on);
    hits += hit.ok() ? 1 : 0;
  }
}

TEST_F(NoMemoryAtStartTest, GetAwait_OfAHit_AllocatesNothing) {
  IntCache cache({.name = "short"});
  cache.Put(1, 10);
  EXPECT_TRUE(cache.Get(1).ok());  // A thread's first one allocates.
  int hits = 0;
  const std::coroutine_handle<> frame = AwaitsHits(cache, some_executor, hits).frame;
  FailFrom(0, true);
  frame.resume();
  EXPECT_EQ(FailNoMore(), 0);
  EXPECT_EQ(hits, 100);
}

// What a loader throws is the loader's.
TEST_F(NoMemoryAtStartTest, LoaderThrowsBadAlloc_IsInternal) {
  IntCache cache({.name = "short"}, [](const int&) -> absl::StatusOr<int> { throw std::bad_alloc(); });
  EXPECT_EQ(cache.Get(1).status().code(), absl::StatusCode::kInternal);
}

TEST_F(NoMemoryAtStartTest, Log_WithoutMemory_IsDropped) {
  std::vector<std::string> lines;
  SetLogSink([&](LogSeverity, std::string_view message) {
    const Spared user;
    lines.emplace_back(message);
  });
  // The first one of a second, which also says what the second before it has left out.
  const auto log_first = [&] {
    lines.clear();
    SpinUntil([&] {
      base_internal::Log(LogSeverity::kError, "the first one");
      return lines.size() == 2 || lines == std::vector<std::string>{"the first one"};
    });
  };
  log_first();
  FailFrom(0, true);
  base_internal::Log(LogSeverity::kError, "a message that is longer than a string without memory");
  EXPECT_GT(FailNoMore(), 0);
  EXPECT_EQ(lines.back(), "the first one");
}

}  // namespace
}  // namespace stockade::testing

// The calls of a cache with a tier: what they ask for and give, and what happens when they meet. The tier is in memory.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/tier/memory_tier_test.h"
#include "cache/tier/tier_client.h"
#include "stockade/base/executor.h"

namespace stockade::testing {
namespace {

using base_internal::Concat;
using CacheCallsTest = MemoryTierTest;

std::vector<int> KeysUpTo(size_t count) {
  std::vector<int> keys(count);
  std::iota(keys.begin(), keys.end(), 0);
  return keys;
}

// Its functions invoke `before` with their names.
CacheCodec<int, std::string> TextCodec(const std::function<void(std::string_view name)>& before) {
  CacheCodec<int, std::string> codec;
  codec.id = "text/1";
  codec.encode_key = [before](const int& key, std::string* bytes) {
    before("encode_key");
    *bytes = std::to_string(key);
    return absl::OkStatus();
  };
  codec.decode_key = [before](std::string_view bytes) -> absl::StatusOr<int> {
    before("decode_key");
    return std::stoi(std::string(bytes));
  };
  codec.encode_value = [before](const std::string& value, std::string* bytes) {
    before("encode_value");
    *bytes = value;
    return absl::OkStatus();
  };
  codec.decode_value = [before](std::string_view bytes) -> absl::StatusOr<std::string> {
    before("decode_value");
    return std::string(bytes);
  };
  return codec;
}

// Answers that are overtaken by an invalidation.

TEST_F(CacheCallsTest, AnswerOvertakenByAnInvalidation_IsNotStored) {
  Open();
  Get(*a, 1);
  std::atomic<bool> overtakes{true};
  tier->process(1).on_reply = [&] {
    if (!overtakes.exchange(false)) return;
    db.Write(1);
    a->Invalidate(1);
    tier->process(1).Beat();
  };
  Get(*b, 1);  // It began before the invalidation, and may have either value.
  EXPECT_FALSE(overtakes);
  EXPECT_FALSE(Has(*b, 1));
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2);
  Close();
}

TEST_F(CacheCallsTest, ExpiredCopyOvertakenByAnOwnTagInvalidation_IsNotStored) {
  std::atomic<bool> fails{false};
  Open({.stale_if_error = absl::Hours(1)}, [&](int key, LoadContext& load) -> Loaded {
    if (fails) return absl::InternalError("down");
    load.AddTag("tag");
    return db.Read(key);
  });
  Get(*a, 1);
  clock.Advance(absl::Minutes(1));
  tier->BeatAll();
  fails = true;
  std::atomic<bool> overtakes{true};
  tier->process(1).on_reply = [&] {
    if (overtakes.exchange(false)) b->InvalidateTag("tag");
  };
  Get(*b, 1);  // It began before the invalidation, and may have either answer.
  EXPECT_FALSE(overtakes);
  EXPECT_EQ(Get(*b, 1), "INTERNAL");
  Close();
}

// The tier has not accepted the invalidation, so no position can show that the answer is older.
TEST_F(CacheCallsTest, AnswerOvertakenByAnInvalidationThatIsQueued_IsAskedForAgain) {
  const std::vector<std::function<void(Cache&)>> invalidations = {
      [](Cache& cache) { cache.Invalidate(2); },
      [](Cache& cache) { cache.InvalidateTag("even"); },
      [](Cache& cache) { cache.InvalidateAll(); },
  };
  for (size_t i = 0; i < invalidations.size(); ++i) {
    SCOPED_TRACE(i);
    NewMemoryTier();
    MetricsRegistry registry;
    a = NewCache(ReadsWithTag("even"));
    b = NewCache({.metrics = &registry}, ReadsWithTag("even"));
    const std::string old = Get(*a, 2);
    std::atomic<bool> overtakes{true};
    std::atomic<bool> answered{false};
    std::jthread joiner;
    MemoryCacheTier::Process& process = tier->process(1);
    process.on_reply = [&] {
      if (!overtakes.exchange(false)) return;
      process.away = true;
      db.Write(2);
      invalidations[i](*b);
      joiner = std::jthread([&] {
        EXPECT_NE(Get(*b, 2), old);
        answered = true;
      });
      SpinUntil([&] { return answered || Metric(registry, "stockade_cache_waiters") == 1; });
    };
    Get(*b, 2);  // It began before the invalidation, and may have either value.
    EXPECT_FALSE(overtakes);
    joiner.join();
    EXPECT_NE(Get(*b, 2), old);
    Close();
  }
}

TEST_F(CacheCallsTest, AnswerThatKnowsAnInvalidationBeforeTheHeartbeat_IsStoredAndStays) {
  Open();
  Get(*a, 1);
  db.Write(1);
  a->Invalidate(1);
  ExpectBoth(1, "1 v1");
  const int64_t asks = tier->asks();
  tier->process(1).Beat();
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(tier->asks(), asks);
  EXPECT_EQ(db.reads(), 2);
}

// Calls that wait for a load of another process.

// Without the message, the calls would wait for an hour.
TEST_F(CacheCallsTest, LeaseEnded_CallsThatWaitForAnotherProcess_AskAtOnce) {
  UseSystemClock({.retry_after = absl::Hours(1)});
  ThreadPool answers(1);
  for (const bool executor : {false, true}) {
    for (const bool async : {false, true}) {
      SCOPED_TRACE(Concat("executor ", executor, ", async ", async));
      ThreadPool pool(1);
      Door door;
      a = NewCache(ReadsBehind(door));
      b = NewCache({.load_executor = executor ? &pool : nullptr}, Reads());
      const size_t opened = tier->opened();
      std::jthread loading([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
      door.AwaitArrivals(1);
      const int64_t asks = tier->asks();
      std::future<std::string> answer;
      std::vector<std::jthread> callers;
      if (async) answer = GetLater(*b, 1, answers);
      for (int i = 0; i < 4 && !async; ++i) callers.emplace_back([&] { EXPECT_EQ(Get(*b, 1), "1 v0"); });
      SpinUntil([&] { return tier->asks() > asks; });
      door.Open();
      loading.join();
      const int reads = db.reads();
      tier->process(opened - 1).TellLeaseEnded("1");
      EXPECT_EQ(async ? answer.get() : "1 v0", "1 v0");
      callers.clear();
      EXPECT_EQ(db.reads(), reads);
      EXPECT_EQ(tier->asks(), asks + 2);
      b->Invalidate(1);
      Close();
    }
  }
}

TEST_F(CacheCallsTest, LeaseEnded_WhileTheAnswerIsOnItsWay_TheCallAsksAgainAtOnce) {
  UseSystemClock({.retry_after = absl::Hours(1)});
  Open();
  const TierAsk question{"1"};
  const TierLease lease = tier->process(0).Ask({&question, 1}).front().lease;
  int replies = 0;
  tier->process(1).on_reply = [&] {
    if (++replies > 1) return;
    tier->process(0).Fail("1", lease);
    tier->process(1).TellLeaseEnded("1");
  };
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(replies, 2);
}

TEST_F(CacheCallsTest, LeaseEnded_NobodyWaits_DoesNothing) {
  Open();
  Get(*a, 1);
  const int64_t asks = tier->asks();
  for (const char* key : {"1", "2", "not a number", ""}) tier->process(0).TellLeaseEnded(key);
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(tier->asks(), asks);
  EXPECT_EQ(db.reads(), 1);
}

TEST_F(CacheCallsTest, GetAsync_WhileAnotherProcessLoads_DoesNotAskBeforeItsTime) {
  Open();
  ManualExecutor refreshes;
  const std::unique_ptr<Cache> c = NewCache({.refresh_executor = &refreshes}, Reads());
  const TierAsk question{"1"};
  const std::vector<TierAnswer> granted = tier->process(0).Ask({&question, 1});  // The other process.
  ASSERT_EQ(granted.front().kind, TierAnswer::Kind::kGranted);
  InlineExecutor here;
  std::atomic<int> answers{0};
  const int64_t asks = tier->asks();
  const auto ask = [&] { c->GetAsync(1, here, [&](const auto&) { ++answers; }); };
  ask();
  refreshes.RunAll();
  EXPECT_EQ(tier->asks(), asks + 1);
  for (int i = 0; i < 10; ++i) ask();
  refreshes.RunAll();
  EXPECT_EQ(tier->asks(), asks + 1);
  tier->process(0).Fail("1", granted.front().lease);
  clock.Advance(absl::Milliseconds(5));
  SpinUntil([&] { return refreshes.scheduled() > 1; });
  refreshes.RunAll();
  EXPECT_EQ(tier->asks(), asks + 2);
  EXPECT_EQ(answers, 11);
}

TEST_F(CacheCallsTest, GetAllOfTheSameKeysInTwoProcesses_BothEndAndLoadEachKeyOnce) {
  UseSystemClock();
  Door door;
  // Each process has the lease of one of the two keys when it asks for both.
  Open(ReadsBehind(door));
  std::vector<std::jthread> callers;
  callers.emplace_back([&] { EXPECT_EQ(Get(*a, 1), "1 v0"); });
  callers.emplace_back([&] { EXPECT_EQ(Get(*b, 2), "2 v0"); });
  door.AwaitArrivals(2);
  const int64_t asks = tier->asks();
  for (Cache* const cache : {a.get(), b.get()}) {
    callers.emplace_back([this, cache] {
      const std::vector<int> keys = cache == a.get() ? std::vector<int>{1, 2} : std::vector<int>{2, 1};
      const auto answers = cache->GetAll(keys);
      for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(**answers[i], Concat(keys[i], " v0"));
    });
  }
  SpinUntil([&] { return tier->asks() >= asks + 2; });
  door.Open();
  callers.clear();
  EXPECT_EQ(db.reads(), 2);
  ExpectNoLease();
  Close();
}

// A loader waits for a key that another process loads, and asks for it now and then. That must not hide from the
// circle that this process closes by loading the key on another thread.
TEST_F(CacheCallsTest, LoaderThatPolls_StaysPartOfACircle) {
  for (std::atomic<bool> closed{false}; !closed;) {  // Until the other thread gets the lease.
    UseSystemClock();
    Door door;
    std::atomic<std::thread::id> other{};
    a = NewCache([&](int key) {
      if (key == 1 && std::this_thread::get_id() == other.load()) closed = true;
      return TextOf(a->Get(3 - key, {.timeout = absl::Minutes(1)}));
    });
    b = NewCache([&](int) {
      door.Pass();
      return "outdated";
    });
    std::jthread loading([&] { Get(*b, 1); });
    door.AwaitArrivals(1);
    std::jthread polling([&] { EXPECT_NE(Get(*a, 2), "DEADLINE_EXCEEDED"); });
    const int64_t asks = tier->asks();
    SpinUntil([&] { return tier->asks() > asks + 3; });
    std::jthread closing([&] {
      other = std::this_thread::get_id();
      EXPECT_NE(Get(*a, 1), "DEADLINE_EXCEEDED");
    });
    SpinUntil([&] { return tier->asks() > asks + 6; });
    b->Invalidate(1);
    door.Open();
    loading.join();
    polling.join();
    closing.join();
    Close();
  }
}

// The loader of the other process hangs, and its cache has no hard time-out.
TEST_F(CacheCallsTest, HardTimeout_WhileAnotherProcessLoads_EndsTheWait) {
  UseSystemClock({.lease = absl::Hours(1)});
  ThreadPool pool(2);
  for (const bool by_executor : {false, true}) {
    SCOPED_TRACE(by_executor);
    Door door;
    a = NewCache([&](int) {
      door.Pass();
      return "late";
    });
    b = NewCache({.retry_backoff = absl::ZeroDuration(),
                  .load_hard_timeout = absl::Milliseconds(20),
                  .load_executor = by_executor ? &pool : nullptr},
                 [](int) { return "own"; });
    std::thread loading([&] { Get(*a, 1); });
    door.AwaitArrivals(1);
    EXPECT_EQ(Get(*b, 1), "DEADLINE_EXCEEDED");
    EXPECT_EQ(TextOf(b->GetAll({1, 2})[0]), "DEADLINE_EXCEEDED");
    EXPECT_EQ(GetLater(*b, 1, pool).get(), "DEADLINE_EXCEEDED");
    door.Open();
    loading.join();
    EXPECT_EQ(Get(*b, 1), "late");
    b->InvalidateAll();
    Close();
  }
}

// Caches that are destroyed.

TEST_F(CacheCallsTest, Destruction_DuringEachStepOfAFlight_CancelsItsCallsAndLeavesNoLease) {
  for (const std::string step : {"asks", "waits for another process", "loads", "fills"}) {
    SCOPED_TRACE(step);
    UseSystemClock();
    Door door;
    Door other;
    MetricsRegistry registry;
    a = NewCache({.metrics = &registry}, step == "loads" ? ReadsBehind(door) : Reads());
    b = NewCache(ReadsBehind(other));
    const auto pass = [&] { door.Pass(); };
    if (step == "asks") tier->process(0).on_reply = pass;
    if (step == "fills") tier->process(0).on_fill = pass;
    const bool waits = step == "waits for another process";
    std::jthread holder;
    if (waits) {
      holder = std::jthread([&] { EXPECT_EQ(Get(*b, 1), "1 v0"); });
      other.AwaitArrivals(1);
    }
    Cache& cache = *a;
    std::jthread first([&] { EXPECT_NE(Get(cache, 1), waits ? "1 v0" : ""); });
    if (!waits) door.AwaitArrivals(1);
    const int64_t asks = tier->asks();
    std::jthread second([&] { EXPECT_EQ(Get(cache, 1), "CANCELLED"); });
    AwaitWaiters(registry, waits ? 2 : 1);
    if (waits) SpinUntil([&] { return tier->asks() > asks; });
    std::jthread destroyer([&] { a.reset(); });
    second.join();
    door.Open();
    first.join();
    destroyer.join();
    other.Open();
    if (holder.joinable()) holder.join();
    ExpectNoLease();
    Close();
  }
}

TEST_F(CacheCallsTest, AwaitInvalidations_CacheIsDestroyed_IsCancelled) {
  Open();
  MemoryCacheTier::Process& process = tier->process(0);
  std::promise<void> entered;
  process.on_await_all = [&] {
    entered.set_value();
    SpinUntil([&] { return process.waits_cancelled.load(); });
  };
  process.away = true;
  a->Invalidate(1);
  std::future<absl::Status> awaited =
      std::async(std::launch::async, [&cache = *a] { return cache.AwaitInvalidations(absl::InfiniteDuration()); });
  entered.get_future().wait();
  a.reset();
  EXPECT_TRUE(absl::IsCancelled(awaited.get()));
}

// Bytes, tags and many keys.

TEST_F(CacheCallsTest, ValueThatCannotBeDecoded_IsLoadedAndOverwritten) {
  using Numbers = LoadingCache<std::string, int>;
  std::atomic<int> loads{0};
  const auto load = [&](const std::string&) -> absl::StatusOr<int> { return ++loads; };
  auto one = Numbers::Create(InTier({}), load).value();
  auto other = Numbers::Create(InTier({}), load).value();
  EXPECT_EQ(**one->Get("n"), 1);
  TierClient client(tier, "products", "decimal");
  const TierAnswer refresh = client.Ask("n", client.Ask("n").record->version);
  EXPECT_EQ(client.Fill("n", refresh.lease, "not a number").kind, Filled::kStored);
  EXPECT_EQ(tier->undecodable(), 0);
  EXPECT_EQ(**other->Get("n"), 2);
  EXPECT_EQ(tier->undecodable(), 1);
  one->Invalidate("m");
  tier->BeatAll();
  EXPECT_EQ(**one->Get("n"), 1);
  ExpectNoLease();
}

TEST_F(CacheCallsTest, CodecThatThrows_LoadsWithoutTheTier) {
  struct Thing {
    int number;
  };
  using Things = LoadingCache<int, Thing>;
  Things::Callbacks callbacks;
  callbacks.load = [](int key) -> absl::StatusOr<Thing> { return Thing{key}; };
  const auto create = [&] { return Things::Create(InTier({}), callbacks); };
  EXPECT_EQ(CodeOf(create().status()), "INVALID_ARGUMENT");
  callbacks.codec.encode_value = [](const Thing&, std::string*) -> absl::Status { throw std::runtime_error("codec"); };
  callbacks.codec.decode_value = [](std::string_view) -> absl::StatusOr<Thing> { throw std::runtime_error("codec"); };
  EXPECT_EQ(CodeOf(create().status()), "INVALID_ARGUMENT") << "no id";
  callbacks.codec.id = "thing/1";
  auto things = create().value();
  EXPECT_EQ((**things->Get(7)).number, 7);
  EXPECT_EQ((**things->Get(7)).number, 7);
  things->Put(7, Thing{8});
  EXPECT_EQ((**things->Get(7)).number, 7);
  ExpectNoLease();
}

TEST_F(CacheCallsTest, KeyThatCannotBeEncoded_IsLoadedWithoutTheTier) {
  for (const bool throws : {false, true}) {
    SCOPED_TRACE(throws);
    Callbacks callbacks{.load = Reads()};
    callbacks.codec.encode_key = [throws](const int& key, std::string* bytes) -> absl::Status {
      if (key % 2 == 1 && throws) throw std::runtime_error("odd");
      if (key % 2 == 1) return absl::InvalidArgumentError("odd");
      *bytes = std::to_string(key);
      return absl::OkStatus();
    };
    a = NewCache({}, callbacks);
    const auto found = a->GetAll({1, 2, 3, 4});
    for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(**found[i], Concat(i + 1, " v0"));
    EXPECT_EQ(Get(*a, 5), "5 v0");
    a->Put(1, "put");
    a->Invalidate(3);
    EXPECT_TRUE(a->UpdateThrough(1, Ok).ok());
    a->Refresh(1);
    EXPECT_TRUE(a->WarmUp({1, 2, 3}).ok());
    ExpectNoLease();
  }
}

// Each function of the codec throws at each of its calls in turn: no lease stays, and no value is outdated.
TEST_F(CacheCallsTest, CodecThatThrowsAtOneCall_LeavesNoLease) {
  for (const std::string function : {"encode_key", "decode_key", "encode_value", "decode_value"}) {
    for (int at = 1; at <= 20; ++at) {
      SCOPED_TRACE(Concat(function, " ", at));
      int calls = 0;
      bool fails = false;
      Callbacks callbacks;
      callbacks.load = [&](int key) -> Loaded {
        if (fails) return absl::InternalError("failed");
        return db.Read(key);
      };
      callbacks.codec = TextCodec([&](std::string_view name) {
        if (name == function && ++calls == at) throw std::runtime_error("codec");
      });
      NewMemoryTier();
      Open({}, callbacks);
      const auto check = [&](const char* step) {
        SCOPED_TRACE(step);
        ExpectNoLease();
        tier->BeatAll();
        const std::string now = db.Read(1);
        ExpectBoth(1, now);
        ExpectNoLease();
      };
      Get(*a, 1);
      check("a load");
      db.Write(1);
      a->Invalidate(1);
      check("an invalidation");
      EXPECT_TRUE(Update(*b, 1).ok());
      check("an update");
      db.Write(1);
      a->Put(1, db.Read(1));
      check("a put");
      fails = true;
      a->Get(2).status().IgnoreError();
      fails = false;
      check("a failed load");
      EXPECT_EQ(**b->GetAll({1, 2, 3})[1], db.Read(2));
      check("a batch");
      Close();
    }
  }
}

TEST_F(CacheCallsTest, RepeatedTags_CountOnce) {
  a = NewCache([this](int key, LoadContext& load) {
    for (int n = 0; n < 100; ++n) load.AddTag(n % 2 == 0 ? "even" : "odd");
    return db.Read(key);
  });
  Get(*a, 1);
  EXPECT_EQ(TierClient(tier, "products", "bytes").Ask("1").record->tags, (std::vector<std::string>{"even", "odd"}));
}

TEST_F(CacheCallsTest, Get_EncodesItsKeyOnce) {
  int encoded = 0;
  const auto count = [&](std::string_view name) { encoded += name == "encode_key"; };
  a = NewCache({}, Callbacks{.load = Reads(), .codec = TextCodec(count)});
  Get(*a, 1);
  EXPECT_EQ(encoded, 1);
  a->Put(1, "put");
  EXPECT_EQ(encoded, 2);
  EXPECT_TRUE(a->GetAll({1, 2, 3})[2].ok());
  EXPECT_EQ(encoded, 4);
  Close();
}

// A value that the tier does not take stays in the memory of its process, whatever else is invalidated meanwhile.
TEST_F(CacheCallsTest, ValueThatTheTierDoesNotTake_OnlyWhatConcernsItRemovesIt) {
  struct Case {
    const char* what;
    std::function<void(Cache&)> invalidate;
    bool concerns;
  };
  const Case cases[] = {
      {"nothing", [](Cache&) {}, false},
      {"another key", [](Cache& c) { c.Invalidate(2); }, false},
      {"another tag", [](Cache& c) { c.InvalidateTag("odd"); }, false},
      {"the key", [](Cache& c) { c.Invalidate(1); }, true},
      {"its tag", [](Cache& c) { c.InvalidateTag("mine"); }, true},
      {"all", [](Cache& c) { c.InvalidateAll(); }, true},
      {"a new reign", [this](Cache&) { tier->BeginReign(); }, true},
  };
  for (const auto& [what, invalidate, concerns] : cases) {
    for (const bool during : {true, false}) {
      SCOPED_TRACE(Concat(what, during ? " during the load" : " after it"));
      NewMemoryTier({.max_value_bytes = 1});
      int loads = 0;
      a = NewCache([&, interfere = invalidate](int key, LoadContext& load) {
        load.AddTag("mine");
        std::string read = db.Read(key);
        if (++loads == 1 && during) {
          interfere(*b);
          tier->process(0).Beat();
        }
        return read;
      });
      b = NewCache();
      Get(*a, 1);
      tier->process(0).Beat();
      if (!during) {
        invalidate(*b);
        tier->process(0).Beat();
      }
      for (int n = 0; n < 4; ++n) {
        Get(*a, 1);
        EXPECT_EQ(loads, concerns ? 2 : 1);
        b->Invalidate(2);
        tier->process(0).Beat();
      }
      ExpectNoLease();
      Close();
    }
  }
}

TEST_F(CacheCallsTest, GetAll_AsksOnceAndSharesTheLoads) {
  for (const bool batch : {false, true}) {
    SCOPED_TRACE(batch);
    Open({}, batch ? ReadsBatches() : Callbacks{.load = Reads()});
    const int first = batch ? 100 : 0;
    const int before = db.reads();
    Get(*a, first);
    const int64_t asks = tier->asks();
    const auto all = b->GetAll({first, first + 1, first + 2});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(**all[static_cast<size_t>(i)], Concat(first + i, " v0"));
    EXPECT_EQ(tier->asks() - asks, 1);
    EXPECT_EQ(db.reads() - before, 3);
    EXPECT_TRUE(a->GetAll({first, first + 1, first + 2})[2].ok());
    EXPECT_EQ(db.reads() - before, 3);
    ExpectNoLease();
  }
}

// Many keys go in pieces, and the batch loader is called once.
TEST_F(CacheCallsTest, GetAll_ManyKeys_AsksAndFillsInPieces) {
  for (const size_t value_bytes : {size_t{10}, size_t{1} << 20}) {
    SCOPED_TRACE(value_bytes);
    const std::vector<int> keys = KeysUpTo(value_bytes == 10 ? 3000 : 30);
    NewMemoryTier();
    int batches = 0;
    Callbacks callbacks;
    callbacks.load_all = [&](const std::vector<int>& missing, Callbacks::Batch& load) {
      ++batches;
      for (const int key : missing) load.Add(key, std::string(value_bytes, 'v'));
      return absl::OkStatus();
    };
    Open({}, callbacks);
    for (Cache* const cache : {a.get(), b.get()}) {
      for (const auto& found : cache->GetAll(keys)) ASSERT_EQ((**found).size(), value_bytes);
    }
    EXPECT_EQ(batches, 1);
    EXPECT_LE(tier->most_asked(), 256u);
    EXPECT_LE(tier->most_filled(), value_bytes == 10 ? 256u : 1u);
    ExpectNoLease();
    // A third process asks for large values by few at a time, once it has seen some.
    const size_t most = tier->most_asked();
    int64_t asks = tier->asks();
    const auto c = NewCache({}, callbacks);
    for (const auto& found : c->GetAll(keys)) ASSERT_TRUE(found.ok());
    asks = tier->asks() - asks;
    EXPECT_EQ(tier->most_asked(), most);
    EXPECT_GE(asks, value_bytes == 10 ? 12 : 5);
    EXPECT_LE(asks, value_bytes == 10 ? 20 : 12);
    Close();
  }
}

// A batch is in the tier when the next one begins.
TEST_F(CacheCallsTest, GetAll_MaxBatch_AsksLoadsAndFillsBatchByBatch) {
  std::vector<std::vector<int>> batches;
  Callbacks callbacks;
  callbacks.load_all = [&](const std::vector<int>& missing, Callbacks::Batch& load) {
    for (const int key : missing) load.Add(key, db.Read(key));
    if (!batches.empty()) EXPECT_EQ(Get(*b, batches.back().front()), Concat(batches.back().front(), " v0"));
    EXPECT_EQ(db.reads(), static_cast<int>(3 * batches.size() + missing.size())) << "none by the other process";
    batches.push_back(missing);
    return absl::OkStatus();
  };
  Open({.max_batch = 3}, callbacks);
  for (const auto& found : a->GetAll(KeysUpTo(10))) ASSERT_TRUE(found.ok());
  EXPECT_EQ(batches, (std::vector<std::vector<int>>{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9}}));
  EXPECT_EQ(tier->most_asked(), 3u);
  EXPECT_EQ(tier->most_filled(), 3u);
  ExpectNoLease();
}

TEST_F(CacheCallsTest, PutAll_AKeyThatIsNotShared_TheOthersAreStored) {
  Callbacks callbacks{.load = Reads()};
  callbacks.codec = {.id = "text",
                     .encode_key =
                         [](const int& key, std::string* bytes) {
                           *bytes = Concat(key);
                           return key == 3 ? absl::InvalidArgumentError("no key") : absl::OkStatus();
                         },
                     .decode_key = [](std::string_view bytes) { return cache_internal::DecodePlainly<int>(bytes); }};
  Open({}, callbacks);
  std::vector<std::pair<int, std::string>> entries;
  for (const int key : KeysUpTo(600)) entries.emplace_back(key, "put");
  a->PutAll(entries);
  for (const int key : KeysUpTo(600)) EXPECT_EQ(Get(*b, key), key == 3 ? "3 v0" : "put");
  EXPECT_EQ(db.reads(), 1);
}

// The invalidations of the list are applied before its values are stored.
TEST_F(CacheCallsTest, PutAll_AValueThatTheTierDoesNotTake_IsKeptInMemory) {
  NewMemoryTier({.max_value_bytes = 3});
  Open();
  MemoryCacheTier::Process& process = tier->process(0);
  process.on_fill = [&] { process.Beat(); };
  a->PutAll({{1, "large"}, {2, "put"}, {3, "larger"}});
  process.on_fill = [] {};
  EXPECT_EQ(Get(*a, 1) + Get(*a, 3), "largelarger");
  EXPECT_EQ(Get(*b, 2), "put");
  EXPECT_EQ(db.reads(), 0);
}

TEST_F(CacheCallsTest, IdleEntry_ComesBackFromTheSecondLevel) {
  a = NewCache({.idle_ttl = absl::Seconds(1)}, Reads());
  EXPECT_EQ(Get(*a, 1), "1 v0");
  clock.Advance(absl::Milliseconds(1160));
  EXPECT_FALSE(a->Peek(1).has_value());
  const int64_t asks = tier->asks();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(tier->asks() - asks, 1);
  EXPECT_EQ(db.reads(), 1);
  EXPECT_TRUE(a->Peek(1).has_value());
  a->Put(1, "mine");
  clock.Advance(absl::Milliseconds(900));
  EXPECT_EQ(Get(*a, 1), "mine");
  EXPECT_EQ(tier->asks() - asks, 1);
}

// What a piece has brought is there for other calls, while the next pieces are on their way.
TEST_F(CacheCallsTest, GetAll_ManyKeys_PublishesPieceByPiece) {
  UseSystemClock();
  Open();
  for (const auto& found : b->GetAll(KeysUpTo(100))) ASSERT_TRUE(found.ok());
  Door door;
  std::atomic<int> replies{0};
  tier->process(0).on_reply = [&] {
    if (++replies == 2) door.Pass();
  };
  std::jthread many([&] {
    for (const auto& found : a->GetAll(KeysUpTo(100))) EXPECT_TRUE(found.ok());
  });
  door.AwaitArrivals(1);
  EXPECT_EQ(Get(*a, 0), "0 v0");
  door.Open();
}

// Nobody waits for pieces that a caller does not wait for any more.
TEST_F(CacheCallsTest, GetAll_ItsTimePassesBetweenTwoPieces_OtherCallsGoOn) {
  for (const bool batch : {false, true}) {
    SCOPED_TRACE(batch);
    NewMemoryTier();
    MetricsRegistry registry;
    a = NewCache({.metrics = &registry}, batch ? ReadsBatches() : Callbacks{.load = Reads()});
    Door door;
    std::atomic<bool> slow{true};
    tier->process(0).on_reply = [&] {
      if (slow.exchange(false)) door.Pass();
    };
    std::jthread many([&] {
      const auto found = a->GetAll(KeysUpTo(100), {.timeout = absl::Seconds(1)});
      // The first and the last one may have been loaded for others by then.
      for (size_t n = 1; n < 99; ++n) EXPECT_EQ(CodeOf(found[n].status()), "DEADLINE_EXCEEDED");
    });
    door.AwaitArrivals(1);
    std::vector<std::jthread> others;
    for (const int key : {0, 99}) {
      others.emplace_back([&, key] { EXPECT_EQ(Get(*a, key), Concat(key, " v0")); });
    }
    AwaitWaiters(registry, 2);
    clock.Advance(absl::Milliseconds(1500));
    door.Open();
    many.join();
    others.clear();
    ExpectNoLease();
    Close();
  }
}

}  // namespace
}  // namespace stockade::testing

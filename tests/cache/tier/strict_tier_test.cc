// A strict cache with a tier: updates, the reads beside them, and what they do when something fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cache/manual_executor.h"
#include "cache/tier/memory_tier_test.h"
#include "cache/tier/tier_client.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/locks/lock_service.h"
#include "support/await.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;
using Write = absl::FunctionRef<absl::Status(const LockLease&)>;

class StrictTierTest : public MemoryTierTest {
 protected:
  static constexpr absl::Duration kBound = absl::Seconds(10);
  static constexpr absl::Duration kWait = absl::Milliseconds(10'012);  // Of an update.

  StrictTierTest() { NewMemoryTier({.max_staleness = kBound, .locks = locks.get()}); }
  ~StrictTierTest() override { Close(); }

  void OpenStrict(const Loader& load) { Open({.strict = true}, load); }
  void OpenStrict() { OpenStrict(Reads()); }

  // An update of key 1 on a thread of its own. Without `write`, it writes the next version.
  std::future<absl::StatusOr<UpdateReport>> StartUpdate(Cache& cache,
                                                        std::function<absl::Status(const LockLease&)> write = {}) {
    return std::async(std::launch::async, [this, &cache, write = std::move(write)] {
      return cache.UpdateThrough(1, [&](const LockLease& lock) {
        if (!write) db.Write(1);
        absl::Status status = write ? write(lock) : absl::OkStatus();
        ++written;
        return status;
      });
    });
  }
  // Until updates that have written wait again.
  void AwaitSecondWait(size_t waiters = 1) {
    Await("the write", [&] { return written > 0; });
    clock.AwaitWaiters(waiters);
  }
  // Until the update waits for the others, and then that time.
  void PassWait() {
    clock.AwaitWaiters(1);
    clock.Advance(kWait);
  }
  static std::string SettledOf(const absl::StatusOr<UpdateReport>& report) {
    if (!report.ok()) return CodeOf(report.status());
    return report->settled ? "settled" : CodeOf(report->reason);
  }

  std::atomic<int> written{0};
  MetricsRegistry registry;
  const std::unique_ptr<LockService> locks = LocalLockService::Create({.metrics = &registry}).value();
};

TEST_F(StrictTierTest, Update_AProcessIsCutOff_WaitsUntilItTrustsNothing) {
  OpenStrict();
  ExpectBoth(1, "1 v0");
  tier->process(1).away = true;
  auto update = StartUpdate(*a);
  clock.AwaitWaiters(1);
  EXPECT_EQ(Get(*b, 1), "1 v0") << "the update has not ended";
  EXPECT_EQ(db.reads(), 1) << "from its memory";
  EXPECT_FALSE(Has(*a, 1));
  clock.Advance(kBound);
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_EQ(db.reads(), 2) << "loaded: the write has not begun";
  EXPECT_FALSE(Has(*b, 1));
  clock.AwaitWaiters(1);
  clock.Advance(kWait - kBound);
  EXPECT_EQ(SettledOf(update.get()), "settled");
  ExpectBoth(1, "1 v1");
  ExpectNoLease();
}

TEST_F(StrictTierTest, Update_AProcessThatBeats_GetsTheNewValueFromTheTier) {
  OpenStrict();
  ExpectBoth(1, "1 v0");
  auto update = StartUpdate(*a);
  clock.AwaitWaiters(1);
  clock.Advance(kWait / 2);
  tier->BeatAll();
  EXPECT_FALSE(Has(*b, 1));
  clock.AwaitWaiters(1);
  clock.Advance(kWait / 2);
  EXPECT_EQ(SettledOf(update.get()), "settled");
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(db.reads(), 2) << "one load for both";
}

// While the mark stands, nothing is answered from a cache, and nothing is loaded by others.
TEST_F(StrictTierTest, Update_WhileItWrites_ReadsOfAllProcessesWait) {
  // Nothing ends by itself.
  const absl::Duration always = absl::Hours(24 * 365 * 100);
  NewMemoryTier({.max_staleness = kBound, .lease = always, .max_ttl = always, .locks = locks.get()});
  Open({.ttl = always, .strict = true}, Reads());
  Door writing;
  auto update = StartUpdate(*a, [&](const LockLease&) {
    writing.Pass();
    db.Write(1);
    return absl::OkStatus();
  });
  PassWait();
  writing.AwaitArrivals(1);
  tier->BeatAll();
  std::vector<std::future<std::string>> reads;
  std::atomic<bool> done{false};
  ThreadPool pool(2);
  for (Cache* cache : {a.get(), b.get()}) {
    EXPECT_EQ(TextOf(cache->Get(1, {.timeout = absl::ZeroDuration()})), "DEADLINE_EXCEEDED");
    EXPECT_EQ(Get(*cache, 2), "2 v0") << "another key";
    reads.push_back(std::async(std::launch::async, [&, cache] { return Get(*cache, 1); }));
    reads.push_back(GetLater(*cache, 1, pool));
  }
  std::jthread time([&] {
    while (!done) clock.Advance(absl::Milliseconds(1));
  });
  writing.Open();
  EXPECT_EQ(SettledOf(update.get()), "settled");
  for (auto& read : reads) EXPECT_EQ(read.get(), "1 v1");
  done = true;
  // One of each key. A question of the updating process that comes just before the release finds the tier away.
  EXPECT_LE(db.reads(), 3);
}

TEST_F(StrictTierTest, Update_ReadsWithinTheWrite_LoadAndStoreNothing) {
  for (const bool on_executor : {false, true}) {
    ThreadPool pool(1);
    Open({.strict = true, .load_executor = on_executor ? &pool : nullptr}, Reads());
    const std::string before = Get(*a, 1);
    const int reads = db.reads();
    std::string within, after;
    auto update = StartUpdate(*a, [&](const LockLease&) {
      tier->BeatAll();
      within = Get(*a, 1);
      db.Write(1);
      after = Get(*a, 1);
      EXPECT_FALSE(Has(*a, 1));
      return absl::OkStatus();
    });
    PassWait();
    EXPECT_EQ(SettledOf(update.get()), "settled");
    EXPECT_EQ(within, before);
    EXPECT_NE(after, before);
    EXPECT_EQ(db.reads(), reads + 2);
    EXPECT_FALSE(Has(*a, 1));
    EXPECT_EQ(Get(*b, 1), after);
    Close();
  }
}

TEST_F(StrictTierTest, Update_TheWriteHasTheLock) {
  OpenStrict();
  int64_t last = 0;
  for (int round = 0; round < 2; ++round) {
    auto update = StartUpdate(*a, [&](const LockLease& lock) {
      EXPECT_TRUE(lock.valid());
      EXPECT_GT(*lock.fencing_token(), last);
      last = *lock.fencing_token();
      EXPECT_EQ(lock.name(), "products:1");
      return absl::OkStatus();
    });
    PassWait();
    EXPECT_EQ(SettledOf(update.get()), "settled");
    EXPECT_FALSE(locks->Inspect("products:1")->locked);
  }
}

TEST_F(StrictTierTest, Update_TheWriteFailsOrThrows_ItsErrorIsReturnedAndTheMarkIsGone) {
  for (const bool throws : {false, true}) {
    OpenStrict();
    auto update = StartUpdate(*a, [&](const LockLease&) -> absl::Status {
      db.Write(1);
      if (throws) throw std::runtime_error("the connection is lost");
      return absl::DataLossError("the connection is lost");
    });
    PassWait();
    const absl::StatusOr<UpdateReport> report = update.get();
    EXPECT_EQ(CodeOf(report.status()), throws ? "INTERNAL" : "DATA_LOSS");
    EXPECT_THAT(report.status().message(), HasSubstr("the connection is lost"));
    EXPECT_EQ(Get(*b, 1), throws ? "1 v2" : "1 v1");
    ExpectNoLease();
    Close();
  }
}

// An older value may have been stored after the mark was lost. A variant without the second wait would return here.
TEST_F(StrictTierTest, Update_TheMarkIsLost_WaitsAgain) {
  OpenStrict();
  auto update = StartUpdate(*a, [&](const LockLease&) {
    tier->LapseLeases();
    tier->BeatAll();
    EXPECT_EQ(Get(*b, 1), "1 v0");
    tier->process(1).away = true;
    db.Write(1);
    return absl::OkStatus();
  });
  PassWait();
  AwaitSecondWait();
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_EQ(Get(*b, 1), "1 v0") << "that is why it waits";
  clock.Advance(kWait);
  EXPECT_EQ(SettledOf(update.get()), "settled");
  EXPECT_EQ(Get(*b, 1), "1 v1");
}

TEST_F(StrictTierTest, Update_ANewReignBegins_WaitsAgain) {
  OpenStrict();
  auto update = StartUpdate(*a, [&](const LockLease&) {
    tier->BeginReign();
    tier->BeatAll();
    EXPECT_EQ(Get(*b, 1), "1 v0");
    tier->process(1).away = true;
    db.Write(1);
    return absl::OkStatus();
  });
  PassWait();
  AwaitSecondWait();
  EXPECT_EQ(Get(*b, 1), "1 v0");
  clock.Advance(kWait);
  EXPECT_EQ(SettledOf(update.get()), "settled");
  EXPECT_EQ(Get(*b, 1), "1 v1");
}

TEST_F(StrictTierTest, Update_TheTierIsAwayBefore_WritesNothing) {
  OpenStrict();
  tier->process(0).away = true;
  const absl::StatusOr<UpdateReport> report = StartUpdate(*a).get();
  EXPECT_EQ(CodeOf(report.status()), "UNAVAILABLE");
  EXPECT_THAT(report.status().message(), HasSubstr("did not run"));
  EXPECT_EQ(Get(*b, 1), "1 v0");
  EXPECT_FALSE(locks->Inspect("products:1")->locked);
}

TEST_F(StrictTierTest, Update_TheTierIsAwayAfterwards_IsNotSettled) {
  OpenStrict();
  auto update = StartUpdate(*a, [&](const LockLease&) {
    tier->process(0).away = true;
    db.Write(1);
    return absl::OkStatus();
  });
  PassWait();
  const absl::StatusOr<UpdateReport> report = update.get();
  EXPECT_EQ(SettledOf(report), "UNAVAILABLE");
  EXPECT_FALSE(locks->Inspect("products:1")->locked);
  EXPECT_EQ(Get(*a, 1), "1 v1") << "loaded";
  tier->process(0).away = false;
  EXPECT_TRUE(a->AwaitInvalidations(absl::Seconds(1)).ok());
  tier->BeatAll();
  EXPECT_EQ(TextOf(b->Get(1, {.timeout = absl::ZeroDuration()})), "DEADLINE_EXCEEDED") << "the mark stands";
  clock.Advance(MemoryCacheTierOptions().lease);
  EXPECT_EQ(Get(*b, 1), "1 v1");
  EXPECT_EQ(tier->leases(), 0u);
}

// Its own process sees nothing old even then.
TEST_F(StrictTierTest, Update_IsNotSettledAndItsMarkWasLost_ItsOwnProcessForgetsTheValue) {
  OpenStrict();
  auto update = StartUpdate(*a, [&](const LockLease&) {
    tier->LapseLeases();
    std::async(std::launch::async, [&] { EXPECT_EQ(Get(*a, 1), "1 v0"); }).wait();
    EXPECT_TRUE(Has(*a, 1));
    tier->process(0).away = true;
    db.Write(1);
    return absl::OkStatus();
  });
  clock.AwaitWaiters(1);
  clock.Advance(kWait / 2);
  tier->BeatAll();  // So that it trusts what it gets.
  clock.AwaitWaiters(1);
  clock.Advance(kWait / 2);
  EXPECT_EQ(SettledOf(update.get()), "UNAVAILABLE");
  EXPECT_EQ(Get(*a, 1), "1 v1");
}

TEST_F(StrictTierTest, Update_TheReplyToItsReleaseIsLost_IsNotSettled) {
  OpenStrict();
  auto update = StartUpdate(*a, [&](const LockLease&) {
    tier->process(0).replies_to_lose = 1;
    db.Write(1);
    return absl::OkStatus();
  });
  PassWait();
  EXPECT_EQ(SettledOf(update.get()), "UNAVAILABLE");
  tier->BeatAll();
  ExpectBoth(1, "1 v1");
}

TEST_F(StrictTierTest, Update_LosesItsLockBeforeTheWrite_WritesNothing) {
  OpenStrict();
  auto update = StartUpdate(*a);
  clock.AwaitWaiters(1);
  ASSERT_TRUE(locks->ForceRelease("products:1").ok());
  ASSERT_TRUE(locks->ReleaseAll(absl::Seconds(10)).ok());  // It notices.
  clock.Advance(kWait);
  EXPECT_EQ(CodeOf(update.get().status()), "ABORTED");
  EXPECT_EQ(Get(*b, 1), "1 v0");
  ExpectNoLease();
}

// It was paused beyond its lock, and another update has taken over.
TEST_F(StrictTierTest, Update_AMarkHasALargerToken_WritesNothing) {
  OpenStrict();
  TierClient other(tier, "products", "s");
  const TierMark held = other.Hold("1", 1000);
  ASSERT_EQ(held.kind, Mark::kStands);
  EXPECT_EQ(CodeOf(StartUpdate(*a).get().status()), "ABORTED");
  EXPECT_EQ(other.Release("1", held).kind, Mark::kStands);
  EXPECT_EQ(Get(*b, 1), "1 v0");
}

// The lock of the first one lapses. Its token is the smaller one, so the database has to refuse its write.
TEST_F(StrictTierTest, Update_AnotherOneTakesOverDuringTheWrite_TheOtherOnesMarkStays) {
  OpenStrict();
  std::future<absl::StatusOr<UpdateReport>> second;
  auto first = StartUpdate(*a, [&](const LockLease&) {
    EXPECT_TRUE(locks->ForceRelease("products:1").ok());
    second = StartUpdate(*b);
    clock.AwaitWaiters(1);
    return absl::AbortedError("a smaller token");
  });
  PassWait();
  AwaitSecondWait(2);  // The first one has lost its mark.
  EXPECT_EQ(TextOf(b->Get(1, {.timeout = absl::ZeroDuration()})), "DEADLINE_EXCEEDED");
  EXPECT_EQ(tier->leases(), 1u) << "the mark of the second one";
  clock.Advance(kWait);
  EXPECT_EQ(CodeOf(first.get().status()), "ABORTED");
  EXPECT_EQ(SettledOf(second.get()), "settled");
  ExpectBoth(1, "1 v1");
}

TEST_F(StrictTierTest, Update_AnotherOneHoldsTheLock_WaitsForAtMostItsTimeout) {
  OpenStrict();
  const auto held = locks->Acquire("products:1", {.kind = LockKind::kWrite, .owner = LockOwner::New()});
  const auto report = a->UpdateThrough(
      1, [](const LockLease&) { return absl::OkStatus(); }, absl::Milliseconds(1));
  EXPECT_EQ(CodeOf(report.status()), "DEADLINE_EXCEEDED");
}

TEST_F(StrictTierTest, Put_DuringAnUpdate_StoresNothing) {
  OpenStrict();
  auto update = StartUpdate(*a, [&](const LockLease&) {
    tier->BeatAll();
    b->Put(1, "put");
    a->PutAll({{1, "put"}, {2, "put"}});
    EXPECT_FALSE(Has(*a, 1));
    EXPECT_FALSE(Has(*b, 1));
    EXPECT_TRUE(Has(*a, 2));
    b->Invalidate(1);
    db.Write(1);
    return absl::OkStatus();
  });
  PassWait();
  EXPECT_EQ(SettledOf(update.get()), "settled");
  ExpectBoth(1, "1 v1");
  b->Put(1, "put");
  EXPECT_EQ(Get(*b, 1), "put") << "as ever";
}

TEST_F(StrictTierTest, Reads_WithoutTheTier_LoadForEachCallAndStoreNothing) {
  OpenStrict();
  tier->process(0).away = true;
  PassMaxStaleness();
  EXPECT_EQ(Get(*a, 1), "1 v0");
  db.Write(1);
  EXPECT_EQ(Get(*a, 1), "1 v1");
  EXPECT_FALSE(Has(*a, 1));
  EXPECT_EQ(db.reads(), 2);
}

TEST_F(StrictTierTest, Reads_TheReplyToAFillIsLost_StoreNothingHere) {
  OpenStrict();
  tier->process(0).on_reply = [&] { tier->process(0).replies_to_lose = 1; };
  EXPECT_EQ(Get(*a, 1), "1 v0");
  tier->process(0).on_reply = [] {};
  EXPECT_FALSE(a->Peek(1).has_value());
  EXPECT_EQ(Get(*a, 1), "1 v0");
  EXPECT_EQ(db.reads(), 1) << "the tier has stored it";
}

// Nobody waits for it, and its value could not be stored.
TEST_F(StrictTierTest, Refresh_WithoutTheTier_LoadsNothing) {
  ManualExecutor executor;
  Open({.strict = true, .refresh_executor = &executor}, Reads());
  ExpectBoth(1, "1 v0");
  tier->process(0).away = true;
  a->Refresh(1);
  executor.RunAll();
  PassMaxStaleness();
  EXPECT_FALSE(Has(*a, 1)) << "which starts a check";
  executor.RunAll();
  EXPECT_EQ(executor.scheduled(), 2u);
  EXPECT_EQ(db.reads(), 1);
  tier->process(0).away = false;
  db.Write(1);
  a->Refresh(1);
  executor.RunAll();
  EXPECT_EQ(db.reads(), 1) << "no heartbeat yet: the tier has the value, which may be outdated";
  EXPECT_EQ(tier->leases(), 0u);
}

// A load that began before the write, without a lease, so that the release does not void it. A call that begins after
// the update must not get its result, also if its process trusts its memory again since before the release.
TEST_F(StrictTierTest, Reads_WithoutALease_JoinNoLoadThatRuns) {
  for (const bool is_back : {false, true}) {
    Door door;
    OpenStrict(FirstPasses(door));
    auto update = StartUpdate(*a);
    clock.AwaitWaiters(1);
    tier->BeatAll();  // They know of the mark.
    tier->process(1).away = true;
    clock.Advance(kBound);
    auto old = std::async(std::launch::async, [&] { return Get(*b, 1); });
    door.AwaitArrivals(1);
    if (is_back) {
      tier->process(1).away = false;
      tier->BeatAll();
    }
    clock.AwaitWaiters(1);
    clock.Advance(kWait - kBound);
    EXPECT_EQ(SettledOf(update.get()), "settled");
    auto fresh = std::async(std::launch::async, [&] { return Get(*b, 1); });
    EXPECT_EQ(fresh.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "it waits for the old load";
    door.Open();
    EXPECT_EQ(old.get(), is_back ? "1 v1" : "1 v0");
    EXPECT_EQ(fresh.get(), is_back ? "1 v2" : "1 v1");
    Close();
    NewMemoryTier({.max_staleness = kBound, .locks = locks.get()});
  }
}

// The lease is void, and its process has not read of that.
TEST_F(StrictTierTest, Reads_WithoutTrust_JoinNoLoadThatRuns) {
  Door door;
  OpenStrict(FirstPasses(door));
  auto old = std::async(std::launch::async, [&] { return Get(*b, 1); });
  door.AwaitArrivals(1);
  tier->process(1).away = true;
  auto update = StartUpdate(*a);
  PassWait();
  EXPECT_EQ(SettledOf(update.get()), "settled");
  auto fresh = std::async(std::launch::async, [&] { return Get(*b, 1); });
  EXPECT_EQ(fresh.wait_for(std::chrono::seconds(60)), std::future_status::ready) << "it waits for the old load";
  door.Open();
  EXPECT_EQ(old.get(), "1 v0");
  EXPECT_EQ(fresh.get(), "1 v1");
}

// It does not keep the leases of the others while it waits for a key that is written.
TEST_F(StrictTierTest, GetAll_OneOfItsKeysIsWritten_TheOthersAreLoadedFirst) {
  UseSystemClock({.locks = locks.get()});
  OpenStrict();
  TierClient writer(tier, "products", "s");
  const TierMark held = writer.Hold("1", 1);
  auto all = std::async(std::launch::async, [&] { return a->GetAll(std::vector<int>{1, 2, 3}); });
  Await("the other keys", [&] { return Has(*a, 3); });
  EXPECT_EQ(Get(*b, 2), "2 v0");
  EXPECT_EQ(writer.Release("1", held).kind, Mark::kStands);
  EXPECT_EQ(TextOf(all.get()[0]), "1 v0");
}

// Another call waits for the mark, and would ask again after a while.
TEST_F(StrictTierTest, Update_ReadsWithinTheWriteWhileOthersWait_DoNotWait) {
  NewMemoryTier({.max_staleness = kBound, .retry_after = absl::Hours(1), .locks = locks.get()});
  OpenStrict();
  std::future<std::string> other;
  auto update = StartUpdate(*a, [&](const LockLease&) {
    other = std::async(std::launch::async, [&] { return Get(*a, 1); });
    clock.AwaitWaiters(1);
    EXPECT_EQ(TextOf(a->Get(1, {.timeout = absl::Nanoseconds(1)})), "1 v0");
    return absl::OkStatus();
  });
  PassWait();
  EXPECT_EQ(SettledOf(update.get()), "settled");
  EXPECT_EQ(other.get(), "1 v0");
}

TEST_F(StrictTierTest, Reads_OfValuesThatTheTierDoesNotTake_AreKeptWhileTheyAreCurrent) {
  NewMemoryTier({.max_staleness = kBound, .max_value_bytes = 2, .locks = locks.get()});
  OpenStrict();
  ExpectBoth(1, "1 v0");
  ExpectBoth(1, "1 v0");
  EXPECT_EQ(db.reads(), 2);
  auto update = StartUpdate(*a);
  PassWait();
  EXPECT_EQ(SettledOf(update.get()), "settled");
  ExpectBoth(1, "1 v1");
}

TEST_F(StrictTierTest, Destruction_WhileAnUpdateWaits_CancelsIt) {
  OpenStrict();
  auto update = StartUpdate(*a);
  clock.AwaitWaiters(1);
  a.reset();
  EXPECT_EQ(CodeOf(update.get().status()), "CANCELLED");
  EXPECT_EQ(Get(*b, 1), "1 v0");
}

TEST_F(StrictTierTest, Destruction_WhileAnUpdateWaitsForTheLock_CancelsIt) {
  OpenStrict();
  const auto held = locks->Acquire("products:1", {.kind = LockKind::kWrite, .owner = LockOwner::New()});
  auto update = StartUpdate(*a);
  Await("the call", [&] { return Metric(registry, "stockade_lock_service_waiters") == 1; });
  a.reset();
  EXPECT_EQ(CodeOf(update.get().status()), "CANCELLED");
}

TEST_F(StrictTierTest, Misuse_IsRefused) {
  OpenStrict();
  const absl::Status plain = Update(*a, 1);
  EXPECT_EQ(CodeOf(plain), "FAILED_PRECONDITION");
  EXPECT_THAT(plain.message(), HasSubstr("must take the lock"));
  auto nested = StartUpdate(*a, [&](const LockLease&) {
    return b->UpdateThrough(2, [](const LockLease&) { return absl::OkStatus(); }).status();
  });
  PassWait();
  EXPECT_EQ(CodeOf(nested.get().status()), "FAILED_PRECONDITION");
  Close();
  const auto with_lock = [](const LockLease&) { return absl::OkStatus(); };
  for (const bool strict : {false, true}) {
    LoadingCacheOptions options = InTier({.strict = strict});
    if (strict) options.tier = nullptr;
    Cache other(options, Reads());
    const absl::StatusOr<UpdateReport> report = other.UpdateThrough(1, with_lock);
    EXPECT_EQ(CodeOf(report.status()), "FAILED_PRECONDITION");
    EXPECT_THAT(report.status().message(), HasSubstr("only with strict and a tier"));
  }
  const auto refused = Cache::Create(InTier({.stale_if_error = absl::Seconds(1), .strict = true}), Reads());
  EXPECT_EQ(CodeOf(refused.status()), "INVALID_ARGUMENT");
  EXPECT_THAT(refused.status().message(), HasSubstr("stale_if_error = 1s: cannot be combined with strict and a tier"));
}

TEST_F(StrictTierTest, Update_TheCodecRefusesTheKey_IsRefused) {
  Callbacks callbacks = {.load = Reads()};
  callbacks.codec.id = "text/1";
  callbacks.codec.encode_key = [](const int&, std::string*) { return absl::OutOfRangeError("no such key"); };
  callbacks.codec.decode_key = [](std::string_view) -> absl::StatusOr<int> { return 1; };
  a = NewCache({.strict = true}, callbacks);
  const auto report = a->UpdateThrough(1, [](const LockLease&) { return absl::OkStatus(); });
  EXPECT_EQ(CodeOf(report.status()), "INVALID_ARGUMENT");
  EXPECT_THAT(report.status().message(), HasSubstr("no such key"));
}

}  // namespace
}  // namespace stockade::testing

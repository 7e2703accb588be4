// AsioCache, AsioLocks and AsioInventory as programs use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "asio/net.h"
#include "inventory/recording_ledger.h"
#include "stockade/locks/local_lock_service.h"
#include "stockade/metrics/metrics_registry.h"
#include "support/await.h"
#include "support/forked_child.h"
#include "support/run_threads.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;
using TextCache = LoadingCache<std::string, std::string>;
using Page = absl::StatusOr<TextCache::Handle>;
using Lease = absl::StatusOr<LockLease>;
using Held = absl::StatusOr<Reservation>;

struct ProductId {
  std::string shop;
  int number = 0;
  bool operator==(const ProductId&) const = default;
};
struct HashOfProductId {
  size_t operator()(const ProductId& id) const { return std::hash<std::string>()(id.shop); }
};
struct Done {
  void operator()(const auto&) const {}
};

// g++ 12 destroys temporaries of aggregates twice within a co_await expression: they are refused everywhere.
template <typename Pages, typename Products>
constexpr bool kGetTakesBraces =
    requires(Pages pages) { pages.AsyncGet("a", {.timeout = absl::Seconds(1)}, Done()); } ||
    requires(Pages pages) { pages.AsyncGet("a", CacheGetOptions{.timeout = absl::Seconds(1)}, Done()); } ||
    requires(Products products) { products.AsyncGet(ProductId{.shop = "a"}, Done()); } ||
    requires(Products products) { products.AsyncGet(ProductId{.shop = "a"}, absl::Seconds(1), Done()); };
template <typename Pages, typename Products>
constexpr bool kGetTakesNames = requires(Pages pages, Products products, CacheGetOptions get, ProductId id, Done done) {
  pages.AsyncGet("a", get, done);
  pages.AsyncGet(std::string("a"), absl::Seconds(1), Done());
  products.AsyncGet(id, done);
};
using Pages = AsioCache<std::string, std::string>;
using Products = AsioCache<ProductId, int, HashOfProductId>;
static_assert(kGetTakesNames<Pages, Products> && !kGetTakesBraces<Pages, Products>);

template <typename Locks, typename Shop>
constexpr bool kOthersTakeBraces =
    requires(Locks locks) { locks.AsyncAcquire("a", {.wait = absl::Seconds(1)}, Done()); } ||
    requires(Shop shop) { shop.AsyncReserve({.sku = "s", .request_id = "r"}, Done()); } ||
    requires(Shop shop) { shop.AsyncReserveBasket({.lines = {{.sku = "s"}}, .request_id = "r"}, Done()); } ||
    requires(Shop shop) { shop.AsyncTake({.sku = "s", .request_id = "r"}, Done()); };
template <typename Locks, typename Shop>
constexpr bool kOthersTakeNames = requires(Locks locks, Shop shop, AcquireOptions acquire, ReserveRequest reserve,
                                           BasketRequest basket, TakeRequest take) {
  locks.AsyncAcquire("a", acquire, Done());
  shop.AsyncReserve(reserve, Done());
  shop.AsyncReserveBasket(basket, Done());
  shop.AsyncTake(take, Done());
};
static_assert(kOthersTakeNames<AsioLocks, AsioInventory> && !kOthersTakeBraces<AsioLocks, AsioInventory>);

// The objects of a program, which live longer than its contexts.
class AsioTest : public ::testing::Test {
 protected:
  AsioTest() { EXPECT_TRUE(shop_->AddSku("shoe", {.stock = 100'000}).ok()); }

  LockLease Hold() { return locks_->Acquire("a", {.owner = LockOwner::New()}).value(); }
  // In time: releases that nobody waits for are under way.
  void ExpectFree() {
    const auto lease = locks_->Acquire("a", {.wait = absl::Seconds(20), .owner = LockOwner::New()});
    EXPECT_TRUE(lease.ok()) << lease.status();
  }
  double Waiters() const {
    for (const prometheus::MetricFamily& family : registry_.Collect()) {
      if (family.name == "stockade_lock_service_waiters") return family.metric.at(0).gauge.value;
    }
    return -1;
  }
  // Loads of "slow..." wait for this.
  void LetLoadsEnd() {
    slow_ = false;
    slow_.notify_all();
  }

  MetricsRegistry registry_;
  std::atomic<bool> slow_ = true;
  std::unique_ptr<TextCache> cache_ =
      std::make_unique<TextCache>(LoadingCacheOptions{.name = "pages", .metrics = nullptr},
                                  [this](const std::string& key) -> absl::StatusOr<std::string> {
                                    if (key.starts_with("slow")) slow_.wait(true);
                                    return "of " + key;
                                  });
  std::unique_ptr<LockService> locks_ = LocalLockService::Create({.metrics = &registry_}).value();
  const std::shared_ptr<RecordingDisk> disk_ = std::make_shared<RecordingDisk>();
  std::unique_ptr<Inventory> shop_ = std::make_unique<Inventory>(
      InventoryOptions{.ledger = std::make_unique<RecordingLedger>(disk_), .metrics = nullptr});
};

struct App {
  AsioCache<std::string, std::string> pages;
  AsioLocks locks;
  AsioInventory shop;
  std::atomic<int> sold = 0;
  std::atomic<int> inside = 0;
  std::atomic<int> most = 0;
};

net::awaitable<void> Buys(App& app, int i) {
  const Page page =
      co_await app.pages.AsyncGet("page " + std::to_string(i % 10), absl::Seconds(30), net::use_awaitable);
  if (!page.ok()) co_return;
  Lease lease = co_await app.locks.AsyncAcquire("checkout", absl::Seconds(30), net::use_awaitable);
  if (!lease.ok()) co_return;
  const int inside = ++app.inside;
  if (inside > app.most) app.most = inside;
  const ReserveRequest order = {.sku = "few", .request_id = std::to_string(i), .ttl = absl::Minutes(10)};
  const Held held = co_await app.shop.AsyncReserve(order, net::use_awaitable);
  --app.inside;
  const absl::Status released = co_await app.locks.AsyncRelease(*std::move(lease), net::use_awaitable);
  if (!held.ok() || !released.ok()) co_return;
  const absl::Status sold = co_await app.shop.AsyncCommit(held->id(), net::use_awaitable);
  if (sold.ok()) ++app.sold;
}

TEST_F(AsioTest, CoroutinesOfTwoThreads_SellEachUnitOnceUnderTheLock) {
  const int buyers = static_cast<int>(Scaled(1000, 10'000));
  const int stock = buyers / 5;
  ASSERT_TRUE(shop_->AddSku("few", {.stock = stock}).ok());
  net::io_context io;
  App app{{io.get_executor(), *cache_}, {io.get_executor(), *locks_}, {io.get_executor(), *shop_}};
  for (int i = 0; i < buyers; ++i) net::co_spawn(io, Buys(app, i), net::detached);
  RunThreads(2, [&](int) { io.run(); });
  EXPECT_EQ(app.sold, stock);
  EXPECT_EQ(app.most, 1);
  EXPECT_EQ(shop_->Available("few").value(), 0);
}

TEST_F(AsioTest, EachCallOfAnInventory_ReturnsWhatTheBlockingOneDoes) {
  net::io_context io;
  const AsioInventory shop(io.get_executor(), *shop_);
  std::future<std::vector<absl::Status>> statuses = net::co_spawn(
      io,
      [&]() -> net::awaitable<std::vector<absl::Status>> {
        std::vector<absl::Status> all;
        const BasketRequest basket = {
            .lines = {{.sku = "shoe", .quantity = 3}}, .request_id = "b", .ttl = absl::Minutes(10)};
        const auto basket_held = co_await shop.AsyncReserveBasket(basket, net::use_awaitable);
        all.push_back(basket_held.status());
        const ExtendRequest later = {.order = basket_held->id(), .ttl = absl::Minutes(20)};
        const absl::StatusOr<absl::Time> until = co_await shop.AsyncExtend(later, net::use_awaitable);
        EXPECT_GT(until.value(), basket_held->expires_at() + absl::Minutes(9));
        const FindRequest which = {.order = basket_held->id()};
        const absl::StatusOr<OrderInfo> found = co_await shop.AsyncFind(which, net::use_awaitable);
        EXPECT_EQ(found.value(), shop_->Find(basket_held->id()).value());
        all.push_back(co_await shop.AsyncCancel(basket_held->id(), net::use_awaitable));
        all.push_back(co_await shop.AsyncCommit(basket_held->id(), net::use_awaitable));  // It is cancelled.
        const TakeRequest take = {.sku = "shoe", .quantity = 9, .request_id = "c"};
        const absl::StatusOr<Order> taken = co_await shop.AsyncTake(take, net::use_awaitable);
        all.push_back(taken.status());
        const ReturnRequest back = {.order = taken->id(), .lines = {{"shoe", 4}}, .request_id = "d"};
        const absl::StatusOr<std::vector<ReturnedLine>> returned = co_await shop.AsyncReturn(back, net::use_awaitable);
        EXPECT_EQ(returned.value(), shop_->Return(back).value());
        co_return all;
      },
      net::use_future);

  io.run();
  const std::vector<absl::Status> all = statuses.get();
  ASSERT_EQ(all.size(), 4u);
  for (const int i : {0, 1, 3}) EXPECT_EQ(all[static_cast<size_t>(i)], absl::OkStatus()) << i;
  EXPECT_EQ(RefusalOf(all[2]), Refusal::kCancelled) << all[2];
  EXPECT_EQ(shop_->Available("shoe").value(), 100'000 - 9 + 4);
}

TEST_F(AsioTest, EachToken_GetsTheAnswer) {
  net::io_context io;
  const AsioCache pages(io.get_executor(), *cache_);
  const AsioLocks locks(io.get_executor(), *locks_);
  std::optional<Page> by_callback;
  pages.AsyncGet("x", [&](Page page) { by_callback = std::move(page); });
  EXPECT_FALSE(by_callback.has_value());
  std::future<Lease> by_future = locks.AsyncAcquire("a", absl::ZeroDuration(), net::use_future);
  std::optional<absl::Status> released;
  locks.AsyncRelease(LockLease(), [&](const absl::Status& status) { released = status; });
#ifndef STOCKADE_USE_BOOST_ASIO
  std::optional<Page> deferred;
  pages.AsyncGet("y", net::experimental::deferred)([&](Page page) { deferred = std::move(page); });
#endif
  io.run();
  EXPECT_EQ(**by_callback.value(), "of x");
  EXPECT_TRUE(by_future.get().value().valid());
  EXPECT_TRUE(absl::IsFailedPrecondition(released.value())) << *released;
#ifndef STOCKADE_USE_BOOST_ASIO
  EXPECT_EQ(**deferred.value(), "of y");
#endif
  ExpectFree();
}

TEST_F(AsioTest, APoolAndTheSystemsExecutor_RunHandlersToo) {
  net::thread_pool pool(1);
  std::promise<std::string> from_pool, from_system;
  AsioCache(pool.get_executor(), *cache_).AsyncGet("x", [&](Page page) { from_pool.set_value(**page); });
  AsioCache(net::system_executor(), *cache_).AsyncGet("x", [&](Page page) { from_system.set_value(**page); });
  EXPECT_EQ(from_pool.get_future().get(), "of x");
  EXPECT_EQ(from_system.get_future().get(), "of x");
  pool.join();
}

TEST_F(AsioTest, AStopToken_CancelsAtOnce) {
  net::io_context io;
  const AsioCache pages(io.get_executor(), *cache_);
  const AsioLocks locks(io.get_executor(), *locks_);
  LockLease held = Hold();
  std::stop_source stop;
  CacheGetOptions get;
  get.stop = stop.get_token();
  AcquireOptions acquire;
  acquire.stop = stop.get_token();
  std::vector<absl::Status> answers;
  pages.AsyncGet("slow", get, [&](const Page& page) { answers.push_back(page.status()); });
  locks.AsyncAcquire("a", acquire, [&](const Lease& lease) { answers.push_back(lease.status()); });
  io.poll();
  EXPECT_TRUE(answers.empty());
  std::thread([&] { stop.request_stop(); }).join();
  io.run();
  // And when it was requested before.
  io.restart();
  pages.AsyncGet("slow", get, [&](const Page& page) { answers.push_back(page.status()); });
  locks.AsyncAcquire("a", acquire, [&](const Lease& lease) { answers.push_back(lease.status()); });
  io.run();
  ASSERT_EQ(answers.size(), 4u);
  for (const absl::Status& answer : answers) EXPECT_TRUE(absl::IsCancelled(answer)) << answer;
  EXPECT_TRUE(held.Release().ok());
  ExpectFree();
  LetLoadsEnd();
}

#ifdef STOCKADE_ASIO_HAS_SLOTS

TEST_F(AsioTest, ASlot_CancelsGetsAndAcquiresWithAnyType) {
  for (const auto type :
       {net::cancellation_type::total, net::cancellation_type::partial, net::cancellation_type::terminal}) {
    net::io_context io;
    const AsioCache pages(io.get_executor(), *cache_);
    const AsioLocks locks(io.get_executor(), *locks_);
    LockLease held = Hold();
    net::cancellation_signal get, acquire;
    std::vector<absl::Status> answers;
    pages.AsyncGet(
        "slow", net::bind_cancellation_slot(get.slot(), [&](const Page& page) { answers.push_back(page.status()); }));
    locks.AsyncAcquire(
        "a", absl::InfiniteDuration(),
        net::bind_cancellation_slot(acquire.slot(), [&](const Lease& lease) { answers.push_back(lease.status()); }));
    io.poll();
    EXPECT_TRUE(answers.empty());
    get.emit(net::cancellation_type::none);
    get.emit(type);
    acquire.emit(type);
    EXPECT_TRUE(answers.empty());  // Not within emit().
    Await("an empty queue", [&] { return Waiters() == 0; });
    io.run();
    ASSERT_EQ(answers.size(), 2u);
    for (const absl::Status& answer : answers) EXPECT_TRUE(absl::IsCancelled(answer)) << answer;
    // The slot is free for the next operation.
    EXPECT_FALSE(get.slot().has_handler());
    get.emit(type);
    EXPECT_TRUE(held.Release().ok());
    ExpectFree();
  }
  LetLoadsEnd();
}

TEST_F(AsioTest, ASlot_CancelsAChangeOnlyWhereItsEffectMayBeUnknown) {
  net::io_context io;
  const AsioInventory shop(io.get_executor(), *shop_);
  disk_->HoldUp(true);
  net::cancellation_signal cancel;
  std::optional<Held> held;
  const ReserveRequest order = {.sku = "shoe", .request_id = "r", .ttl = absl::Minutes(10)};
  const auto reserve = [&] {
    held.reset();
    shop.AsyncReserve(order,
                      net::bind_cancellation_slot(cancel.slot(), [&](Held answer) { held = std::move(answer); }));
  };
  reserve();
  cancel.emit(net::cancellation_type::total | net::cancellation_type::partial);
  io.poll();
  EXPECT_FALSE(held.has_value());
  cancel.emit(net::cancellation_type::terminal);
  io.run();
  EXPECT_TRUE(absl::IsCancelled(held->status())) << held->status();
  EXPECT_THAT(std::string(held->status().message()),
              HasSubstr("AsyncReserve(): the operation was cancelled; the outcome is unknown; send"));
  EXPECT_TRUE(OutcomeUnknown(held->status()));
  disk_->HoldUp(false);
  io.restart();
  reserve();
  io.run();
  EXPECT_TRUE(held->ok()) << held->status();
  EXPECT_EQ(shop_->Available("shoe").value(), 99'999);
}

TEST_F(AsioTest, AReleaseIgnoresItsSlot) {
  net::io_context io;
  const AsioLocks locks(io.get_executor(), *locks_);
  net::cancellation_signal cancel;
  std::optional<absl::Status> released;
  locks.AsyncRelease(Hold(),
                     net::bind_cancellation_slot(cancel.slot(), [&](absl::Status status) { released = status; }));
  EXPECT_FALSE(cancel.slot().has_handler());
  io.run();
  EXPECT_TRUE(released->ok()) << *released;
  ExpectFree();
}

net::awaitable<void> WaitsFor(net::steady_timer& timer) { co_await timer.async_wait(net::use_awaitable); }

// As an HTTP request with a deadline does it.
TEST_F(AsioTest, AnAcquireOrATimer_TheTimerWinsAndNothingIsHeld) {
  using namespace net::experimental::awaitable_operators;
  net::io_context io;
  const AsioLocks locks(io.get_executor(), *locks_);
  LockLease held = Hold();
  size_t winner = 0;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        net::steady_timer timer(io, std::chrono::milliseconds(20));
        const auto first =
            co_await (locks.AsyncAcquire("a", absl::InfiniteDuration(), net::use_awaitable) || WaitsFor(timer));
        winner = first.index();
      },
      net::detached);
  io.run();
  EXPECT_EQ(winner, 1u);
  EXPECT_TRUE(held.Release().ok());
  ExpectFree();
}

// Both may have been acquired: the lease of the one that lost ends without waiting.
TEST_F(AsioTest, TwoAcquiresAtOnce_TheLeaseOfTheLoserEnds) {
  using namespace net::experimental::awaitable_operators;
  net::io_context io;
  const AsioLocks locks(io.get_executor(), *locks_);
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        for (int round = 0; round < Scaled(200, 2000); ++round) {
          const auto first = co_await (locks.AsyncAcquire("a", absl::InfiniteDuration(), net::use_awaitable) ||
                                       locks.AsyncAcquire("b", absl::InfiniteDuration(), net::use_awaitable));
          (void)first;
        }
      },
      net::detached);
  io.run();
  ExpectFree();
  EXPECT_TRUE(locks_->Acquire("b", {.wait = absl::Seconds(20), .owner = LockOwner::New()}).ok());
}

#endif  // STOCKADE_ASIO_HAS_SLOTS

net::awaitable<void> Holds(AsioLocks locks, std::atomic<int>& resumed) {
  const Lease lease = co_await locks.AsyncAcquire("a", absl::InfiniteDuration(), net::use_awaitable);
  ++resumed;
}
net::awaitable<void> Reserves(AsioInventory shop, std::string id, std::atomic<int>& resumed) {
  const ReserveRequest order = {.sku = "shoe", .request_id = std::move(id), .ttl = absl::Minutes(10)};
  const Held held = co_await shop.AsyncReserve(order, net::use_awaitable);
  ++resumed;
}
net::awaitable<void> Gets(AsioCache<std::string, std::string> pages, std::string key, std::atomic<int>& resumed) {
  const Page page = co_await pages.AsyncGet(key, net::use_awaitable);
  ++resumed;
}

TEST_F(AsioTest, AContextThatEnds_TakesItsHandlersWithIt) {
  LockLease held = Hold();
  disk_->HoldUp(true);
  std::atomic<int> resumed = 0;
  {
    net::io_context io;
    net::co_spawn(io, Holds({io.get_executor(), *locks_}, resumed), net::detached);
    net::co_spawn(io, Gets({io.get_executor(), *cache_}, "slow", resumed), net::detached);
    net::co_spawn(io, Reserves({io.get_executor(), *shop_}, "r", resumed), net::detached);
    io.poll();
    Await("a place in the queue", [&] { return Waiters() == 1; });
  }
  Await("an empty queue", [&] { return Waiters() == 0; });
  disk_->HoldUp(false);
  LetLoadsEnd();
  EXPECT_TRUE(held.Release().ok());
  ExpectFree();
  EXPECT_EQ(**cache_->Get("slow"), "of slow");
  EXPECT_TRUE(shop_->Reserve({.sku = "shoe", .request_id = "r", .ttl = absl::Minutes(10)}).ok());
  EXPECT_EQ(shop_->Available("shoe").value(), 99'999);
  EXPECT_EQ(resumed, 0);
}

TEST_F(AsioTest, ALeaseThatWaitsInAnEndedContext_IsReleased) {
  std::atomic<int> resumed = 0;
  {
    net::io_context io;
    net::co_spawn(io, Holds({io.get_executor(), *locks_}, resumed), net::detached);
    io.poll_one();  // It begins, and the answer is posted.
    Await("the grant",
          [&] { return !locks_->Acquire("a", {.wait = absl::ZeroDuration(), .owner = LockOwner::New()}).ok(); });
  }
  EXPECT_EQ(resumed, 0);
  ExpectFree();
}

TEST_F(AsioTest, WhatIsCalledEndsFirst_TheHandlersGetCancelled) {
  net::io_context io;
  LockLease held = Hold();
  disk_->HoldUp(true);
  std::vector<absl::Status> answers;
  const auto add = [&](const auto& answer) { answers.push_back(answer.status()); };
  AsioLocks(io.get_executor(), *locks_).AsyncAcquire("a", absl::InfiniteDuration(), add);
  AsioCache(io.get_executor(), *cache_).AsyncGet("slow", add);
  const ReserveRequest order = {.sku = "shoe", .request_id = "r", .ttl = absl::Minutes(10)};
  AsioInventory(io.get_executor(), *shop_).AsyncReserve(order, add);
  io.poll();
  EXPECT_TRUE(answers.empty());
  locks_.reset();
  std::thread ends([&] { cache_.reset(); });
  LetLoadsEnd();
  ends.join();
  disk_->HoldUp(false);
  shop_.reset();
  io.run();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_TRUE(absl::IsCancelled(answers[0])) << answers[0];
}

// Contexts end at random moments, on four threads, while the answers come.
TEST_F(AsioTest, ContextsOfFourThreadsEndAtRandomMoments) {
  LetLoadsEnd();
  const uint64_t seed = Seed();
  std::atomic<int> resumed = 0;
  std::atomic<int64_t> keys = 0;
  RunThreads(4, [&](int thread) {
    std::mt19937_64 random(seed + static_cast<uint64_t>(thread));
    for (int round = 0; round < Scaled(200, 5000); ++round) {
      net::io_context io;
      std::vector<std::thread> helpers;
      for (int i = 0; i < 5; ++i) {
        const std::string key = std::to_string(++keys);
        net::co_spawn(io, Holds({io.get_executor(), *locks_}, resumed), net::detached);
        net::co_spawn(io, Gets({io.get_executor(), *cache_}, key, resumed), net::detached);
        net::co_spawn(io, Reserves({io.get_executor(), *shop_}, key, resumed), net::detached);
      }
      if (random() % 4 == 0) helpers.emplace_back([&] { io.run(); });
      const int64_t steps = static_cast<int64_t>(random() % 40);
      for (int64_t step = 0; step < steps; ++step) io.poll_one();
      io.stop();
      for (std::thread& helper : helpers) helper.join();
    }
  });
  ExpectFree();
  EXPECT_GT(resumed, 0);
}

TEST_F(AsioTest, InAForkedChild_AContextEndsAndTheCallsAreTheParents) {
  std::atomic<int> resumed = 0;
  LockLease held = Hold();
  auto io = std::make_unique<net::io_context>();
  net::co_spawn(*io, Holds({io->get_executor(), *locks_}, resumed), net::detached);
  io->poll();
  EXPECT_EQ(InForkedChild([&] { io.reset(); }), 0);
  EXPECT_TRUE(held.Release().ok());
  io->run();
  EXPECT_EQ(resumed, 1);
  ExpectFree();
}

}  // namespace
}  // namespace stockade::testing

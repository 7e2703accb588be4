// The snippets of docs/EVENT_LOOPS.md, where they compile and run. snippets_test.cc compares them.

#include <gtest/gtest.h>

#include <atomic>
#include <coroutine>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "stockade/cache/coroutine.h"
#include "stockade/inventory/coroutine.h"
#include "stockade/locks/coroutine.h"
#include "stockade/locks/local_lock_service.h"
#include "support/await.h"

namespace stockade {
namespace {

using Product = std::string;

// A coroutine of the simplest kind: it begins at once, and its frame ends with it.
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

struct Shop {
  Executor& executor;
  LoadingCache<std::string, Product>& products;
  LockService& locks;
  Inventory& inventory;
};

struct Request {
  std::string sku;
  std::string user;
  std::string id;
  std::stop_token stop;
};

std::atomic<int> answers = 0;

void Answer(const absl::Status& status, std::string& answer) {
  answer = status.ToString();
  ++answers;
}

Task Buy(Shop& shop, Request request, std::string& answer) {
  // One for the whole request: where it goes on, when it is stopped, until when it waits.
  const AwaitOn on(shop.executor, request.stop, Clock::System()->Now() + absl::Milliseconds(300));

  const absl::StatusOr<CacheHandle<Product>> product = co_await GetAwait(shop.products, request.sku, on);
  if (!product.ok()) co_return Answer(product.status(), answer);

  const AcquireOptions brief = {.wait = absl::Milliseconds(50)};
  absl::StatusOr<LockLease> lease = co_await AcquireAwait(shop.locks, "user/" + request.user, brief, on);
  if (!lease.ok()) co_return Answer(lease.status(), answer);

  const ReserveRequest order = {
      .sku = request.sku, .request_id = request.id, .buyer = request.user, .ttl = absl::Minutes(10)};
  const absl::StatusOr<Reservation> held = co_await ReserveAwait(shop.inventory, order, on);
  const absl::Status released = co_await ReleaseAwait(*std::move(lease), on);
  co_return Answer(held.ok() ? released : held.status(), answer);
}

Task Reenters(LockService& locks, AwaitOn on) {
  const absl::StatusOr<LockLease> lease = co_await AcquireAwait(locks, "ticket", on);
  AcquireOptions again = {.wait = absl::Milliseconds(50)};
  again.owner = lease->owner();
  absl::StatusOr<LockLease> inner = co_await AcquireAwait(locks, "ticket", again, on);
  EXPECT_TRUE(inner.ok()) << inner.status();
  ++answers;
}

Task Commits(Inventory& inventory, OrderId id, AwaitOn on, absl::Status& status) {
  const absl::Status committed = co_await CommitAwait(inventory, id, on);
  if (!committed.ok()) co_return;
  status = committed;
  ++answers;
}

TEST(CoroutinesDocument, Snippets_Run) {
  ThreadPool pool(1);
  LoadingCache<std::string, Product> products({.metrics = nullptr},
                                              [](const std::string& sku) -> absl::StatusOr<Product> { return sku; });
  const std::unique_ptr<LockService> locks = LocalLockService::Create({.metrics = nullptr}).value();
  Inventory inventory({.metrics = nullptr});
  ASSERT_TRUE(inventory.AddSku("shoe", {.stock = 10}).ok());
  Shop shop{.executor = pool, .products = products, .locks = *locks, .inventory = inventory};
  std::string answer = "CANCELLED";
  // A busy machine may take longer than the request's 300 ms.
  const auto in_time = [&] { return answer.find("DEADLINE") == std::string::npos; };
  for (int attempt = 0; attempt < 20; ++attempt) {
    const int before = answers;
    Buy(shop, {.sku = "shoe", .user = "ann", .id = "1", .stop = {}}, answer);
    testing::Await("the purchase", [&] { return answers > before; });
    if (in_time()) break;
  }
  EXPECT_EQ(answer, "OK");
  int before = answers;
  Reenters(*locks, AwaitOn(pool));
  testing::Await("the second lease", [&] { return answers > before; });
  before = answers;
  const OrderId id = inventory.Reserve({.sku = "shoe", .request_id = "2", .ttl = absl::Minutes(10)})->id();
  absl::Status status = absl::UnknownError("");
  Commits(inventory, id, AwaitOn(pool), status);
  testing::Await("the commit", [&] { return answers > before; });
  EXPECT_EQ(status, absl::OkStatus());
}

}  // namespace
}  // namespace stockade

// What must not compile, by the number MISUSE, and 0, which must: what g++ 12 compiles wrongly (shapes.cc). misuse.sh
// compiles it, and looks for the text after EXPECT in what the compiler says.
#include <string>

#include "stockade/inventory/coroutine.h"
#include "stockade/locks/coroutine.h"

using namespace stockade;

void Try(LockService& locks, Inventory& shop, Executor& executor, const std::stop_token& stop) {
  const AwaitOn on(executor);
  const AcquireOptions options = {.wait = absl::Seconds(1)};
#if MISUSE == 0
  (void)AcquireAwait(locks, "a", options, on);
  (void)AcquireAwait(locks, std::string("a"), options, {executor, stop});
  (void)AcquireAwait(locks, "a", absl::Seconds(1), on.By(Instant::InfiniteFuture()));
  (void)shop;
#elif MISUSE == 1  // EXPECT delete
  (void)AcquireAwait(locks, "a", {.wait = absl::Seconds(1)}, on);
#elif MISUSE == 2  // EXPECT delete
  (void)AcquireAwait(locks, "a", AcquireOptions{.wait = absl::Seconds(1)}, on);
#elif MISUSE == 3  // EXPECT delete
  (void)ReserveAwait(shop, {.sku = "s", .request_id = "r"}, on);
#elif MISUSE == 4  // EXPECT delete
  (void)ReserveAwait(shop, ReserveRequest{.sku = "s", .request_id = "r"}, on);
#elif MISUSE == 5  // EXPECT delete
  (void)ReserveBasketAwait(shop, {.lines = {{.sku = "s"}}, .request_id = "r"}, on);
#elif MISUSE == 6  // EXPECT delete
  (void)TakeAwait(shop, {.sku = "s", .request_id = "r"}, on);
#elif MISUSE == 7  // EXPECT on
  (void)AcquireAwait(locks, "a", options, {.executor = executor});
#elif MISUSE == 8  // EXPECT co_await
  AcquireAwait(locks, "a", options, on);
#elif MISUSE == 9  // EXPECT ReleaseAwait
  LockLease lease;
  (void)ReleaseAwait(lease, on);
#endif
  (void)stop;
  (void)options;
}

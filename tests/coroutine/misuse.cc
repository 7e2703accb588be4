// What must not compile, by the number MISUSE, and 0, which must: what g++ 12 compiles wrongly (shapes.cc). misuse.sh
// compiles it, and looks for the text after EXPECT in what the compiler says.
#include <string>

#include "stockade/cache/coroutine.h"
#include "stockade/inventory/coroutine.h"
#include "stockade/locks/coroutine.h"

using namespace stockade;

struct ProductId {
  std::string shop;
  int number = 0;
  bool operator==(const ProductId&) const = default;
};
struct HashOfProductId {
  size_t operator()(const ProductId& id) const { return std::hash<std::string>()(id.shop) + id.number; }
};
using Products = LoadingCache<ProductId, int, HashOfProductId>;

void Try(Products& products, LoadingCache<std::string, int>& pages, LockService& locks, Inventory& shop,
         Executor& executor, const std::stop_token& stop) {
  const AwaitOn on(executor);
  const AcquireOptions options = {.wait = absl::Seconds(1)};
#if MISUSE == 0
  (void)AcquireAwait(locks, "a", options, on);
  (void)AcquireAwait(locks, std::string("a"), options, {executor, stop});
  (void)AcquireAwait(locks, "a", absl::Seconds(1), on.By(Instant::InfiniteFuture()));
  (void)GetAwait(pages, std::string("a"), on);
  (void)GetAwait(pages, "a", {executor, stop}, absl::Seconds(1));
  const ProductId id = {.shop = "a"};
  (void)GetAwait(products, id, on, absl::Seconds(1));
#elif MISUSE == 1   // EXPECT delete
  (void)AcquireAwait(locks, "a", {.wait = absl::Seconds(1)}, on);
#elif MISUSE == 2   // EXPECT delete
  (void)AcquireAwait(locks, "a", AcquireOptions{.wait = absl::Seconds(1)}, on);
#elif MISUSE == 3   // EXPECT delete
  (void)ReserveAwait(shop, {.sku = "s", .request_id = "r"}, on);
#elif MISUSE == 4   // EXPECT delete
  (void)ReserveAwait(shop, ReserveRequest{.sku = "s", .request_id = "r"}, on);
#elif MISUSE == 5   // EXPECT delete
  (void)ReserveBasketAwait(shop, {.lines = {{.sku = "s"}}, .request_id = "r"}, on);
#elif MISUSE == 6   // EXPECT delete
  (void)TakeAwait(shop, {.sku = "s", .request_id = "r"}, on);
#elif MISUSE == 7   // EXPECT on
  (void)AcquireAwait(locks, "a", options, {.executor = executor});
#elif MISUSE == 8   // EXPECT co_await
  AcquireAwait(locks, "a", options, on);
#elif MISUSE == 9   // EXPECT ReleaseAwait
  LockLease lease;
  (void)ReleaseAwait(lease, on);
#elif MISUSE == 10  // EXPECT delete
  (void)GetAwait(products, {.shop = "a"}, on);
#elif MISUSE == 11  // EXPECT delete
  (void)GetAwait(products, ProductId{.shop = "a"}, on, absl::Seconds(1));
#endif
  (void)products, (void)pages, (void)shop, (void)stop, (void)options;
}

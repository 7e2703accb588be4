// A project of one's own on the installed package.

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"

int main() {
  stockade::LoadingCache<std::string, std::string> names(
      {.name = "names", .ttl = absl::Minutes(1)},
      [](const std::string& id, stockade::LoadContext&) -> absl::StatusOr<std::string> { return "the name of " + id; });
  stockade::Inventory stock({.name = "shop"});
  const absl::Status added = stock.AddSku("shoe-1", {.stock = 10});
  const absl::StatusOr<stockade::CacheHandle<std::string>> name = names.Get("shoe-1");
  const absl::StatusOr<stockade::Order> order = stock.Take({.sku = "shoe-1", .request_id = "click-1"});
  for (const absl::Status& status : {added, name.status(), order.status()}) {
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
  }
  std::printf("%s: sold one, %d left\n", (*name)->c_str(), static_cast<int>(stock.Available("shoe-1").value_or(-1)));
}

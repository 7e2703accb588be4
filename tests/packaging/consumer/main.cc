#include <stockade/cache/loading_cache.h>
#include <stockade/inventory/inventory.h>

#include <cstdio>
#include <string>

int main() {
  stockade::LoadingCache<std::string, std::string> names(
      {.name = "names"}, [](const std::string& id, stockade::LoadContext&) -> absl::StatusOr<std::string> {
        return id == "af1" ? absl::StatusOr<std::string>("pegasus") : absl::NotFoundError(id);
      });
  stockade::Inventory shop({.name = "shop"});
  if (!shop.AddSku("af1", {.stock = 100}).ok()) return 1;
  if (!shop.Take({.sku = "af1", .quantity = 1, .request_id = "r1"}).ok()) return 1;
  const auto name = names.Get("af1");
  const auto left = shop.Available("af1");
  if (!name.ok() || !left.ok()) return 1;
  std::printf("loaded %s, %lld left\n", (*name)->c_str(), static_cast<long long>(*left));
  return 0;
}

#include "event_loop/map_web_shop.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace shop {

absl::StatusOr<Product> MapWebShop::Find(const std::string& id) {
  const auto now = MapShopState::Clock::now();
  {
    const std::lock_guard lock(state_.mutex);
    const auto found = state_.products.find(id);
    if (found != state_.products.end() && found->second.until > now) return found->second.product;
  }
  absl::StatusOr<Product> product = db_.Find(id);
  if (!product.ok()) return product;
  const std::lock_guard lock(state_.mutex);
  state_.products[id] = {*product, now + kTtl};
  return product;
}

Response MapWebShop::Order(const Request& request) {
  const std::string sku(request.Get("sku"));
  const std::lock_guard one_at_a_time(state_.stock_mutex);
  {
    const std::lock_guard lock(state_.mutex);
    if (!state_.requests.emplace(request.Get("request")).second) return {.status = 201, .body = "ordered before\n"};
  }
  const absl::StatusOr<int64_t> units = db_.Stock(sku);
  if (!units.ok()) return {.status = 503, .body = "the database is down\n"};
  if (*units == 0) return {.status = 409, .body = "sold out\n"};
  if (!db_.SetStock(sku, *units - 1).ok()) return {.status = 503, .body = "the database is down\n"};
  return {.status = 201, .body = "ordered\n"};
}

asio::awaitable<Response> MapWebShop::Answer(const Request& request) {
  constexpr std::string_view kProducts = "/products/";
  if (request.method == "POST" && request.path == "/orders") co_return Order(request);
  if (request.method != "GET" || !request.path.starts_with(kProducts)) {
    co_return Response{.status = 404, .body = "there is no such page\n"};
  }
  const absl::StatusOr<Product> product = Find(request.path.substr(kProducts.size()));
  if (!product.ok())
    co_return Response{.status = absl::IsNotFound(product.status()) ? 404 : 503, .body = "not there\n"};
  co_return Response{.body = absl::StrCat(product->id, " of ", product->brand, ": ", product->price, "\n")};
}

}  // namespace shop

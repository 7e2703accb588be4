#include "event_loop/stockade_web_shop.h"

#include <asio/experimental/awaitable_operators.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "stockade/inventory/refusal.h"

namespace shop {
namespace {

using asio::use_awaitable;

Response Page(const Product& product) {
  return {.body = absl::StrCat(product.id, " of ", product.brand, ": ", product.price, "\n")};
}

Response Failed(const absl::Status& status) {
  const bool sold_out = stockade::RefusalOf(status) == stockade::Refusal::kSoldOut;
  return {.status = sold_out                                                           ? 409
                    : absl::IsNotFound(status)                                         ? 404
                    : absl::IsInvalidArgument(status) || absl::IsAlreadyExists(status) ? 400
                                                                                       : 503,
          .body = absl::StrCat(std::string(status.message()), "\n")};
}

// The answer of `work`, or 504 once the deadline has passed: then the call for which `work` waits is cancelled.
asio::awaitable<Response> BeforeTheDeadline(const asio::any_io_executor& loop, asio::awaitable<Response> work) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer deadline(loop, kDeadline);
  std::variant<Response, std::monostate> first = co_await (std::move(work) || deadline.async_wait(use_awaitable));
  if (Response* const answer = std::get_if<Response>(&first)) co_return std::move(*answer);
  co_return Response{.status = 504, .body = "too late; send the same request again\n"};
}

}  // namespace

StockadeWebShop::StockadeWebShop(const asio::any_io_executor& loop, Products& products, stockade::LockService& locks,
                                 stockade::Inventory& stock)
    : cached_(products), products_(loop, products), locks_(loop, locks), stock_(loop, stock) {}

asio::awaitable<Response> StockadeWebShop::Answer(const Request& request) {
  constexpr std::string_view kProducts = "/products/";
  const asio::any_io_executor loop = products_.get_executor();
  if (request.method == "GET" && request.path.starts_with(kProducts)) {
    const std::string id = request.path.substr(kProducts.size());
    if (const auto hit = cached_.GetIfPresent(id)) co_return Page(**hit);
    co_return co_await BeforeTheDeadline(loop, Show(id));
  }
  if (request.method == "POST" && request.path == "/orders") {
    co_return co_await BeforeTheDeadline(loop, Order(request));
  }
  co_return Response{.status = 404, .body = "there is no such page\n"};
}

asio::awaitable<Response> StockadeWebShop::Show(std::string id) {
  const auto product = co_await products_.AsyncGet(id, use_awaitable);
  co_return product.ok() ? Page(**product) : Failed(product.status());
}

asio::awaitable<Response> StockadeWebShop::Order(const Request& request) {
  const std::string sku(request.Get("sku"));
  const auto product = co_await products_.AsyncGet(sku, use_awaitable);
  if (!product.ok()) co_return Failed(product.status());

  // One order of a user at a time, in whichever process. It is released when the request ends, and nobody waits for
  // that.
  const std::string user(request.Get("user"));
  if (user.empty()) co_return Response{.status = 400, .body = "there is no user\n"};
  const auto lease = co_await locks_.AsyncAcquire(absl::StrCat("user/", user), absl::InfiniteDuration(), use_awaitable);
  if (!lease.ok()) co_return Failed(lease.status());

  // If the request ends before the commit, the units come back when the reservation ends.
  const stockade::ReserveRequest order = {
      .sku = sku, .request_id = std::string(request.Get("request")), .buyer = user, .ttl = kReservation};
  const auto held = co_await stock_.AsyncReserve(order, use_awaitable);
  if (!held.ok()) co_return Failed(held.status());
  const absl::Status sold = co_await stock_.AsyncCommit(held->id(), use_awaitable);
  if (!sold.ok()) co_return Failed(sold);
  co_return Response{.status = 201, .body = absl::StrCat("order ", held->id(), ", ", (*product)->price, "\n")};
}

}  // namespace shop

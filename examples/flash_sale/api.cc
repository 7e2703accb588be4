#include "api.h"

#include <prometheus/text_serializer.h>

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "common/sale_api.h"
#include "order_body.h"
#include "page.h"
#include "sale_json.h"
#include "stockade/inventory/refusal.h"
#include "stockade/metrics/metrics_registry.h"

namespace flash_sale {
namespace {

using examples::SendError;
using examples::SendJson;
using httplib::Request;
using httplib::Response;

constexpr char kJson[] = "application/json";
constexpr std::string_view kProducts = "/products/";
constexpr std::string_view kStockPath = "/stock/";

bool IsPosted(std::string_view path) { return path == "/orders" || path == "/returns" || path == "/sales"; }

bool IsKnownPath(std::string_view path) {
  return path == "/" || path == "/api" || path == "/metrics" || path == "/sale" || IsPosted(path) ||
         path.starts_with(kProducts) || path.starts_with(kStockPath);
}

std::optional<ProductId> ParseId(const std::string& text) {
  ProductId id = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || rest != end || id > static_cast<ProductId>(INT64_MAX)) return std::nullopt;
  return id;
}

ApiError BadProduct() { return {400, "bad_product", "a product is a whole number"}; }
ApiError Closed() { return {503, "closed", "the shop is closed while its ledger is audited"}; }

// In words of our own: a Status may name files.
ApiError ErrorOf(const absl::Status& status) {
  using stockade::Refusal;
  switch (stockade::RefusalOf(status)) {
    case Refusal::kSoldOut: return {409, "sold_out", "fewer units are left than wanted"};
    case Refusal::kAllHeld: return {409, "all_held", "fewer units are free than wanted, but some are only held"};
    case Refusal::kBuyerLimit: return {409, "buyer_limit", "the buyer would exceed the limit per buyer"};
    case Refusal::kRequestMismatch: return {422, "key_reused", "the Idempotency-Key was used before with another body"};
    case Refusal::kRequestForgotten: return {422, "key_forgotten", "the Idempotency-Key was used too long ago"};
    case Refusal::kTooMany: return {409, "too_many", "fewer units of the order are left than are to come back"};
    case Refusal::kUnavailable: return {503, "ledger_unavailable", "the order cannot be recorded now"};
    default: break;
  }
  if (absl::IsNotFound(status)) return {404, "unknown_product", "there is no such product"};
  std::fprintf(stderr, "flash_sale: %s\n", std::string(status.message()).c_str());
  return {500, "internal", "internal error"};
}

void ShowMetrics(Response& response) {
  response.set_content(prometheus::TextSerializer().Serialize(stockade::MetricsRegistry::Default()->Collect()),
                       "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace

std::optional<ApiError> Api::Refusal(const Request& head) {
  if (auto foreign = examples::RefusalOfOrigin(head)) return foreign;
  if (!IsKnownPath(head.path)) return ApiError{404, "not_found", "there is nothing at this path"};
  if (!IsPosted(head.path)) return examples::RefusalUnlessReading(head);
  if (head.method != "POST") {
    return ApiError{405, "method_not_allowed", "orders, returns and sales need the method POST", "POST"};
  }
  if (auto refused = examples::RefusalOfBody(head)) return refused;
  if (head.path == "/sales") return std::nullopt;
  if (head.get_header_value_count("Idempotency-Key") != 1 || !IsToken(head.get_header_value("Idempotency-Key"))) {
    return ApiError{400, "bad_key", "an Idempotency-Key of 1 to 64 printable characters without blanks is required"};
  }
  return std::nullopt;
}

void Api::Respond(const Request& request, Response& response) {
  examples::SendNoStore(response);
  const std::string& path = request.path;
  if (path == "/") {
    examples::SendPage(kPage, response);
  } else if (path == "/api") {
    response.set_content(kApiText, "text/plain; charset=utf-8");
  } else if (path == "/metrics") {
    ShowMetrics(response);
  } else if (path == "/sale") {
    ShowSale(response);
  } else if (path == "/orders") {
    TakeOrder(request, response);
  } else if (path == "/returns") {
    TakeBack(request, response);
  } else if (path == "/sales") {
    examples::StartSale(request, *requests_, response);
  } else if (path.starts_with(kProducts)) {
    ShowProduct(path.substr(kProducts.size()), response);
  } else {
    ShowStock(path.substr(kStockPath.size()), response);
  }
}

void Api::ShowSale(Response& response) {
  const auto shards = door_->Enter([this](StockadeShop* shop, HotKeyLog*) -> std::optional<std::vector<int64_t>> {
    if (shop == nullptr) return std::nullopt;
    absl::StatusOr<stockade::SkuSnapshot> snapshot = shop->Stock(board_->facts.product);
    if (!snapshot.ok()) return std::nullopt;
    return std::move(snapshot->shard_units);
  });
  response.set_content(SaleJson(*board_, shards, requests_->open()) + "\n", kJson);
}

void Api::ShowProduct(const std::string& text, Response& response) {
  const std::optional<ProductId> id = ParseId(text);
  if (!id) return SendError(BadProduct(), response);
  door_->Enter([&](StockadeShop* shop, HotKeyLog* log) {
    if (shop == nullptr) return SendError(Closed(), response);
    std::optional<HotKeyLog::View> hot_view;
    if (*id == board_->facts.product) hot_view.emplace(*log);
    const absl::StatusOr<Product> product = shop->View(*id);
    if (!product.ok()) return SendError(ErrorOf(product.status()), response);
    SendJson(200, {{"product", product->id}, {"name", product->name}, {"price_cents", product->price_cents}}, response);
  });
}

void Api::ShowStock(const std::string& text, Response& response) {
  const std::optional<ProductId> id = ParseId(text);
  if (!id) return SendError(BadProduct(), response);
  door_->Enter([&](StockadeShop* shop, HotKeyLog*) {
    if (shop == nullptr) return SendError(Closed(), response);
    const absl::StatusOr<stockade::SkuSnapshot> stock = shop->Stock(*id);
    if (!stock.ok()) return SendError(ErrorOf(stock.status()), response);
    SendJson(200,
             {{"product", *id},
              {"available", stock->available},
              {"held", stock->held},
              {"sold", stock->sold},
              {"sold_out", stock->sold_out}},
             response);
  });
}

void Api::TakeOrder(const Request& request, Response& response) {
  absl::StatusOr<Purchase> purchase = ParseOrderBody(request.body);
  if (!purchase.ok()) return SendError({400, "bad_body", std::string(purchase.status().message())}, response);
  purchase->key = request.get_header_value("Idempotency-Key");
  door_->Enter([&](StockadeShop* shop, HotKeyLog*) {
    if (shop == nullptr) return SendError(Closed(), response);
    // The other half's load has no such rivals, and the referee does not see them: it would call refusals wrong.
    if (purchase->product == board_->facts.product && board_->stockade.stage() != Stage::kDone) {
      return SendError({409, "sale_is_on", "this product is reserved for the demo's own buyers until the run ends"},
                       response);
    }
    const absl::StatusOr<stockade::Order> order = shop->Buy(*purchase);
    if (!order.ok()) return SendError(ErrorOf(order.status()), response);
    SendJson(201,
             {{"order", stockade::OrderIdText(order->id())},
              {"product", purchase->product},
              {"quantity", order->quantity()},
              {"buyer", order->buyer()}},
             response);
  });
}

void Api::TakeBack(const Request& request, Response& response) {
  absl::StatusOr<Returned> returned = ParseReturnBody(request.body);
  if (!returned.ok()) return SendError({400, "bad_body", std::string(returned.status().message())}, response);
  returned->key = request.get_header_value("Idempotency-Key");
  door_->Enter([&](StockadeShop* shop, HotKeyLog*) {
    if (shop == nullptr) return SendError(Closed(), response);
    const absl::Status taken = shop->TakeBack(*returned);
    if (absl::IsNotFound(taken)) {
      return SendError({404, "unknown_order", "the buyer has no such order, or it is no longer kept"}, response);
    }
    if (!taken.ok()) return SendError(ErrorOf(taken), response);
    SendJson(201,
             {{"order", stockade::OrderIdText(returned->order)},
              {"quantity", returned->quantity},
              {"buyer", returned->buyer}},
             response);
  });
}

}  // namespace flash_sale

#include "api.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "http_server.h"
#include "order_body.h"
#include "page.h"
#include "sale_json.h"
#include "stockade/inventory/refusal.h"
#include "stockade/metrics/metrics_registry.h"

namespace flash_sale {
namespace {

using httplib::Request;
using httplib::Response;
using nlohmann::json;

constexpr char kJson[] = "application/json";
constexpr std::string_view kProducts = "/products/";
constexpr std::string_view kStock = "/stock/";

bool IsPosted(std::string_view path) { return path == "/orders" || path == "/sales"; }

bool IsKnownPath(std::string_view path) {
  return path == "/" || path == "/api" || path == "/metrics" || path == "/sale" || IsPosted(path) ||
         path.starts_with(kProducts) || path.starts_with(kStock);
}

// Names of this machine that no DNS server can point elsewhere: a page of evil.example, whose name was
// resolved to 127.0.0.1, sends that name. The port may be another than ours, which may be forwarded.
bool IsLoopback(std::string_view authority) {
  for (const std::string_view name : {"127.0.0.1", "localhost", "[::1]"}) {
    if (!absl::EqualsIgnoreCase(std::string(authority.substr(0, name.size())), std::string(name))) continue;
    const std::string_view port = authority.substr(name.size());
    return port.empty() || (port[0] == ':' && std::all_of(port.begin() + 1, port.end(), absl::ascii_isdigit));
  }
  return false;
}

// Of a request that a page of another origin may have made in a browser on this machine.
std::optional<ApiError> RefusalOfOrigin(const Request& head) {
  if (head.get_header_value_count("Host") != 1) return ApiError{400, "bad_host", "exactly one Host is required"};
  const std::string host = head.get_header_value("Host");
  if (!IsLoopback(host)) return ApiError{403, "foreign_host", "this is served only to 127.0.0.1 and localhost"};
  if (head.get_header_value_count("Origin") > 1 ||
      (head.has_header("Origin") && !absl::EqualsIgnoreCase(head.get_header_value("Origin"), "http://" + host))) {
    return ApiError{403, "foreign_origin", "this is served only to its own page"};
  }
  return std::nullopt;
}

bool IsReading(const Request& request) { return request.method == "GET" || request.method == "HEAD"; }

bool IsJson(const std::string& content_type) {
  const std::string type = content_type.substr(0, content_type.find(';'));
  return absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(type), kJson);
}

std::optional<ApiError> RefusalOfBody(const Request& head) {
  if (head.has_header("Transfer-Encoding") || !head.has_header("Content-Length")) {
    return ApiError{411, "length_required", "a Content-Length is required"};
  }
  const std::string length = head.get_header_value("Content-Length");
  size_t bytes = 0;
  const auto [rest, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
  if (error == std::errc::result_out_of_range || (error == std::errc() && bytes > HttpServer::kMostBodyBytes)) {
    return ApiError{413, "body_too_large", "the body has more than 4096 bytes"};
  }
  if (head.get_header_value_count("Content-Length") > 1 || error != std::errc() ||
      rest != length.data() + length.size()) {
    return ApiError{400, "bad_length", "Content-Length is not a number"};
  }
  if (head.get_header_value_count("Content-Type") > 1) {
    return ApiError{400, "bad_type", "there is more than one Content-Type"};
  }
  if (head.has_header("Content-Encoding") || !IsJson(head.get_header_value("Content-Type"))) {
    return ApiError{415, "not_json", "the body must be application/json"};
  }
  return std::nullopt;
}

std::optional<ProductId> ParseId(const std::string& text) {
  ProductId id = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || rest != end || id > static_cast<ProductId>(INT64_MAX)) return std::nullopt;
  return id;
}

void Send(int status, const json& body, Response& response) {
  response.status = status;
  // Text that is not UTF-8, in a user's catalogue, is no reason to fail.
  response.set_content(body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n", kJson);
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
    case Refusal::kUnavailable: return {503, "ledger_unavailable", "the order cannot be recorded now"};
    default: break;
  }
  if (absl::IsNotFound(status)) return {404, "unknown_product", "there is no such product"};
  std::fprintf(stderr, "flash_sale: %s\n", std::string(status.message()).c_str());
  return {500, "internal", "internal error"};
}

// Cut off from what the page may ask for: this server alone.
void ShowPage(Response& response) {
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                      "img-src data:");
  response.set_content(kPage, "text/html; charset=utf-8");
}

void ShowMetrics(Response& response) {
  response.set_content(prometheus::TextSerializer().Serialize(stockade::MetricsRegistry::Default()->Collect()),
                       "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace

std::optional<ApiError> Api::Refusal(const Request& head) {
  if (auto foreign = RefusalOfOrigin(head)) return foreign;
  if (!IsKnownPath(head.path)) return ApiError{404, "not_found", "there is nothing at this path"};
  if (!IsPosted(head.path)) {
    if (!IsReading(head)) return ApiError{405, "method_not_allowed", "this is read-only", "GET, HEAD"};
    if (MayHaveBody(head)) return ApiError{400, "unexpected_body", "this takes no body"};
    return std::nullopt;
  }
  if (head.method != "POST")
    return ApiError{405, "method_not_allowed", "orders and sales need the method POST", "POST"};
  if (auto refused = RefusalOfBody(head)) return refused;
  if (head.path == "/sales") return std::nullopt;
  if (head.get_header_value_count("Idempotency-Key") != 1 || !IsToken(head.get_header_value("Idempotency-Key"))) {
    return ApiError{400, "bad_key", "an Idempotency-Key of 1 to 64 printable characters without blanks is required"};
  }
  return std::nullopt;
}

bool Api::MayHaveBody(const Request& head) {
  return !IsReading(head) || head.has_header("Transfer-Encoding") ||
         head.get_header_value_count("Content-Length") > 1 ||
         (head.has_header("Content-Length") && head.get_header_value("Content-Length") != "0");
}

void Api::Answer(const ApiError& error, Response& response) {
  if (error.allow != nullptr) response.set_header("Allow", error.allow);
  if (error.status == 503) response.set_header("Retry-After", "1");
  Send(error.status, {{"error", {{"code", error.code}, {"message", error.message}}}}, response);
}

void Api::Respond(const Request& request, Response& response) {
  response.set_header("Cache-Control", "no-store");
  response.set_header("X-Content-Type-Options", "nosniff");
  const std::string& path = request.path;
  if (path == "/") {
    ShowPage(response);
  } else if (path == "/api") {
    response.set_content(kApiText, "text/plain; charset=utf-8");
  } else if (path == "/metrics") {
    ShowMetrics(response);
  } else if (path == "/sale") {
    ShowSale(response);
  } else if (path == "/orders") {
    TakeOrder(request, response);
  } else if (path == "/sales") {
    StartSale(request, response);
  } else if (path.starts_with(kProducts)) {
    ShowProduct(path.substr(kProducts.size()), response);
  } else {
    ShowStock(path.substr(kStock.size()), response);
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
  if (!id) return Answer(BadProduct(), response);
  door_->Enter([&](StockadeShop* shop, HotKeyLog* log) {
    if (shop == nullptr) return Answer(Closed(), response);
    std::optional<HotKeyLog::View> hot_view;
    if (*id == board_->facts.product) hot_view.emplace(*log);
    const absl::StatusOr<Product> product = shop->View(*id);
    if (!product.ok()) return Answer(ErrorOf(product.status()), response);
    Send(200, {{"product", product->id}, {"name", product->name}, {"price_cents", product->price_cents}}, response);
  });
}

void Api::ShowStock(const std::string& text, Response& response) {
  const std::optional<ProductId> id = ParseId(text);
  if (!id) return Answer(BadProduct(), response);
  door_->Enter([&](StockadeShop* shop, HotKeyLog*) {
    if (shop == nullptr) return Answer(Closed(), response);
    const absl::StatusOr<stockade::SkuSnapshot> stock = shop->Stock(*id);
    if (!stock.ok()) return Answer(ErrorOf(stock.status()), response);
    Send(200,
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
  if (!purchase.ok()) return Answer({400, "bad_body", std::string(purchase.status().message())}, response);
  purchase->key = request.get_header_value("Idempotency-Key");
  door_->Enter([&](StockadeShop* shop, HotKeyLog*) {
    if (shop == nullptr) return Answer(Closed(), response);
    // The other half's load has no such rivals, and the referee does not see them: it would call refusals wrong.
    if (purchase->product == board_->facts.product && board_->stockade.stage() != Stage::kDone) {
      return Answer({409, "sale_is_on", "this product is reserved for the demo's own buyers until the run ends"},
                    response);
    }
    const absl::StatusOr<stockade::Order> order = shop->Buy(*purchase);
    if (!order.ok()) return Answer(ErrorOf(order.status()), response);
    Send(201,
         {{"order", order->id()},
          {"product", purchase->product},
          {"quantity", order->quantity()},
          {"buyer", order->buyer()}},
         response);
  });
}

void Api::StartSale(const Request& request, Response& response) {
  const absl::StatusOr<absl::Duration> arrival = ParseSaleBody(request.body);
  if (!arrival.ok()) return Answer({400, "bad_body", std::string(arrival.status().message())}, response);
  const std::optional<int64_t> number = requests_->Start(*arrival);
  if (!number) return Answer({409, "sale_is_on", "a sale is running, and the next one starts after it"}, response);
  Send(202, {{"sale", *number}, {"arrival_seconds", absl::ToInt64Seconds(*arrival)}}, response);
}

}  // namespace flash_sale

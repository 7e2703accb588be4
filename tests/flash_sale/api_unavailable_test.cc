// What the API says while nothing can be ordered.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "api.h"
#include "support/file_size_limit.h"
#include "support/temp_dir.h"

namespace flash_sale {
namespace {

using stockade::testing::FileSizeLimit;
using stockade::testing::TempDir;

class FlashSaleApiUnavailableTest : public ::testing::Test {
 protected:
  httplib::Response Get(const std::string& path) {
    httplib::Request request;
    request.method = "GET";
    request.path = path;
    httplib::Response response;
    api_.Respond(request, response);
    return response;
  }

  httplib::Response Order(int number) {
    httplib::Request request;
    request.method = "POST";
    request.path = "/orders";
    request.set_header("Idempotency-Key", "key-" + std::to_string(number));
    request.body = R"({"product": 1, "buyer": "ann"})";
    httplib::Response response;
    api_.Respond(request, response);
    return response;
  }

  void OpenShop() {
    ASSERT_TRUE(MakeCatalogue(dir_.File("catalogue.db"), {1}).ok());
    catalogue_.emplace(dir_.File("catalogue.db"), 1, &log_);
    auto shop = StockadeShop::Create({.ledger_path = dir_.File("ledger.db"),
                                      .ack_log_path = dir_.File("acknowledged.log"),
                                      .hot = 1,
                                      .hot_ttl = absl::Seconds(1),
                                      .stock = 1'000,
                                      .shards = 2},
                                     &*catalogue_);
    ASSERT_TRUE(shop.ok()) << shop.status();
    shop_ = *std::move(shop);
    door_.Open(shop_.get(), &log_);
  }

  static void ExpectUnavailable(const httplib::Response& response, const std::string& code) {
    EXPECT_EQ(response.status, 503) << response.body;
    EXPECT_EQ(nlohmann::json::parse(response.body, nullptr, false)["error"]["code"], code);
    EXPECT_EQ(response.get_header_value("Retry-After"), "1");
  }

  const TempDir dir_;
  SaleBoard board_{{.product = 1, .stock = 1'000}};
  HotKeyLog log_{absl::Seconds(1)};
  std::optional<Catalogue> catalogue_;
  std::unique_ptr<StockadeShop> shop_;
  ShopDoor door_;
  examples::SaleRequests requests_;
  Api api_{&board_, &door_, &requests_};
};

TEST_F(FlashSaleApiUnavailableTest, Request_WhileTheShopIsClosed_IsAskedToComeBack) {
  ExpectUnavailable(Order(1), "closed");
  ExpectUnavailable(Get("/products/1"), "closed");
  ExpectUnavailable(Get("/stock/1"), "closed");
  EXPECT_TRUE(nlohmann::json::parse(Get("/sale").body)["shards"].is_null());
}

// It would take from the load's buyers what the naive half's have, and the referee would call their refusals wrong.
TEST_F(FlashSaleApiUnavailableTest, OrderOfTheSalesProduct_BeforeTheRunIsDone_TakesNothing) {
  OpenShop();
  for (const Stage stage : {Stage::kWaits, Stage::kPageViews, Stage::kSale, Stage::kAudit}) {
    board_.stockade.SetStage(stage);
    const httplib::Response response = Order(1);
    EXPECT_EQ(response.status, 409) << response.body;
    EXPECT_EQ(nlohmann::json::parse(response.body)["error"]["code"], "sale_is_on");
  }
  EXPECT_EQ(nlohmann::json::parse(Get("/stock/1").body)["sold"], 0);
  board_.stockade.SetStage(Stage::kDone);
  EXPECT_EQ(Order(1).status, 201);
}

TEST_F(FlashSaleApiUnavailableTest, StartOfASale_BeforeTheFirstOneIsOver_IsRefused) {
  httplib::Request request;
  request.method = "POST";
  request.path = "/sales";
  request.body = "{}";
  for (const bool over : {false, true, false}) {
    if (over) requests_.Open();
    EXPECT_EQ(nlohmann::json::parse(Get("/sale").body)["can_start"], over);
    httplib::Response response;
    api_.Respond(request, response);
    EXPECT_EQ(response.status, over ? 202 : 409) << response.body;
  }
  EXPECT_EQ(requests_.Take().number, 2);
}

TEST_F(FlashSaleApiUnavailableTest, Order_WhileTheDiskIsFull_TakesNothingAndMayBeTriedAgain) {
  OpenShop();
  board_.stockade.SetStage(Stage::kDone);
  int number = 0;
  httplib::Response response;
  {
    const FileSizeLimit limit(rlim_t{256} * 1024);
    // 4 KiB of the ledger's log each, at least.
    do {
      response = Order(++number);
    } while (response.status == 201 && number < 900);
  }
  EXPECT_GT(number, 1);
  ExpectUnavailable(response, "ledger_unavailable");
  EXPECT_EQ(nlohmann::json::parse(Get("/stock/1").body)["sold"], number - 1);
  EXPECT_EQ(Order(number).status, 201);
  EXPECT_EQ(nlohmann::json::parse(Get("/stock/1").body)["sold"], number);
}

}  // namespace
}  // namespace flash_sale

// The API of --serve, over real connections.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "flash_sale/demo.h"
#include "flash_sale/http.h"
#include "stockade/inventory/order.h"
#include "support/needs_program.h"
#include "support/run_threads.h"

namespace stockade::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kJson[] = "application/json";

// One program for all of these, after its halves and its audit.
class FlashSaleApiTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<TempDir>();
    demo_ = std::make_unique<Subprocess>(
        SmallRun(dir_->File("run"), {"--seconds", "1", "--buyers", "400", "--viewers", "4", "--serve"}));
    ASSERT_TRUE(demo_->AwaitOutput("\naudit: ")) << demo_->out() << demo_->err();
    port_ = PortOf(*demo_);
    product_on_sale_ = json::parse(httplib::Client("127.0.0.1", port_).Get("/sale")->body)["product"];
    // Any other product of the Zipf trace's, where 1 is the one on sale.
    ASSERT_EQ(product_on_sale_, 1);
  }
  static void TearDownTestSuite() {
    demo_->Kill(SIGTERM);
    EXPECT_EQ(demo_->Wait(), 0) << demo_->err();
    // All errors inside would be reported there.
    EXPECT_THAT(demo_->err(), Not(HasSubstr("flash_sale: ")));
    demo_.reset();
    dir_.reset();
  }

  static httplib::Client NewClient() {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(30);
    client.set_keep_alive(true);
    return client;
  }

  static json Body(int64_t product, int64_t quantity = 1, const std::string& buyer = "ann") {
    return {{"product", product}, {"quantity", quantity}, {"buyer", buyer}};
  }

  static httplib::Result Order(const std::string& key, const std::string& body, const std::string& type = kJson) {
    return NewClient().Post("/orders", {{"Idempotency-Key", key}}, body, type);
  }
  static httplib::Result Order(const std::string& key, const json& body) { return Order(key, body.dump()); }

  static httplib::Result Return(const std::string& key, const json& body) {
    return NewClient().Post("/returns", {{"Idempotency-Key", key}}, body.dump(), kJson);
  }

  static int64_t Sold(int64_t product) {
    return json::parse(NewClient().Get("/stock/" + std::to_string(product))->body)["sold"];
  }

  // The status, the code, and nothing that was not meant for the client.
  static void ExpectError(const httplib::Result& result, int status, const std::string& code) {
    ASSERT_TRUE(result) << to_string(result.error());
    SCOPED_TRACE(result->body);
    EXPECT_EQ(result->status, status);
    EXPECT_EQ(result->get_header_value("Content-Type"), kJson);
    const json body = json::parse(result->body, nullptr, false);
    ASSERT_TRUE(body.is_object() && body.size() == 1 && body.contains("error"));
    EXPECT_EQ(body["error"]["code"], code);
    EXPECT_THAT(body["error"]["message"].get<std::string>(), Not(IsEmpty()));
    EXPECT_THAT(result->body, Not(HasSubstr(dir_->path())));
  }
  static void ExpectRawError(const std::string& request, const std::string& status) {
    const std::string answer = RawAnswer(port_, request);
    SCOPED_TRACE(request.substr(0, 100));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + status + " "));
    EXPECT_THAT(answer, HasSubstr("\r\nConnection: close\r\n"));
    EXPECT_TRUE(json::parse(BodyOf(answer), nullptr, false).contains("error")) << answer;
  }

  static inline std::unique_ptr<TempDir> dir_;
  static inline std::unique_ptr<Subprocess> demo_;
  static inline uint16_t port_ = 0;
  static inline int64_t product_on_sale_ = 0;
};

TEST_F(FlashSaleApiTest, Product_ThereOrNot_IsShownOrNotFound) {
  httplib::Client client = NewClient();
  const auto found = client.Get("/products/17");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->status, 200);
  EXPECT_EQ(json::parse(found->body), (json{{"product", 17}, {"name", "Product 17"}, {"price_cents", 1016}}));
  ExpectError(client.Get("/products/999999999"), 404, "unknown_product");
  ExpectError(client.Get("/stock/999999999"), 404, "unknown_product");
  for (const char* const id : {"", "x", "-1", "1x", "1/2", "99999999999999999999", "%00", "1%20"}) {
    ExpectError(client.Get(std::string("/products/") + id), 400, "bad_product");
    ExpectError(client.Get(std::string("/stock/") + id), 400, "bad_product");
  }
}

TEST_F(FlashSaleApiTest, Order_New_SellsOnce) {
  const auto first = Order("once", Body(20, 3));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 201) << first->body;
  const json order = json::parse(first->body);
  EXPECT_EQ(order["product"], 20);
  EXPECT_EQ(order["quantity"], 3);
  EXPECT_EQ(order["buyer"], "ann");
  EXPECT_TRUE(ParseOrderId(order["order"].get<std::string>()).ok()) << order;
  EXPECT_EQ(Sold(20), 3);

  const auto again = Order("once", Body(20, 3));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->status, 201);
  EXPECT_EQ(again->body, first->body);
  EXPECT_EQ(Sold(20), 3);
}

TEST_F(FlashSaleApiTest, Order_KeyWithAnotherBody_IsRefused) {
  ASSERT_EQ(Order("reused", Body(21))->status, 201);
  ExpectError(Order("reused", Body(21, 2)), 422, "key_reused");
  ExpectError(Order("reused", Body(22)), 422, "key_reused");
  ExpectError(Order("reused", Body(21, 1, "bob")), 422, "key_reused");
  EXPECT_EQ(Sold(21), 1);
}

TEST_F(FlashSaleApiTest, Order_SameKeyAtOnce_IsOneOrder) {
  constexpr int kTimes = 8;
  std::vector<std::string> answers(kTimes);
  RunThreads(kTimes, [&](int i) {
    const auto answer = Order("at-once", Body(23));
    if (answer && answer->status == 201) answers[static_cast<size_t>(i)] = answer->body;
  });
  EXPECT_THAT(answers, ::testing::Each(::testing::AllOf(Not(IsEmpty()), answers[0])));
  EXPECT_EQ(Sold(23), 1);
}

TEST_F(FlashSaleApiTest, Order_OfWhatIsSoldOut_IsAConflict) {
  ExpectError(Order("late", Body(product_on_sale_)), 409, "sold_out");
  const json stock = json::parse(NewClient().Get("/stock/1")->body);
  EXPECT_EQ(stock["sold"], 200);
  EXPECT_EQ(stock["available"], 0);
  EXPECT_EQ(stock["sold_out"], true);
}

TEST_F(FlashSaleApiTest, Order_BeyondTheBuyersLimit_IsAConflict) {
  ASSERT_EQ(Order("ten", Body(24, 10))->status, 201);
  ExpectError(Order("eleventh", Body(24)), 409, "buyer_limit");
  EXPECT_EQ(Order("eleventh", Body(24, 1, "bob"))->status, 201);
  EXPECT_EQ(Sold(24), 11);
}

TEST_F(FlashSaleApiTest, Return_IsOnTheShelfAgainAndFreesTheLimit_Once) {
  const std::string order = json::parse(Order("to-return", Body(60, 10))->body)["order"];
  ExpectError(Order("over", Body(60)), 409, "buyer_limit");
  const auto first = Return("back", {{"order", order}, {"quantity", 4}, {"buyer", "ann"}});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->status, 201) << first->body;
  EXPECT_EQ(json::parse(first->body), (json{{"order", order}, {"quantity", 4}, {"buyer", "ann"}}));
  EXPECT_EQ(Sold(60), 6);
  EXPECT_EQ(Return("back", {{"order", order}, {"quantity", 4}, {"buyer", "ann"}})->body, first->body);
  EXPECT_EQ(Sold(60), 6);
  EXPECT_EQ(Order("over", Body(60))->status, 201);

  ExpectError(Return("back", {{"order", order}, {"quantity", 3}, {"buyer", "ann"}}), 422, "key_reused");
  ExpectError(Return("over", {{"order", order}, {"buyer", "ann"}}), 422, "key_reused");
  ExpectError(Return("more", {{"order", order}, {"quantity", 7}, {"buyer", "ann"}}), 409, "too_many");
  ExpectError(Return("more", {{"order", order}, {"buyer", "bob"}}), 404, "unknown_order");
  ExpectError(Return("more", {{"order", "18446744073709551615"}, {"buyer", "ann"}}), 404, "unknown_order");
  EXPECT_EQ(Return("more", {{"order", order}, {"quantity", 6}, {"buyer", "ann"}})->status, 201);
  EXPECT_EQ(Sold(60), 1);
}

TEST_F(FlashSaleApiTest, Return_WithABodyThatIsNone_IsRefused) {
  const std::vector<json> bodies = {json::object(),
                                    {{"order", "1"}},
                                    {{"buyer", "ann"}},
                                    {{"order", 1}, {"buyer", "ann"}},
                                    {{"order", "0"}, {"buyer", "ann"}},
                                    {{"order", "01"}, {"buyer", "ann"}},
                                    {{"order", "18446744073709551616"}, {"buyer", "ann"}},
                                    {{"order", nullptr}, {"buyer", "ann"}},
                                    {{"order", "1"}, {"buyer", ""}},
                                    {{"order", "1"}, {"buyer", "ann"}, {"quantity", 0}},
                                    {{"order", "1"}, {"buyer", "ann"}, {"quantity", 1001}},
                                    {{"order", "1"}, {"buyer", "ann"}, {"product", 1}}};
  for (const json& body : bodies) ExpectError(Return("bad-return", body), 400, "bad_body");
  ExpectError(NewClient().Post("/returns", "{}", kJson), 400, "bad_key");
}

TEST_F(FlashSaleApiTest, Order_OfAnUnknownProduct_IsNotFound) {
  ExpectError(Order("unknown", Body(999999999)), 404, "unknown_product");
}

TEST_F(FlashSaleApiTest, Order_WithoutAKeyThatIsOne_IsRefused) {
  ExpectError(NewClient().Post("/orders", Body(25).dump(), kJson), 400, "bad_key");
  for (const std::string& key :
       {std::string(""), std::string("two words"), std::string(65, 'k'), std::string("\x80")}) {
    ExpectError(Order(key, Body(25)), 400, "bad_key");
  }
  const httplib::Headers two = {{"Idempotency-Key", "a"}, {"Idempotency-Key", "b"}};
  ExpectError(NewClient().Post("/orders", two, Body(25).dump(), kJson), 400, "bad_key");
  EXPECT_EQ(Order(std::string(64, 'k'), Body(25))->status, 201);
  EXPECT_EQ(Sold(25), 1);
}

TEST_F(FlashSaleApiTest, Order_WithABodyThatIsNone_IsRefused) {
  const std::vector<std::string> bodies = {
      "",
      "{",
      "null",
      "[]",
      "7",
      "\"text\"",
      "{}",
      R"({"product": 26})",
      R"({"buyer": "ann"})",
      R"({"product": "26", "buyer": "ann"})",
      R"({"product": -26, "buyer": "ann"})",
      R"({"product": 26.5, "buyer": "ann"})",
      R"({"product": 1e400, "buyer": "ann"})",
      R"({"product": 99999999999999999999, "buyer": "ann"})",
      R"({"product": null, "buyer": "ann"})",
      R"({"product": 26, "buyer": "ann", "quantity": 0})",
      R"({"product": 26, "buyer": "ann", "quantity": -1})",
      R"({"product": 26, "buyer": "ann", "quantity": 1001})",
      R"({"product": 26, "buyer": "ann", "quantity": 9223372036854775808})",
      R"({"product": 26, "buyer": "ann", "quantity": true})",
      R"({"product": 26, "buyer": ""})",
      R"({"product": 26, "buyer": "a b"})",
      R"({"product": 26, "buyer": "a\u0000b"})",
      R"({"product": 26, "buyer": 7})",
      R"({"product": 26, "buyer": "ann", "price": 1})",
      R"({"product": {"id": 26}, "buyer": "ann"})",
      R"({"product": 27, "product": 26, "buyer": "ann"})",
      R"({"product": 26, "buyer": "ann"} trailing)",
      R"({"product": 26, "buyer": ")" + std::string(65, 'b') + "\"}",
      "{\"product\": 26, \"buyer\": \"\xff\"}",
      "\xef\xbb\xbf{\"product\": 26, \"buyer\": \"ann\"}",
      std::string(4096, '['),
      // The parser takes a NUL for the end.
      std::string(R"({"product": 26, "buyer": "ann"})") + '\0',
      std::string(R"({"product": 26, "buyer": "ann"})") + '\0' + R"(, "product": 27})",
      std::string(1, '\0') + R"({"product": 26, "buyer": "ann"})",
  };
  for (const std::string& body : bodies) ExpectError(Order("bad-body", body), 400, "bad_body");
  EXPECT_EQ(Sold(26), 0);
}

TEST_F(FlashSaleApiTest, Order_ThatIsNoPlainJson_IsUnsupported) {
  ExpectError(Order("type", Body(27).dump(), "text/plain"), 415, "not_json");
  ExpectError(Order("type", "product=27", "application/x-www-form-urlencoded"), 415, "not_json");
  const std::string order = "POST /orders HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: type\r\nContent-Length: " +
                            std::to_string(Body(27).dump().size()) + "\r\n";
  const std::string body = "\r\n" + Body(27).dump();
  ExpectRawError(order + "Content-Type: application/json\r\nContent-Type: text/plain\r\n" + body, "400");
  ExpectRawError(order + "Content-Type: text/plain\r\nContent-Type: application/json\r\n" + body, "400");
  ExpectRawError(order + body, "415");
  const httplib::Headers packed = {{"Idempotency-Key", "type"}, {"Content-Encoding", "gzip"}};
  ExpectError(NewClient().Post("/orders", packed, Body(27).dump(), kJson), 415, "not_json");
  EXPECT_EQ(Order("type", Body(27).dump(), "Application/JSON; charset=utf-8")->status, 201);
}

TEST_F(FlashSaleApiTest, Order_TooLarge_IsRefusedUnread) {
  for (const size_t size : {4'097u, 60'000u, 1'000'000u}) {
    ExpectError(Order("large", std::string(size, ' ')), 413, "body_too_large");
  }
  EXPECT_EQ(Order("large", Body(28).dump() + std::string(4'000, ' '))->status, 201);
}

TEST_F(FlashSaleApiTest, Request_OfAnotherMethodOrPath_IsRefused) {
  httplib::Client client = NewClient();
  for (const char* const path : {"/orders", "/returns", "/sales"}) {
    const auto got = client.Get(path);
    ASSERT_TRUE(got);
    ExpectError(got, 405, "method_not_allowed");
    EXPECT_EQ(got->get_header_value("Allow"), "POST");
  }
  for (const char* const path : {"/", "/api", "/metrics", "/sale", "/products/1", "/stock/1"}) {
    const auto posted = client.Post(path, "{}", kJson);
    ASSERT_TRUE(posted);
    ExpectError(posted, 405, "method_not_allowed");
    EXPECT_EQ(posted->get_header_value("Allow"), "GET, HEAD");
  }
  for (const char* const path : {"/nothing", "/products", "/orders/1", "/../etc/passwd", "//"}) {
    ExpectError(client.Get(path), 404, "not_found");
  }
  EXPECT_EQ(client.Head("/sale")->status, 200);
}

// A page of another site, whose name its owner lets point to 127.0.0.1 once the browser has loaded it.
TEST_F(FlashSaleApiTest, Request_OfAnotherSite_IsRefused) {
  const std::string order = Body(32).dump();
  for (const std::string host : {"evil.example", "evil.example:9464", "127.0.0.1.evil.example",
                                 "localhost.evil.example", "127.0.0.1:9464@evil.example", "127.0.0.1:1x", "0.0.0.0"}) {
    SCOPED_TRACE(host);
    ExpectError(NewClient().Post("/orders", {{"Host", host}, {"Idempotency-Key", "rebound"}}, order, kJson), 403,
                "foreign_host");
    for (const char* const path : {"/", "/metrics", "/sale", "/stock/32", "/products/32"}) {
      ExpectError(NewClient().Get(path, {{"Host", host}}), 403, "foreign_host");
    }
  }
  const std::string self = "127.0.0.1:" + std::to_string(port_);
  for (const std::string& origin :
       std::vector<std::string>{"http://evil.example", "null", "https://" + self, "http://127.0.0.1",
                                "http://localhost:" + std::to_string(port_)}) {
    SCOPED_TRACE(origin);
    const httplib::Headers headers = {{"Origin", origin}, {"Idempotency-Key", "foreign"}};
    ExpectError(NewClient().Post("/orders", headers, order, kJson), 403, "foreign_origin");
  }
  const httplib::Headers two = {{"Origin", "http://" + self}, {"Origin", "http://evil.example"}};
  ExpectError(NewClient().Get("/sale", two), 403, "foreign_origin");
  EXPECT_EQ(Sold(32), 0);

  const std::string close = "Connection: close\r\n\r\n";
  ExpectRawError("GET /sale HTTP/1.1\r\n" + close, "400");
  ExpectRawError("GET /sale HTTP/1.0\r\n" + close, "400");
  ExpectRawError("GET /sale HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n" + close, "400");
  // Nothing is decoded before it is compared, and an empty one is one.
  ExpectRawError("GET /sale HTTP/1.1\r\nHost: %31%32%37.0.0.1\r\n" + close, "403");
  ExpectRawError("GET /sale HTTP/1.1\r\nHost:\r\n" + close, "403");
  for (const char* const origin : {"", " ", "%68ttp://localhost", "http%3A//localhost"}) {
    ExpectRawError(std::string("GET /sale HTTP/1.1\r\nHost: localhost\r\nOrigin:") + origin + "\r\n" + close, "403");
  }
}

TEST_F(FlashSaleApiTest, Request_OfItsOwnPage_IsAnswered) {
  const std::string port = std::to_string(port_);
  for (const std::string& host :
       std::vector<std::string>{"127.0.0.1:" + port, "localhost:" + port, "LocalHost", "[::1]:8080"}) {
    const httplib::Headers headers = {{"Host", host}, {"Origin", "http://" + host}, {"Idempotency-Key", "own-" + host}};
    const auto ordered = NewClient().Post("/orders", headers, Body(33).dump(), kJson);
    ASSERT_TRUE(ordered);
    EXPECT_EQ(ordered->status, 201) << host << ordered->body;
  }
  EXPECT_EQ(Sold(33), 4);
}

TEST_F(FlashSaleApiTest, Request_ThatIsNoneOrWithoutEnd_IsRefused) {
  const std::string order =
      "POST /orders HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: raw\r\nContent-Type: application/json\r\n";
  const std::string get = "GET /sale HTTP/1.1\r\nHost: localhost\r\n";
  ExpectRawError("nonsense\r\n\r\n", "400");
  ExpectRawError("GET / HTTP/9.9\r\n\r\n", "400");
  ExpectRawError("BREW / HTTP/1.1\r\n\r\n", "400");
  ExpectRawError(order + "\r\n", "411");
  ExpectRawError(order + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n", "411");
  ExpectRawError(order + "Content-Length: 2x\r\n\r\n{}", "400");
  ExpectRawError(order + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "400");
  ExpectRawError(order + "Content-Length: 99999999999999999999\r\n\r\n{}", "413");
  ExpectRawError(get + "Content-Length: 2\r\n\r\n{}", "400");
  ExpectRawError(get + "Content-Length: 0\r\nContent-Length: 2\r\n\r\n{}", "400");
  ExpectRawError("GET /" + std::string(10'000, 'a') + " HTTP/1.1\r\n\r\n", "414");
  ExpectRawError(std::string(100'000, 'a'), "431");
  ExpectRawError(get + "X: " + std::string(20'000, 'a') + "\r\n\r\n", "431");
  std::string endless = get;
  while (endless.size() < 100'000) endless += "X: " + std::string(1'000, 'a') + "\r\n";
  ExpectRawError(endless, "431");
}

// What another server or a proxy might read in another way.
TEST_F(FlashSaleApiTest, Request_WithAHeaderThatIsNone_IsRefused) {
  const std::string order =
      "POST /orders HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: raw\r\nContent-Type: application/json\r\n";
  const std::string body = Body(34).dump();
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
  for (const std::string& line :
       {std::string("Origin http://evil.example\r\n"), std::string(" folded\r\n"), std::string("\tfolded\r\n"),
        std::string("Content-Length : 3\r\n"), std::string("Transfer-Encoding\t: chunked\r\n"), std::string(": x\r\n"),
        std::string("X\0Y: z\r\n", 8), std::string("X: a\0b\r\n", 8), std::string("X: a\rb\r\n"),
        std::string("Origin: http://evil.example\n"), std::string("X(: y\r\n"), std::string("\xc3\xa4: y\r\n")}) {
    SCOPED_TRACE(line);
    ExpectRawError(order + length + line + "\r\n" + body, "400");
    ExpectRawError(order + line + length + "\r\n" + body, "400");
  }
  EXPECT_EQ(Sold(34), 0);
  const std::string close = "Connection: close\r\n";
  const std::string answer = RawAnswer(port_, order + length + close + "X-Empty:\r\nX!: \t a\xff \t\r\n\r\n" + body);
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 201 "));
}

TEST_F(FlashSaleApiTest, Order_KeyWithAPercentSign_IsNotDecoded) {
  EXPECT_EQ(Order("%41", Body(35))->status, 201);
  EXPECT_EQ(Order("A", Body(35))->status, 201);
  EXPECT_EQ(Sold(35), 2);
}

TEST_F(FlashSaleApiTest, Range_OfThePageManyTimes_IsIgnored) {
  httplib::Headers many = {{"Range", "bytes=0-"}};
  for (int i = 0; i < 100; ++i) many.begin()->second += ",0-";
  const auto page = NewClient().Get("/", many);
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_LT(page->body.size(), 100'000u);
}

TEST_F(FlashSaleApiTest, Connection_WithTwoRequestsAtOnce_AnswersBoth) {
  const std::string answer = RawAnswer(port_,
                                       "GET /products/30 HTTP/1.1\r\nHost: localhost\r\n\r\nGET /stock/30 "
                                       "HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Product 30"));
  EXPECT_THAT(answer, HasSubstr("sold_out"));
}

TEST_F(FlashSaleApiTest, SlowClients_WhileTheySend_BlockNobody) {
  std::vector<std::unique_ptr<RawConnection>> slow;
  for (int i = 0; i < 60; ++i) {
    slow.push_back(std::make_unique<RawConnection>(port_));
    ASSERT_TRUE(slow.back()->connected());
    ASSERT_TRUE(slow.back()->Send("POST /orders HTTP/1.1\r\nContent-Length: 4000\r\n"));
  }
  const auto answer = NewClient().Get("/products/31");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  // They do not keep a thread for ever, either: the server ends a request that takes too long.
  EXPECT_THAT(slow.front()->ReadToEnd(), StartsWith("HTTP/1.1 400 "));
}

TEST_F(FlashSaleApiTest, Description_OfTheApi_NamesEveryPath) {
  const auto description = NewClient().Get("/api");
  ASSERT_TRUE(description);
  EXPECT_EQ(description->status, 200);
  EXPECT_THAT(description->get_header_value("Content-Type"), StartsWith("text/plain"));
  EXPECT_THAT(description->body, StartsWith("## The API\n"));
  for (const char* const request :
       {"GET /products/ID", "GET /stock/ID", "POST /orders", "GET /sale", "POST /sales", "GET /metrics", "GET /api"}) {
    EXPECT_THAT(description->body, HasSubstr("`" + std::string(request) + "`"));
  }
}

TEST_F(FlashSaleApiTest, Metrics_OfThePage_SatisfyPromtool) {
  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  const RunResult check = RunToEnd({"promtool", "check", "metrics"}, Scrape(port_));
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.out + check.err, "");
}

TEST(FlashSaleServeTest, TermSignal_WithOpenConnections_WaitsForNone) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run"), {"--seconds", "1", "--buyers", "400", "--viewers", "4", "--serve"}));
  ASSERT_TRUE(demo.AwaitOutput("\naudit: ")) << demo.out() << demo.err();
  RawConnection idle(PortOf(demo)), slow(PortOf(demo));
  httplib::Client used("127.0.0.1", PortOf(demo));
  used.set_keep_alive(true);
  ASSERT_TRUE(used.Get("/sale"));
  ASSERT_TRUE(slow.Send("POST /orders HTTP/1.1\r\n"));
  const std::string order = R"({"product": 5, "buyer": "ann"})";
  ASSERT_EQ(used.Post("/orders", {{"Idempotency-Key", "last"}}, order, kJson)->status, 201);

  const auto asked = std::chrono::steady_clock::now();
  demo.Kill(SIGTERM);
  EXPECT_EQ(demo.Wait(), 0) << demo.err();
  // The one that is idle has 75 seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(60));
  EXPECT_TRUE(ParseAudit(LastLine(demo.out())).has_value()) << demo.out();

  // The API's answers are in the ledger, like the answers to the sale's buyers.
  const RunResult audit = RunDemo({"--audit", dir.File("run")});
  EXPECT_EQ(audit.status, 0) << audit.err;
}

}  // namespace
}  // namespace stockade::testing

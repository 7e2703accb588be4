// POST /sales: sales that are started while the program serves.

#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "flash_sale/demo.h"
#include "flash_sale/http.h"
#include "support/await.h"
#include "support/run_threads.h"

namespace stockade::testing {
namespace {

using nlohmann::json;
constexpr char kJson[] = "application/json";

// The first sale of the program is over when a test begins.
class FlashSaleSalesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(demo_.AwaitOutput("\naudit: ")) << demo_.out() << demo_.err();
    port_ = PortOf(demo_);
    ASSERT_EQ(Sale()["number"], 1);
    ASSERT_EQ(Sale()["can_start"], true);
  }

  httplib::Client NewClient() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(30);
    return client;
  }
  httplib::Result Start(const std::string& body, const httplib::Headers& headers = {},
                        const std::string& type = kJson) const {
    return NewClient().Post("/sales", headers, body, type);
  }
  httplib::Result Order(const std::string& key, const std::string& body) const {
    return NewClient().Post("/orders", {{"Idempotency-Key", key}}, body, kJson);
  }
  json Sale() const { return json::parse(NewClient().Get("/sale")->body); }
  json Stock(int product) const { return json::parse(NewClient().Get("/stock/" + std::to_string(product))->body); }
  void AwaitEndOfSale(int number) const {
    Await("the end of a sale", [&] {
      const json sale = Sale();
      return sale["number"] == number && sale["can_start"] == true;
    });
  }

  static void ExpectError(const httplib::Result& result, int status, const std::string& code) {
    ASSERT_TRUE(result) << to_string(result.error());
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_EQ(json::parse(result->body, nullptr, false)["error"]["code"], code);
  }

  const TempDir dir_;
  Subprocess demo_{SmallRun(dir_.File("run"), {"--seconds", "1", "--buyers", "400", "--viewers", "4", "--serve"})};
  uint16_t port_ = 0;
};

TEST_F(FlashSaleSalesTest, Start_ThatIsNotAllowed_StartsNothing) {
  for (const char* const method : {"GET", "HEAD", "PUT", "DELETE", "PATCH"}) {
    SCOPED_TRACE(method);
    httplib::Request request;
    request.method = method;
    request.path = "/sales";
    const auto answer = NewClient().send(request);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 405);
    EXPECT_EQ(answer->get_header_value("Allow"), "POST");
  }
  const std::string self = "127.0.0.1:" + std::to_string(port_);
  ExpectError(Start("{}", {{"Host", "evil.example"}}), 403, "foreign_host");
  for (const std::string& origin : std::vector<std::string>{"http://evil.example", "null", "https://" + self}) {
    ExpectError(Start("{}", {{"Origin", origin}}), 403, "foreign_origin");
  }
  // What a form of another page can send without a question to this server.
  for (const char* const type : {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}) {
    ExpectError(Start("{}", {}, type), 415, "not_json");
  }
  ExpectError(Start("{}" + std::string(5'000, ' ')), 413, "body_too_large");
  for (const char* const body :
       {"", "[]", "7", "{", R"({"arrival_seconds": 61})", R"({"arrival_seconds": -1})", R"({"arrival_seconds": 1.5})",
        R"({"arrival_seconds": "1"})", R"({"arrival_seconds": 1, "arrival_seconds": 2})", R"({"buyers": 1})",
        R"({"arrival_seconds": [1]})"}) {
    SCOPED_TRACE(body);
    ExpectError(Start(body), 400, "bad_body");
  }
  EXPECT_EQ(Sale()["number"], 1);
  EXPECT_EQ(Sale()["can_start"], true);
}

TEST_F(FlashSaleSalesTest, Start_ManyAtOnce_StartsOneSaleAndRefusesTheOthers) {
  std::atomic<int> started{0}, refused{0};
  RunThreads(16, [&](int) {
    const auto answer = Start("{}");
    if (answer && answer->status == 202) ++started;
    if (answer && answer->status == 409) ++refused;
  });
  EXPECT_EQ(started, 1);
  EXPECT_EQ(refused, 15);
  // Until it is over.
  for (int i = 0; i < 5; ++i) ExpectError(Start("{}"), 409, "sale_is_on");
  EXPECT_EQ(Sale()["can_start"], false);
  AwaitEndOfSale(2);
  const auto next = Start("{}");
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, 202);
  EXPECT_EQ(json::parse(next->body), (json{{"sale", 3}, {"arrival_seconds", 0}}));
}

TEST_F(FlashSaleSalesTest, Sale_Repeated_KeepsNothingAndIsAuditedByItself) {
  for (int number = 2; number <= 3; ++number) {
    SCOPED_TRACE(number);
    // The same key each time, with another body: what is left of the sale before would refuse it.
    const int product = 3 + number;
    const std::string order = R"({"product": )" + std::to_string(product) + R"(, "buyer": "ann"})";
    ASSERT_EQ(Order("once", order)->status, 201);
    ASSERT_EQ(Stock(product)["sold"], 1);
    const size_t said = demo_.out().size();
    ASSERT_EQ(Start("{}")->status, 202);
    AwaitEndOfSale(number);
    Await("the audit", [&] { return demo_.out().find("\naudit: ", said) != std::string::npos; });

    EXPECT_EQ(Stock(product)["sold"], 0);
    const json sale = Sale();
    EXPECT_EQ(sale["phase"], "done");
    EXPECT_LT(sale["naive"]["course"]["seconds"][0], 0.5);
    EXPECT_LE(sale["stockade"]["figures"]["orders"], 400);
    const auto audit = ParseAudit(LastLine(demo_.out()));
    ASSERT_TRUE(audit.has_value()) << demo_.out();
    EXPECT_EQ(audit->stock, 200);
    EXPECT_EQ(audit->sold + audit->available, 200);
    EXPECT_EQ(audit->held, 0);
    EXPECT_EQ(audit->oversold, 0);
    EXPECT_EQ(audit->duplicates, 0);
    EXPECT_EQ(audit->loads_per_expiry, "1.00");
  }
  ASSERT_EQ(Order("last", R"({"product": 7, "buyer": "ann"})")->status, 201);
  demo_.Kill(SIGTERM);
  EXPECT_EQ(demo_.Wait(), 0) << demo_.err();
  EXPECT_EQ(demo_.err().find("flash_sale: "), std::string::npos) << demo_.err();
  const RunResult audit = RunDemo({"--audit", dir_.File("run")});
  EXPECT_EQ(audit.status, 0) << audit.err;
}

TEST_F(FlashSaleSalesTest, Sale_WithArrivalTime_SellsOverThatTime) {
  // 200 units and their first 300 buyers, of whom some 250 are needed to empty the shelf.
  ASSERT_EQ(Start(R"({"arrival_seconds": 4})")->status, 202);
  AwaitEndOfSale(2);
  const json sale = Sale();
  EXPECT_EQ(sale["arrival_seconds"], 4);
  for (const char* const half : {"naive", "stockade"}) {
    SCOPED_TRACE(half);
    const json& course = sale[half]["course"];
    // 100 orders are there after a third of the time at the earliest, counted from the first one.
    double first = -1, hundredth = -1;
    for (size_t i = 0; i < course["orders"].size(); ++i) {
      const int orders = course["orders"][i];
      if (orders > 0 && first < 0) first = course["seconds"][i];
      if (orders >= 100 && hundredth < 0) hundredth = course["seconds"][i];
    }
    EXPECT_GT(hundredth - first, 0.6);
  }
  EXPECT_EQ(sale["stockade"]["figures"]["oversold"], 0);
}

TEST_F(FlashSaleSalesTest, TermSignal_WhileASaleRuns_EndsTheProgramAtOnce) {
  ASSERT_EQ(Start(R"({"arrival_seconds": 60})")->status, 202);
  Await("the sale", [&] { return Sale()["naive"]["stage"] == "the sale is on"; });
  const auto asked = std::chrono::steady_clock::now();
  demo_.Kill(SIGTERM);
  EXPECT_NE(demo_.Wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(30));
}

}  // namespace
}  // namespace stockade::testing

#include "stockade/metrics/metrics_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/http.h"

namespace stockade {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr metrics_internal::MetricDef kDefs[] = {
    {.type = metrics_internal::MetricType::kCounter, .name = "test_things_total", .help = "Things."}};

TEST(MetricsServerTest, Start_FreePort_ServesTheRegistry) {
  MetricsRegistry registry;
  metrics_internal::ComponentMetrics component(&registry, kDefs, {{"shop", "north"}});
  component.Add(0, 42);
  const auto server = MetricsServer::Start({.port = 0, .registry = &registry});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string page = testing::Scrape((*server)->port());
  EXPECT_THAT(page, HasSubstr("# TYPE test_things_total counter"));
  EXPECT_THAT(page, HasSubstr("test_things_total{shop=\"north\"} 42"));
}

TEST(MetricsServerTest, Scrape_BesideConnectionsThatSendNoRequest_IsAnswered) {
  const auto server = MetricsServer::Start({.port = 0});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::unique_ptr<testing::RawConnection>> half_open;
  for (int i = 0; i < 10; ++i) {  // More than it has threads.
    half_open.push_back(std::make_unique<testing::RawConnection>((*server)->port()));
    ASSERT_TRUE(half_open.back()->Send("GET /metrics HTTP/1.1\r\n"));
  }
  // Which waits for half a minute.
  EXPECT_THAT(testing::Scrape((*server)->port()), HasSubstr("exposer_scrapes_total"));
}

std::string Answer(uint16_t port, const std::string& method_and_target) {
  return testing::RawAnswer(port, method_and_target + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
}

TEST(MetricsServerTest, Head_OfTheMetrics_HasTheHeadersAndNoBody) {
  const auto server = MetricsServer::Start({.port = 0});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string answer = Answer((*server)->port(), "HEAD /metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(answer, HasSubstr("\r\nContent-Type: text/plain; charset=utf-8\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n"));
  EXPECT_EQ(testing::BodyOf(answer), "");
}

TEST(MetricsServerTest, Request_OfAnotherPath_IsNotFound) {
  const auto server = MetricsServer::Start({.port = 0});
  ASSERT_TRUE(server.ok()) << server.status();
  for (const char* const path : {"/", "/metric", "/metricsx", "/metrics/", "/metrics/x", "/x/metrics", "/metrics$"}) {
    SCOPED_TRACE(path);
    EXPECT_THAT(Answer((*server)->port(), std::string("GET ") + path), StartsWith("HTTP/1.1 404 "));
    const std::string head = Answer((*server)->port(), std::string("HEAD ") + path);
    EXPECT_THAT(head, StartsWith("HTTP/1.1 404 "));
    EXPECT_EQ(testing::BodyOf(head), "");
  }
  EXPECT_THAT(Answer((*server)->port(), "GET /metrics?name=x"), StartsWith("HTTP/1.1 200 "));
}

TEST(MetricsServerTest, Start_PortTaken_IsUnavailableAndNamesIt) {
  const auto first = MetricsServer::Start({.port = 0});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = MetricsServer::Start({.port = (*first)->port()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(second.status().ToString(), HasSubstr("127.0.0.1:" + std::to_string((*first)->port())));
}

TEST(MetricsServerTest, Start_BadOptions_AreNamed) {
  EXPECT_THAT(MetricsServer::Start({.address = "localhost"}).status().ToString(), HasSubstr("'localhost'"));
  EXPECT_THAT(MetricsServer::Start({.address = "1.2.3.4\nERROR"}).status().ToString(), HasSubstr("'1.2.3.4\\nERROR'"));
  EXPECT_EQ(MetricsServer::Start({.port = 0, .registry = nullptr}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stockade

#include "stockade/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace stockade {
namespace {

using ::testing::HasSubstr;

constexpr internal::MetricDef kDefs[] = {
    {.type = internal::MetricType::kCounter, .name = "test_things_total", .help = "Things."}};

// The answer to GET /metrics on a loopback port, headers included; empty where nobody answers.
std::string Scrape(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t n; (n = read(fd, buffer, sizeof(buffer))) > 0;) answer.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

TEST(MetricsServerTest, Start_FreePort_ServesTheRegistry) {
  MetricsRegistry registry;
  internal::ComponentMetrics component(&registry, kDefs, {{"shop", "north"}});
  component.Add(0, 42);
  const auto server = MetricsServer::Start({.port = 0, .registry = &registry});
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string answer = Scrape((*server)->port());
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("# TYPE test_things_total counter"));
  EXPECT_THAT(answer, HasSubstr("test_things_total{shop=\"north\"} 42"));
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
  EXPECT_EQ(MetricsServer::Start({.port = 0, .registry = nullptr}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stockade

// The metrics page while the program runs, and while it stays up.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "flash_sale/demo.h"
#include "support/needs_program.h"

namespace stockade::testing {
namespace {

// The body of http://127.0.0.1:port/metrics; empty where it is not answered with 200.
std::string Scrape(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  std::string answer;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET /metrics HTTP/1.0\r\nConnection: close\r\n\r\n";
    if (write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size())) {
      char buffer[4096];
      ssize_t got = 0;
      while ((got = read(fd, buffer, sizeof buffer)) > 0) answer.append(buffer, static_cast<size_t>(got));
    }
  }
  close(fd);
  const size_t body = answer.find("\r\n\r\n");
  return answer.find(" 200 ") == std::string::npos || body == std::string::npos ? "" : answer.substr(body + 4);
}

uint16_t PortOf(const Subprocess& demo) {
  const std::string prefix = "metrics: http://127.0.0.1:";
  return static_cast<uint16_t>(std::stoi(LineOf(demo.out(), prefix).substr(prefix.size())));
}

void ExpectSeriesOfAllParts(const std::string& page) {
  for (const char* const prefix : {"\nstockade_lock_", "\nstockade_cache_", "\nstockade_inventory_"}) {
    EXPECT_NE(page.find(prefix), std::string::npos) << "no series begins with" << prefix;
  }
}

TEST(FlashSaleMetricsTest, Scrape_InBothHalves_HasSeriesThatPromtoolAccepts) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run")));
  ASSERT_TRUE(demo.AwaitOutput("naive: the sale opens")) << demo.err();
  ExpectSeriesOfAllParts(Scrape(PortOf(demo)));
  ASSERT_TRUE(demo.AwaitOutput("stockade: the sale opens")) << demo.err();
  const std::string page = Scrape(PortOf(demo));
  ExpectSeriesOfAllParts(page);

  STOCKADE_NEEDS_PROGRAM("promtool", "prometheus");
  const RunResult check = RunToEnd({"promtool", "check", "metrics"}, page);
  EXPECT_EQ(check.status, 0);
  EXPECT_EQ(check.out + check.err, "");
}

TEST(FlashSaleMetricsTest, Serve_AfterTheAudit_AnswersUntilATermSignal) {
  const TempDir dir;
  Subprocess demo(SmallRun(dir.File("run"), {"--seconds", "1", "--serve"}));
  ASSERT_TRUE(demo.AwaitOutput("\naudit: ")) << demo.out() << demo.err();
  ExpectSeriesOfAllParts(Scrape(PortOf(demo)));
  demo.Kill(SIGTERM);
  EXPECT_EQ(demo.Wait(), 0) << demo.err();
  EXPECT_TRUE(ParseAudit(LastLine(demo.out())).has_value()) << demo.out();
}

}  // namespace
}  // namespace stockade::testing

// Runs of the program, with servers that it starts itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "mysql/support/mariadb_server.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/http.h"
#include "support/needs_program.h"
#include "support/subprocess.h"
#include "support/temp_dir.h"

namespace stockade::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The program, with its temporary files in `dir`.
std::vector<std::string> SaleIn(const TempDir& dir, const std::vector<std::string>& options) {
  std::vector<std::string> argv = {"env", "TMPDIR=" + dir.path(), FLEET_SALE};
  argv.insert(argv.end(), options.begin(), options.end());
  return argv;
}

struct FleetAuditLine {
  long stock, sold, held, available, oversold, duplicates, lost;
};

// The line of `text` that is `prefix` and an audit line. None if there is no such line, or more than one.
std::optional<FleetAuditLine> AuditIn(const std::string& text, const std::string& prefix) {
  const std::regex form("(?:^|\n)" + prefix +
                        R"(audit: stock=(\d+) sold=(\d+) held=(\d+) available=(-?\d+) oversold=(\d+) )"
                        R"(duplicates=(\d+) lost=(\d+)(?=\n))");
  const std::vector<std::smatch> found(std::sregex_iterator(text.begin(), text.end(), form), {});
  if (found.size() != 1) return std::nullopt;
  const auto number = [&](int group) { return std::stol(found[0][group]); };
  return FleetAuditLine{number(1), number(2), number(3), number(4), number(5), number(6), number(7)};
}

// The processes whose command lines name `dir`: servers, and processes that sell.
std::vector<std::string> ProcessesOf(const TempDir& dir) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream in(process.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(in)), {});
    if (line.find(dir.path()) != std::string::npos) found.push_back(line);
  }
  return found;
}

class FleetSaleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    STOCKADE_NEEDS_REDIS();
    STOCKADE_NEEDS_MARIADB();
  }

  void ExpectNothingIsLeft() const {
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path())) << "its files are left";
    Await("the end of all processes", [&] { return ProcessesOf(dir_).empty(); });
  }

  const TempDir dir_;
};

TEST_F(FleetSaleTest, Run_SmallSaleWithEachFault_NaiveHalfFailsTheAuditThatStockadePasses) {
  const RunResult run = RunToEnd(SaleIn(dir_, {"--stock=600", "--buyers", "6000", "--seconds", "3"}));
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 0);
  std::istringstream logged(run.err);
  for (std::string line; std::getline(logged, line);) {
    EXPECT_NE(line.find("Inventory 'sale': the Redis node unix:"), std::string::npos) << line;
  }
  ExpectNothingIsLeft();

  const std::optional<FleetAuditLine> stockade = AuditIn(run.out, "");
  ASSERT_TRUE(stockade.has_value());
  EXPECT_EQ(stockade->stock, 600);
  EXPECT_EQ(stockade->sold, 600);
  EXPECT_EQ(stockade->held, 0);
  EXPECT_EQ(stockade->available, 0);
  EXPECT_EQ(stockade->oversold, 0);
  EXPECT_EQ(stockade->duplicates, 0);
  EXPECT_EQ(stockade->lost, 0);
  EXPECT_TRUE(run.out.ends_with("lost=0\n")) << "the audit is not the last line";

  // Redis node 2 sells again what it had sold since its snapshot, and the units of node 1 are gone.
  const std::optional<FleetAuditLine> naive = AuditIn(run.out, "naive    ");
  ASSERT_TRUE(naive.has_value());
  EXPECT_EQ(naive->stock, 600);
  EXPECT_GT(naive->oversold + naive->lost, 0);
  EXPECT_GT(naive->duplicates, 0);

  for (const std::string half : {"naive: ", "stockade: "}) {
    for (const char* const fault :
         {"Redis node 2 saves a snapshot", "fault 1 of 4: process 2 is killed", "process 2 is back",
          "fault 2 of 4: Redis node 2 is killed", "fault 3 of 4: MariaDB is killed", "MariaDB is back",
          "fault 4 of 4: Redis node 1 is emptied"}) {
      EXPECT_THAT(run.out, HasSubstr("\n" + half + fault));
    }
  }
}

#ifdef FLEET_SALE_HAS_PAGE
TEST_F(FleetSaleTest, Serve_PageShowsSegmentsAndFaults_UntilASignal) {
  Subprocess sale(SaleIn(dir_, {"--serve", "--port=0", "--stock=100", "--buyers=200", "--seconds=1"}));
  const std::string prefix = "page: http://127.0.0.1:";
  ASSERT_TRUE(sale.AwaitOutput("starting")) << sale.err();
  const uint16_t port = static_cast<uint16_t>(std::stoi(sale.out().substr(sale.out().find(prefix) + prefix.size())));
  const auto get = [&](const std::string& path, const std::string& host) {
    return RawAnswer(port, "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  };
  EXPECT_THAT(get("/sale", "localhost"), HasSubstr(R"("phase":"naive: waits")"));

  ASSERT_TRUE(sale.AwaitOutput("serving until SIGINT or SIGTERM\naudit: stock=100 sold=100")) << sale.err();
  EXPECT_THAT(get("/", "localhost"), HasSubstr("<title>Fleet sale</title>"));
  const std::string shown = get("/sale", "127.0.0.1:80");
  for (const char* const text : {R"("phase":"done")", R"("name":"ledger 4")", R"("name":"Redis 3")", R"("at_node":)",
                                 "fault 2 of 4: Redis node 2 is killed", R"("oversold":0)", R"("stock":100)"}) {
    EXPECT_THAT(shown, HasSubstr(text));
  }
  EXPECT_THAT(get("/sale", "evil.example"), HasSubstr("403 Forbidden"));
  EXPECT_THAT(get("/sales", "localhost"), HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(get("/metrics", "localhost"), HasSubstr("404 Not Found"));

  // The port is in use.
  const RunResult second = RunToEnd(SaleIn(dir_, {"--serve", "--port", std::to_string(port)}));
  EXPECT_EQ(second.status, 2);
  EXPECT_EQ(second.err, "fleet_sale: cannot listen on 127.0.0.1:" + std::to_string(port) + "\n");

  // The same once more, with other servers.
  Await("the end of the first sale",
        [&] { return get("/sale", "localhost").find(R"("can_start":true)") != std::string::npos; });
  const auto post = [&](const std::string& origin) {
    return RawAnswer(port,
                     "POST /sales HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json"
                     "\r\nContent-Length: 22\r\n" +
                         origin + "\r\n{\"arrival_seconds\": 1}");
  };
  EXPECT_THAT(post("Origin: http://evil.example\r\n"), HasSubstr("403 Forbidden"));
  EXPECT_THAT(post(""), HasSubstr("202 Accepted"));
  EXPECT_THAT(post(""), HasSubstr("409 Conflict"));
  ASSERT_TRUE(sale.AwaitOutput("\nsale 2\n")) << sale.err();
  Await("the end of the second sale", [&] {
    const std::string now = get("/sale", "localhost");
    return now.find(R"("number":2)") != std::string::npos && now.find(R"("can_start":true)") != std::string::npos;
  });
  EXPECT_THAT(get("/sale", "localhost"), HasSubstr(R"("phase":"done")"));
  EXPECT_THAT(sale.out().substr(sale.out().find("\nsale 2\n")),
              HasSubstr("\nserving until SIGINT or SIGTERM\naudit: stock=100 sold=100"));

  sale.Kill(SIGTERM);
  EXPECT_EQ(sale.Wait(), 0) << sale.err();
  EXPECT_THAT(sale.out(), HasSubstr("lost=0\n"));
  ExpectNothingIsLeft();
}
#endif

TEST_F(FleetSaleTest, InterruptedInTheSale_NothingIsLeft) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Subprocess sale(SaleIn(dir_, {"--seconds", "3600"}));
    ASSERT_TRUE(sale.AwaitOutput("naive: the sale opens")) << sale.err();
    sale.Kill(signal);
    EXPECT_EQ(sale.Wait(), 130) << sale.out();
    EXPECT_EQ(sale.err(), "fleet_sale: stopped by a signal\n");
    EXPECT_THAT(sale.out(), Not(HasSubstr("audit:")));
    ExpectNothingIsLeft();
  }
}

TEST_F(FleetSaleTest, InterruptedWhileServersStart_NothingIsLeft) {
  Subprocess sale(SaleIn(dir_, {}));
  ASSERT_TRUE(sale.AwaitOutput("starting"));
  sale.Kill(SIGTERM);
  EXPECT_EQ(sale.Wait(), 130);
  ExpectNothingIsLeft();
}

TEST_F(FleetSaleTest, KilledInTheSale_NoProcessIsLeft) {
  {
    Subprocess sale(SaleIn(dir_, {"--seconds", "3600"}));
    ASSERT_TRUE(sale.AwaitOutput("naive: the sale opens")) << sale.err();
  }
  Await("the end of all processes", [&] { return ProcessesOf(dir_).empty(); });
}

TEST(FleetSaleInputTest, NoServerInPath_NamesThePackage) {
  STOCKADE_NEEDS_REDIS();
  const TempDir dir;
  const TempDir path;
  const auto run = [&] { return RunToEnd({"env", "PATH=" + path.path(), "TMPDIR=" + dir.path(), FLEET_SALE}); };
  RunResult result = run();
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("fleet_sale: redis-server does not start: is it installed? (Debian's package "
                                    "redis-server)"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));

  std::istringstream folders(getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/redis-server").c_str(), X_OK) != 0) continue;
    std::filesystem::create_symlink(folder + "/redis-server", path.File("redis-server"));
    break;
  }
  result = run();
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.err, "fleet_sale: mariadb-install-db is not in PATH: install Debian's package mariadb-server\n");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(FleetSaleInputTest, TemporaryDirectoryIsMissing_IsReported) {
  const RunResult run = RunToEnd({"env", "TMPDIR=/no/such/directory", FLEET_SALE});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("fleet_sale: cannot create /no/such/directory/"));
}

TEST(FleetSaleInputTest, BadOptions_AreRefused) {
  const std::pair<std::vector<std::string>, const char*> kCases[] = {
      {{"--fleet"}, "unknown option '--fleet' (--help lists them)"},
      {{"3"}, "unknown option '3' (--help lists them)"},
      {{"--stock"}, "--stock takes a value"},
      {{"--stock=99"}, "--stock takes a whole number from 100 to 100000, not '99'"},
      {{"--stock", "1e3"}, "--stock takes a whole number from 100 to 100000, not '1e3'"},
      {{"--buyers", "-1"}, "--buyers takes a whole number from 200 to 1000000, not '-1'"},
      {{"--buyers", "3000"}, "--buyers must be at least twice --stock, so that units sell out: 3000 buyers for 2000"},
      {{"--seconds", "0"}, "--seconds takes a whole number from 1 to 3600, not '0'"},
      {{"--port", "65536"}, "--port takes a whole number from 0 to 65535, not '65536'"},
      {{"seller"}, "'seller' is for this program's own use"},
  };
  for (const auto& [options, error] : kCases) {
    std::vector<std::string> argv = {FLEET_SALE};
    argv.insert(argv.end(), options.begin(), options.end());
    const RunResult run = RunToEnd(argv);
    SCOPED_TRACE(error);
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, HasSubstr(std::string("fleet_sale: ") + error));
  }
}

TEST(FleetSaleInputTest, Help_ListsTheOptions) {
  const RunResult run = RunToEnd({FLEET_SALE, "--help"});
  EXPECT_EQ(run.status, 0);
  for (const char* const option : {"--buyers", "--stock", "--seconds", "--port", "--serve", "--help"}) {
    EXPECT_THAT(run.out, HasSubstr(option));
  }
}

}  // namespace
}  // namespace stockade::testing

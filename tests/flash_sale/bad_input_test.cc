// What the program cannot work with: one clear line, status 2, and nothing done.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "flash_sale/demo.h"

namespace stockade::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// One line, which has `what`, and no output.
void ExpectRefused(const RunResult& run, const std::string& what) {
  SCOPED_TRACE(run.out + run.err);
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, AllOf(StartsWith("flash_sale: "), HasSubstr(what)));
  EXPECT_EQ(std::ranges::count(run.err, '\n'), 1);
}

void ExpectTraceRefused(const std::string& trace, const std::string& what) {
  const TempDir dir;
  const std::string path = dir.File("trace");
  WriteFile(path, trace);
  ExpectRefused(RunDemo({"--trace", path, "--port", "0", "--dir", dir.File("run")}), what);
  EXPECT_FALSE(std::filesystem::exists(dir.File("run")));
}

TEST(FlashSaleBadInputTest, Options_OutOfRangeOrNoNumber_AreRefused) {
  const std::vector<std::vector<std::string>> cases = {
      {"--stock", "-5"},   {"--stock", "0"},      {"--stock", "99999999999999999999"},
      {"--stock", "12x"},  {"--stock", ""},       {"--stock", " 5"},
      {"--stock=-1"},      {"--shards", "0"},     {"--shards", "257"},
      {"--buyers", "-1"},  {"--buyers", "0"},     {"--buyers", "1e3"},
      {"--viewers", "0"},  {"--viewers", "9999"}, {"--seconds", "0"},
      {"--seconds", "-3"}, {"--seed", "-1"},      {"--port", "65536"},
      {"--port", "http"}};
  for (const std::vector<std::string>& args : cases) {
    ExpectRefused(RunDemo(args), args[0].substr(0, args[0].find('=')) + " takes a whole number");
  }
}

TEST(FlashSaleBadInputTest, Options_UnknownOrWithoutValue_AreRefused) {
  ExpectRefused(RunDemo({"--stonk", "5"}), "unknown option '--stonk'");
  ExpectRefused(RunDemo({"trace.txt"}), "unknown option 'trace.txt'");
  ExpectRefused(RunDemo({"--serve=yes"}), "unknown option '--serve=yes'");
  ExpectRefused(RunDemo({"--stock"}), "--stock takes a value");
  ExpectRefused(RunDemo({"--trace", ""}), "--trace takes a path");
}

TEST(FlashSaleBadInputTest, Trace_NoSuchFile_IsRefused) {
  ExpectRefused(RunDemo({"--trace", "/no/such/trace", "--port", "0"}), "/no/such/trace: No such file");
}

TEST(FlashSaleBadInputTest, Trace_Directory_IsRefused) {
  const TempDir dir;
  ExpectRefused(RunDemo({"--trace", dir.path(), "--port", "0"}), "a directory");
}

TEST(FlashSaleBadInputTest, Trace_Empty_IsRefused) { ExpectTraceRefused("", "empty"); }

TEST(FlashSaleBadInputTest, Trace_LineThatIsNoKey_IsNamed) {
  ExpectTraceRefused("1\n2\nthree\n4\n", "line 3 is not a key: 'three'");
  ExpectTraceRefused("1\n\n2\n", "line 2 is not a key: ''");
  ExpectTraceRefused("-1\n", "line 1 is not a key: '-1'");
  ExpectTraceRefused("1\n2 3\n", "line 2 is not a key: '2 3'");
  ExpectTraceRefused("1\n9223372036854775808\n", "line 2 is not a key");
  ExpectTraceRefused(std::string("1\n\0\n", 4), "line 2 is not a key: '\\000'");
  ExpectTraceRefused("1\n" + std::string(1'000'000, '7'), "line 2 is not a key");
}

TEST(FlashSaleBadInputTest, Trace_DamagedGzip_IsRefused) {
  const TempDir dir;
  const std::string path = dir.File("trace.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  for (unsigned i = 0; i < 50'000; ++i) gzprintf(file, "%u\n", i * 2654435761u);
  ASSERT_EQ(gzclose(file), Z_OK);
  const auto whole = std::filesystem::file_size(path);
  {
    std::fstream damage(path, std::ios::binary | std::ios::in | std::ios::out);
    damage.seekp(static_cast<std::streamoff>(whole / 2));
    damage << std::string(64, '\xff');
  }
  ExpectRefused(RunDemo({"--trace", path, "--port", "0"}), path);

  gzFile again = gzopen(path.c_str(), "wb");
  for (unsigned i = 0; i < 50'000; ++i) gzprintf(again, "%u\n", i * 2654435761u);
  ASSERT_EQ(gzclose(again), Z_OK);
  std::filesystem::resize_file(path, whole / 2);
  ExpectRefused(RunDemo({"--trace", path, "--port", "0"}), "damaged gzip");
}

TEST(FlashSaleBadInputTest, Dir_NotADirectory_IsRefused) {
  const TempDir dir;
  WriteFile(dir.File("file"), "");
  ExpectRefused(RunDemo({"--dir", dir.File("file"), "--port", "0"}), dir.File("file"));
  ExpectRefused(RunDemo({"--dir", dir.File("file") + "/below", "--port", "0"}), "cannot create");
}

TEST(FlashSaleBadInputTest, Dir_ThatCannotBeWritten_IsRefused) {
  // Nobody makes files there, root included.
  ExpectRefused(RunDemo({"--dir", "/proc/self", "--port", "0"}), "cannot write in /proc/self");
}

TEST(FlashSaleBadInputTest, Dir_WithALedger_IsRefusedAndUnchanged) {
  const TempDir dir;
  WriteFile(dir.File("ledger.db"), "of another run");
  ExpectRefused(RunDemo({"--dir", dir.path(), "--port", "0"}), "ledger.db exists already");
  EXPECT_EQ(std::filesystem::file_size(dir.File("ledger.db")), 14u);
}

TEST(FlashSaleBadInputTest, Port_Taken_IsRefusedBeforeAnyWork) {
  const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string port = std::to_string(ntohs(address.sin_port));
  const TempDir dir;
  ExpectRefused(RunDemo({"--port", port, "--dir", dir.File("run")}), "127.0.0.1:" + port);
  ExpectRefused(RunDemo({"--port", port, "--dir", dir.File("run"), "--serve"}), "127.0.0.1:" + port);
  EXPECT_FALSE(std::filesystem::exists(dir.File("run")));
  close(taken);
}

TEST(FlashSaleBadInputTest, Audit_WithoutALedger_IsRefused) {
  const TempDir dir;
  ExpectRefused(RunDemo({"--audit", dir.path()}), "there is no " + dir.File("ledger.db"));
  ExpectRefused(RunDemo({"--audit", "/no/such/dir"}), "there is no /no/such/dir/ledger.db");
}

TEST(FlashSaleBadInputTest, Audit_OfWhatIsNoLedger_IsRefused) {
  const TempDir dir;
  WriteFile(dir.File("ledger.db"), std::string(4096, 'x'));
  WriteFile(dir.File("acknowledged.log"), "");
  ExpectRefused(RunDemo({"--audit", dir.path()}), "ledger.db");
}

}  // namespace
}  // namespace stockade::testing

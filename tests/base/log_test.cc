#include "stockade/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stockade {
namespace {

TEST(LogTest, SetLogSink_ReceivesSeverityAndMessage) {
  std::vector<std::string> lines;
  SetLogSink([&](LogSeverity severity, std::string_view message) {
    lines.push_back(std::string(LogSeverityName(severity)) + " " + std::string(message));
  });
  internal::Log(LogSeverity::kWarning, "disk nearly full");
  SetLogSink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "WARNING disk nearly full");
}

TEST(LogTest, Log_ThousandsAtOnce_AreLimited) {
  size_t lines = 0;
  SetLogSink([&](LogSeverity, std::string_view) { ++lines; });
  for (int i = 0; i < 1'000; ++i) internal::Log(LogSeverity::kInfo, "again");
  SetLogSink({});
  EXPECT_GE(lines, 1u);
  EXPECT_LT(lines, 200u);
}

TEST(LogDeathTest, Fatal_WritesTheMessageAndAborts) {
  EXPECT_DEATH(internal::Fatal("lock 'till' is gone"), "stockade FATAL: lock 'till' is gone");
}

}  // namespace
}  // namespace stockade

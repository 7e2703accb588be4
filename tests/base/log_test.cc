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
  base_internal::Log(LogSeverity::kWarning, "disk nearly full");
  SetLogSink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "WARNING disk nearly full");
}

TEST(LogTest, Log_ThousandsAtOnce_AreLimited) {
  size_t lines = 0;
  SetLogSink([&](LogSeverity, std::string_view) { ++lines; });
  for (int i = 0; i < 1'000; ++i) base_internal::Log(LogSeverity::kInfo, "again");
  SetLogSink({});
  EXPECT_GE(lines, 1u);
  EXPECT_LT(lines, 200u);
}

// Texts of exceptions and servers are in messages, and must not look like lines of their own.
// Fatal messages, because the rate does not limit them.
TEST(LogTest, Log_MessageWithControlCharacters_IsOneLineOfEscapes) {
  std::string line;
  SetLogSink([&](LogSeverity, std::string_view message) { line = message; });
  base_internal::Log(LogSeverity::kFatal, "load failed: x\nstockade INFO: all is well\x1b[2K\xff");
  SetLogSink({});
  EXPECT_EQ(line, "load failed: x\\nstockade INFO: all is well\\x1b[2K\\xff");
}

TEST(LogTest, Log_HugeMessage_IsCut) {
  std::string line;
  SetLogSink([&](LogSeverity, std::string_view message) { line = message; });
  base_internal::Log(LogSeverity::kFatal, std::string(900'000, 'x'));
  SetLogSink({});
  EXPECT_LT(line.size(), 4'000u);
  EXPECT_TRUE(line.ends_with("x [cut: 900000 bytes in all]")) << line;
}

TEST(LogDeathTest, Fatal_MessageWithANewline_IsOneLine) {
  EXPECT_DEATH(base_internal::Fatal("lock 'a\nb' is gone"), "stockade FATAL: lock 'a\\\\nb' is gone");
}

TEST(LogDeathTest, Fatal_WritesTheMessageAndAborts) {
  EXPECT_DEATH(base_internal::Fatal("lock 'till' is gone"), "stockade FATAL: lock 'till' is gone");
}

}  // namespace
}  // namespace stockade

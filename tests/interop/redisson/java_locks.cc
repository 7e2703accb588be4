#include "java_locks.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "peers/peer_driver.h"

namespace stockade::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

}  // namespace

absl::StatusOr<std::string> JavaLocks::FindDriver() { return bench::FindPeerDriver(STOCKADE_INTEROP_DIR, "redisson"); }

absl::StatusOr<std::unique_ptr<JavaLocks>> JavaLocks::Start(const std::string& driver, const std::string& url) {
  absl::StatusOr<std::unique_ptr<bench::PeerProcess>> process = bench::PeerProcess::Start({driver, url});
  if (!process.ok()) return process.status();
  const absl::StatusOr<std::string> line = (*process)->ReadLine(kPatience);
  if (!line.ok()) return line.status();
  if (*line != "ready") return absl::InternalError("the JVM said '" + *line + "', not 'ready'");
  return std::unique_ptr<JavaLocks>(new JavaLocks(*std::move(process)));
}

void JavaLocks::Begin(const std::string& owner, const std::string& command) {
  EXPECT_EQ(Ask("begin " + owner + " " + command), "begun");
}

std::string JavaLocks::Ask(const std::string& line) {
  const absl::StatusOr<std::string> answer = process_->Ask(line, kPatience);
  return answer.ok() ? *answer : answer.status().ToString();
}

}  // namespace stockade::testing

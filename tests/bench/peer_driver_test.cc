#include "peers/peer_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "support/temp_dir.h"

namespace stockade::bench {
namespace {

using ::testing::HasSubstr;

const Scale kQuick = {.quick = true, .span = absl::Milliseconds(2)};

class PeerDriverTest : public ::testing::Test {
 protected:
  PeerDriverTest() { std::filesystem::create_directories(folder_ / "peer"); }

  // A driver in a few lines of shell.
  std::string Driver(const std::string& script) {
    const std::filesystem::path file = folder_ / "peer" / "driver";
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  }

  const stockade::testing::TempDir dir_;
  const std::filesystem::path folder_ = dir_.path();
};

std::string Answering(const std::string& checksum) {
  return "echo ready; while read -r verb number; do [ $verb = run ] && echo ${number}000 || echo " + checksum +
         "; done";
}

TEST_F(PeerDriverTest, Replay_Keys_AreInTheFileThatTheDriverGets) {
  const auto process =
      PeerProcess::Start({Driver("while read -r verb room path; do [ $room = 7 ] && sort -u $path | wc -l; done")});
  ASSERT_TRUE(process.ok()) << process.status();
  const uint32_t keys[] = {3, 5, 3, 1, 5};
  const absl::StatusOr<int64_t> hits = ReplayByPeerDriver(**process, 7, keys);
  ASSERT_TRUE(hits.ok()) << hits.status();
  EXPECT_EQ(*hits, 3);
}

TEST_F(PeerDriverTest, Replay_AnswerIsNoNumberOfHits_IsInvalid) {
  for (const char* const answer : {"-1", "6", "many"}) {
    const auto process = PeerProcess::Start({Driver(std::string("while read -r line; do echo ") + answer + "; done")});
    ASSERT_TRUE(process.ok()) << process.status();
    const uint32_t keys[] = {3, 5, 3, 1, 5};
    EXPECT_TRUE(absl::IsInvalidArgument(ReplayByPeerDriver(**process, 7, keys).status())) << answer;
  }
}

TEST_F(PeerDriverTest, Find_DriverThatIsThere_IsFound) {
  const std::string driver = Driver("");
  EXPECT_EQ(FindPeerDriver(folder_, "peer").value(), driver);
}

TEST_F(PeerDriverTest, Find_NoteThatSaysWhyItIsNot_IsHandedOn) {
  std::ofstream(folder_ / "peer" / "why") << "not installed: java\n";
  EXPECT_EQ(FindPeerDriver(folder_, "peer").status(), absl::NotFoundError("not installed: java"));
}

TEST_F(PeerDriverTest, Find_NothingThere_SaysWhatBuildsIt) {
  const absl::Status status = FindPeerDriver(folder_, "other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bench/peers/build"));
}

TEST_F(PeerDriverTest, Start_SameKeys_IsReadyAndRuns) {
  const CacheWorkload workload = {.keys = 64, .threads = 2, .writes_percent = 10};
  const auto driver = StartPeerDriver(Driver(Answering(std::to_string(CacheDraws::Checksum(workload, kCheckedDraws)))),
                                      workload, kQuick);
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_EQ(RunPeerDriver(**driver, absl::Milliseconds(80)).value(), 80'000);
}

TEST_F(PeerDriverTest, Start_OtherKeys_IsInvalid) {
  const absl::Status status = StartPeerDriver(Driver(Answering("1")), {}, kQuick).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("other keys"));
}

TEST_F(PeerDriverTest, Start_NotReady_IsInvalidAndQuotesIt) {
  const absl::Status status = StartPeerDriver(Driver("echo hello; read -r line"), {}, kQuick).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'hello'"));
}

TEST_F(PeerDriverTest, Start_Workload_IsToldInOptions) {
  const std::string driver = Driver("echo \"$*\"; read -r line");
  CacheWorkload workload = {
      .keys = 64, .threads = 2, .value_bytes = 256, .writes_percent = 10, .distribution = Distribution::kZipf};
  EXPECT_THAT(std::string(StartPeerDriver(driver, workload, kQuick).status().message()),
              HasSubstr("'--keys 64 --threads 2 --value-bytes 256 --writes-percent 10 --distribution zipf "
                        "--key-kind dense --capacity 65664 --warm-up-ms"));
  workload.distribution = Distribution::kHotKey;
  workload.key_kind = KeyKind::kRandom;
  workload.room = Room::kExact;
  EXPECT_THAT(std::string(StartPeerDriver(driver, workload, kQuick).status().message()),
              HasSubstr("--distribution hot-key --key-kind random --capacity 64 --warm-up-ms"));
}

}  // namespace
}  // namespace stockade::bench

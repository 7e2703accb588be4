#include "peers/peer_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <memory>
#include <string>

namespace stockade::bench {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(60);  // Never waited for.

std::unique_ptr<PeerProcess> Shell(const std::string& script) {
  auto process = PeerProcess::Start({"/bin/sh", "-c", script});
  EXPECT_TRUE(process.ok()) << process.status();
  return *std::move(process);
}

TEST(PeerProcessTest, Ask_EchoDriver_AnswersEachRequestInTurn) {
  const auto peer = Shell("while read -r line; do echo \"got $line\"; done");
  for (const std::string request : {"run 1", "run 2", ""}) {
    const auto answer = peer->Ask(request, kLong);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(*answer, "got " + request);
  }
}

TEST(PeerProcessTest, ReadLine_SeveralLinesAtOnce_AreReturnedOneByOne) {
  const auto peer = Shell("printf 'ready\\n\\nlast\\n'; read -r line");
  EXPECT_EQ(peer->ReadLine(kLong).value(), "ready");
  EXPECT_EQ(peer->ReadLine(kLong).value(), "");
  EXPECT_EQ(peer->ReadLine(kLong).value(), "last");
}

TEST(PeerProcessTest, ReadLine_LineInPieces_IsReturnedWhole) {
  const auto peer = Shell("printf re; read -r line; printf 'ady\\n'; read -r line");
  EXPECT_EQ(peer->Ask("go on", kLong).value(), "ready");
}

TEST(PeerProcessTest, AskForRate_Numbers_AreParsed) {
  const auto peer = Shell("while read -r verb number; do echo \"$number\"; done");
  EXPECT_EQ(peer->AskForRate("run 98000000", kLong).value(), 98e6);
  EXPECT_EQ(peer->AskForRate("run 6.4e6", kLong).value(), 6.4e6);
}

TEST(PeerProcessTest, Start_MissingCommand_IsNotFoundAndNamesIt) {
  const auto peer = PeerProcess::Start({"/nonexistent/driver", "--keys", "1"});
  EXPECT_EQ(peer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(peer.status().message()), HasSubstr("'/nonexistent/driver --keys 1'"));
}

TEST(PeerProcessTest, Start_NoCommand_IsInvalid) {
  EXPECT_EQ(PeerProcess::Start({}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PeerProcessTest, Ask_ChildThatEnds_IsUnavailableWithItsStatus) {
  const auto peer = Shell("read -r line; exit 3");
  const absl::Status status = peer->Ask("run 1", kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("read -r line; exit 3' ended with status 3"));
}

TEST(PeerProcessTest, Ask_ChildThatIsKilled_IsUnavailableWithTheSignal) {
  const auto peer = Shell("read -r line; kill -TERM $$");
  EXPECT_THAT(std::string(peer->Ask("run 1", kLong).status().message()), HasSubstr("was ended by signal 15"));
}

TEST(PeerProcessTest, Ask_ChildThatHasEndedLongSince_IsUnavailableAndNoSignalIsRaised) {
  const auto peer = Shell("echo bye");
  EXPECT_EQ(peer->ReadLine(kLong).value(), "bye");
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(peer->pid()), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(peer->Ask("run 1", kLong).status().code(), absl::StatusCode::kUnavailable);
}

TEST(PeerProcessTest, AskForRate_Garbage_IsInvalidAndQuotesIt) {
  for (const std::string garbage : {"", "fast", "12 M/s", "0", "-5", "nan", "inf"}) {
    const auto peer = Shell("read -r line; echo '" + garbage + "'; read -r line");
    const absl::Status status = peer->AskForRate("run 1", kLong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << garbage;
    EXPECT_THAT(std::string(status.message()), HasSubstr("answered 'run 1' with '" + garbage + "'"));
  }
}

TEST(PeerProcessTest, ReadLine_NoLineEnd_IsInvalidBeforeMemoryRunsOut) {
  const auto peer = PeerProcess::Start({"/bin/cat", "/dev/zero"});
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ((*peer)->ReadLine(kLong).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PeerProcessTest, Ask_SilentChild_IsDeadlineExceededAndEndsIt) {
  const auto peer = Shell("while read -r line; do :; done");
  const pid_t pid = peer->pid();
  EXPECT_EQ(peer->Ask("run 1", absl::Milliseconds(20)).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(peer->pid(), -1);
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  // A late answer is never taken for the next one's.
  EXPECT_EQ(peer->Ask("run 2", kLong).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PeerProcessTest, Destructor_ChildThatIgnoresItsInput_IsKilled) {
  auto peer = PeerProcess::Start({"/bin/sleep", "3600"});
  ASSERT_TRUE(peer.ok());
  const pid_t pid = (*peer)->pid();
  ASSERT_EQ(kill(pid, 0), 0);
  peer->reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace stockade::bench

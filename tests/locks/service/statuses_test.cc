// The codes that calls return are those of their headers' lists, and each of them can be had.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "locks/service/service_fixture.h"

namespace stockade {
namespace {

using absl::StatusCode;

// "InvalidArgument", as lists in headers name it.
std::string NameOf(StatusCode code) {
  std::string name;
  bool upper = true;
  for (const char letter : absl::StatusCodeToString(code)) {
    if (letter == '_') {
      upper = true;
    } else {
      name += upper ? letter : static_cast<char>(letter + ('a' - 'A'));
      upper = false;
    }
  }
  return name;
}

std::set<StatusCode> CodesIn(const std::string& text) {
  std::set<StatusCode> codes;
  for (int code = 1; code <= 16; ++code) {
    if (std::regex_search(text, std::regex("\\b" + NameOf(static_cast<StatusCode>(code)) + "\\b"))) {
      codes.insert(static_cast<StatusCode>(code));
    }
  }
  return codes;
}

// The codes in the comment that stands before a declaration.
std::set<StatusCode> ListedIn(const std::string& header, const std::string& declaration) {
  std::ifstream in(std::string(STOCKADE_SOURCE_DIR) + "/locks/include/stockade/locks/" + header);
  std::string comment;
  for (std::string line; std::getline(in, line);) {
    if (line.find(declaration) != std::string::npos) return CodesIn(comment);
    if (line.find("//") == std::string::npos) comment.clear();
    comment += line + "\n";
  }
  ADD_FAILURE() << header << " has no " << declaration;
  return {};
}

// Answers everything with `answer` while that is not OK.
struct Answering {
  locks_internal::LocalLockEngine locks{Clock::System()};
  bool supports = true;

  absl::Status Answer() {
    const std::lock_guard lock(mutex);
    return answer;
  }
  void SetAnswer(absl::Status next) {
    const std::lock_guard lock(mutex);
    answer = std::move(next);
  }

  std::mutex mutex;  // Releases are tried again on a thread of the service.
  absl::Status answer = absl::OkStatus();
};

class AnsweringEngine final : public LockEngine {
 public:
  explicit AnsweringEngine(std::shared_ptr<Answering> state) : state_(std::move(state)) {}

  std::string_view kind() const override { return "answering"; }
  std::string_view id() const override { return "answering"; }
  bool Supports(LockKind) const override { return state_->supports; }
  void TryMany(std::span<LockTry> tries) override {
    const absl::Status answer = state_->Answer();
    if (answer.ok()) return state_->locks.TryMany(tries);
    for (LockTry& step : tries) step.status = answer;
  }
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override {
    state_->locks.RenewMany(renewals, timeout);
  }
  void ReleaseMany(std::span<LockRelease> releases) override {
    const absl::Status answer = state_->Answer();
    if (answer.ok()) return state_->locks.ReleaseMany(releases);
    for (LockRelease& step : releases) step.status = answer;
  }
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override {
    const absl::Status answer = state_->Answer();
    if (answer.ok()) return state_->locks.Inspect(name, owner, timeout);
    return answer;
  }
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override {
    const absl::Status answer = state_->Answer();
    if (answer.ok()) return state_->locks.ForceRelease(name, timeout);
    return answer;
  }
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override {
    return state_->locks.Watch(hold, std::move(on_hint));
  }

 private:
  const std::shared_ptr<Answering> state_;
};

class StatusesTest : public ::testing::Test {
 protected:
  absl::Status Acquire(AcquireOptions options = {.wait = absl::ZeroDuration()}, const std::string& name = "a") {
    options.owner = LockOwner::New();
    return service_->Acquire(name, options).status();
  }
  // As an engine gives it.
  absl::Status Answered(StatusCode code, const std::function<absl::Status()>& call) {
    engine_->SetAnswer(absl::Status(code, "the engine's text"));
    const absl::Status result = call();
    engine_->SetAnswer(absl::OkStatus());
    EXPECT_NE(result.message().find("the engine's text"), std::string::npos) << result;
    return result;
  }

  const std::shared_ptr<Answering> engine_ = std::make_shared<Answering>();
  const std::unique_ptr<LockService> service_ =
      EngineLockService::Create(std::make_unique<AnsweringEngine>(engine_),
                                {.engine_timeout = absl::Milliseconds(30), .metrics = nullptr})
          .value();
};

TEST_F(StatusesTest, Acquire_ReturnsTheCodesOfItsList) {
  std::set<StatusCode> seen;
  for (int code = 1; code <= 16; ++code) {
    seen.insert(Answered(static_cast<StatusCode>(code), [&] { return Acquire(); }).code());
  }
  {
    const LockLease held = service_->Acquire("a", {.owner = LockOwner::New()}).value();
    seen.insert(Acquire().code());
    std::stop_source stopped;
    stopped.request_stop();
    seen.insert(Acquire({.stop = stopped.get_token()}).code());
    seen.insert(Acquire({}, "").code());
    seen.insert(Acquire({.kind = LockKind::kRead, .wait = absl::ZeroDuration()}).code());
  }
  engine_->supports = false;
  seen.insert(Acquire().code());
  EXPECT_EQ(seen, ListedIn("lock_service.h", "virtual absl::StatusOr<LockLease> Acquire("));
}

TEST_F(StatusesTest, Release_ReturnsTheCodesOfItsList) {
  std::set<StatusCode> seen;
  for (int code = 1; code <= 16; ++code) {
    LockLease lease = service_->Acquire("r" + std::to_string(code), {.owner = LockOwner::New()}).value();
    seen.insert(Answered(static_cast<StatusCode>(code), [&] { return lease.Release(); }).code());
    EXPECT_EQ(lease.Release().code(), StatusCode::kFailedPrecondition);
  }
  std::set<StatusCode> listed = ListedIn("lock_lease.h", "absl::Status Release();");
  // An engine may answer with them; none of ours does.
  for (const StatusCode code : {StatusCode::kCancelled, StatusCode::kInvalidArgument, StatusCode::kUnimplemented}) {
    seen.erase(code);
  }
  EXPECT_EQ(seen, listed);
}

TEST_F(StatusesTest, InspectAndForceRelease_ReturnOnlyCodesOfAcquire) {
  const std::set<StatusCode> listed = ListedIn("lock_service.h", "virtual absl::StatusOr<LockLease> Acquire(");
  for (int code = 1; code <= 16; ++code) {
    const auto engines = static_cast<StatusCode>(code);
    EXPECT_TRUE(listed.contains(Answered(engines, [&] { return service_->Inspect("a").status(); }).code())) << code;
    EXPECT_TRUE(listed.contains(Answered(engines, [&] { return service_->ForceRelease("a").status(); }).code()))
        << code;
  }
}

}  // namespace
}  // namespace stockade

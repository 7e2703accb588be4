// A client of a lock engine in a process that tests kill, stop and continue:
//
//   lock_agent <url of ConnectLockService()> <watchdog lease in ms> <by how much its wall clock is ahead, in ms>
//
// reads commands, one per line, and answers the n-th by "[n] <answer>" and "[n] ." on lines of their own:
//
//   acquire <name> <kind> <wait in ms> <lease in ms>   held <handle> <hold count> <token>
//   valid <handle>                                     true, or false
//   await-lost <handle>                                lost, once lost() runs its callbacks; not lost, after 30 seconds
//   release <handle>                                   OK
//   add <name> <kind> <file> <threads> <times>         OK, once each thread has added 1 that many times to the number
//                                                      in the file, by reading and writing it under the lock
//
// or by a status. It ends with its input, or with the process that started it.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "locks/distributed/support/connect_lock_service.h"
#include "locks/distributed/support/lost_signal.h"
#include "stockade/base/clock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/locks/lock_service.h"

namespace stockade {
namespace {

class SkewedClock final : public Clock {
 public:
  explicit SkewedClock(absl::Duration ahead) : ahead_(ahead) {}

  Instant Now() const override { return Clock::System()->Now(); }
  Instant CoarseNow() const override { return Clock::System()->CoarseNow(); }
  absl::Time WallNow() const override { return Clock::System()->WallNow() + ahead_; }
  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    return Clock::System()->WaitUntil(cv, lock, deadline);
  }

 private:
  const absl::Duration ahead_;
};

LockKind KindOf(const std::string& name) {
  for (const LockKind kind : {LockKind::kReentrant, LockKind::kFair, LockKind::kRead, LockKind::kWrite}) {
    if (name == LockKindName(kind)) return kind;
  }
  base_internal::Fatal(base_internal::Concat("no kind of lock: '", name, "'"));
}

// Not safe against others: that is what the lock is for.
void AddOne(const std::string& path) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  char text[32] = {};
  if (file < 0 || pread(file, text, sizeof text - 1, 0) < 0) base_internal::Fatal("cannot read " + path);
  const std::string sum = std::to_string(std::atoll(text) + 1);
  if (pwrite(file, sum.data(), sum.size(), 0) != static_cast<ssize_t>(sum.size())) {
    base_internal::Fatal("cannot write " + path);
  }
  close(file);
}

class Agent {
 public:
  explicit Agent(LockService* locks) : locks_(locks) {}

  std::string Run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "acquire") return Acquire(words);
    if (command == "add") return Add(words);
    size_t handle = 0;
    words >> handle;
    if (handle >= leases_.size()) base_internal::Fatal("no such handle: " + line);
    LockLease& lease = leases_[handle];
    if (command == "valid") return lease.valid() ? "true" : "false";
    if (command == "await-lost") return AwaitLost(lease);
    if (command == "release") return lease.Release().ToString();
    base_internal::Fatal("no such command: " + line);
  }

 private:
  std::string Acquire(std::istringstream& words) {
    std::string name;
    std::string kind;
    int64_t wait_ms = 0;
    int64_t lease_ms = 0;
    words >> name >> kind >> wait_ms >> lease_ms;
    absl::StatusOr<LockLease> lease = locks_->Acquire(
        name, {.kind = KindOf(kind), .wait = absl::Milliseconds(wait_ms), .lease = absl::Milliseconds(lease_ms)});
    if (!lease.ok()) return lease.status().ToString();
    leases_.push_back(*std::move(lease));
    return base_internal::Concat("held ", leases_.size() - 1, " ", leases_.back().hold_count(), " ",
                                 leases_.back().fencing_token().value_or(-1));
  }

  static std::string AwaitLost(const LockLease& lease) {
    return testing::LostSignal(lease.lost()).Await() ? "lost" : "not lost";
  }

  std::string Add(std::istringstream& words) {
    std::string name;
    std::string kind;
    std::string file;
    int threads = 0;
    int times = 0;
    words >> name >> kind >> file >> threads >> times;
    std::vector<absl::Status> results(static_cast<size_t>(threads));
    std::vector<std::thread> running;
    for (absl::Status& result : results) {
      running.emplace_back([&] { result = AddTimes(name, KindOf(kind), file, times); });
    }
    for (std::thread& thread : running) thread.join();
    for (const absl::Status& result : results) {
      if (!result.ok()) return result.ToString();
    }
    return "OK";
  }

  absl::Status AddTimes(const std::string& name, LockKind kind, const std::string& file, int times) {
    for (int i = 0; i < times; ++i) {
      absl::StatusOr<LockLease> lease = locks_->Acquire(name, {.kind = kind});
      if (!lease.ok()) return lease.status();
      AddOne(file);
      if (const absl::Status released = lease->Release(); !released.ok()) return released;
    }
    return absl::OkStatus();
  }

  LockService* const locks_;
  std::vector<LockLease> leases_;  // By handle.
};

}  // namespace
}  // namespace stockade

int main(int argc, char** argv) {
  using stockade::base_internal::Concat;
  if (argc != 4) stockade::base_internal::Fatal("usage: lock_agent <url> <watchdog lease, ms> <clock skew, ms>");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  stockade::SkewedClock clock(absl::Milliseconds(std::atoll(argv[3])));
  const std::unique_ptr<stockade::LockService> locks =
      stockade::testing::ConnectLockService(argv[1], {.watchdog_lease = absl::Milliseconds(std::atoll(argv[2])),
                                                      .engine_timeout = absl::Seconds(30),  // The server may be busy.
                                                      .clock = &clock});
  stockade::Agent agent(locks.get());
  size_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    const std::string answer = agent.Run(line);
    std::cout << Concat("[", number, "] ", answer, "\n[", number, "] .\n") << std::flush;
  }
}

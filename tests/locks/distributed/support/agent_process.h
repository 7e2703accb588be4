#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_AGENT_PROCESS_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_AGENT_PROCESS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "stockade/base/strings.h"
#include "support/subprocess.h"

namespace stockade::testing {

// A client in a process of its own, which runs one command after another: lock_agent.cc says which there are. Killed
// with the object. For one thread.
class AgentProcess {
 public:
  // `clock_skew`: by how much its wall clock is ahead.
  AgentProcess(const std::string& url, absl::Duration watchdog_lease, absl::Duration clock_skew = absl::ZeroDuration())
      : process_({STOCKADE_LOCK_AGENT, url, base_internal::Concat(absl::ToInt64Milliseconds(watchdog_lease)),
                  base_internal::Concat(absl::ToInt64Milliseconds(clock_skew))},
                 Subprocess::kInputStaysOpen) {}

  // Does not wait for the answer.
  size_t Begin(std::string_view command) {
    process_.Send(base_internal::Concat(command, "\n"));
    return ++commands_;
  }
  // Blocks until there is one. Empty where the process has ended before.
  std::string Answer(size_t command) {
    const std::string mark = base_internal::Concat("[", command, "] ");
    // An answer is "[<command>] <text>\n[<command>] .\n", so that its text is known to be whole.
    if (!process_.AwaitOutput(mark + ".\n")) return "";
    const std::string out = process_.out();
    const size_t begin = out.find(mark) + mark.size();
    return out.substr(begin, out.find('\n', begin) - begin);
  }
  std::string Do(std::string_view command) { return Answer(Begin(command)); }
  // "held ...", or a status. Repeats an acquire that a busy machine delayed for longer than its short lease.
  std::string Acquire(std::string_view name, std::string_view kind) {
    std::string answer;
    for (int attempt = 0; attempt < 20; ++attempt) {
      answer = Do(base_internal::Concat("acquire ", name, " ", kind, " 0 0"));
      if (answer.find("took longer to answer than the lease") == std::string::npos) break;
    }
    return answer;
  }

  void Kill(int signal) { process_.Kill(signal); }
  // Kills it, and returns once it has ended.
  void End() {
    process_.Kill(SIGKILL);
    process_.Wait();
  }

 private:
  Subprocess process_;
  size_t commands_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_AGENT_PROCESS_H_

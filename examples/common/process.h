#ifndef STOCKADE_EXAMPLES_COMMON_PROCESS_H_
#define STOCKADE_EXAMPLES_COMMON_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace examples {

// A program that this one runs. It is killed, and waited for, with the object; the kernel kills it if this program dies
// first. For one thread, which must be the one that started it.
class Process {
 public:
  // Stopped: by a SIGSTOP, until Continue(). Otherwise it has ended, with an exit status or by a signal.
  struct State {
    bool stopped = false;
    int exit_status = -1;
    int signal = 0;
  };

  // Looks argv[0] up in PATH. `output`, a path, takes the program's output; if it is empty, the program writes to the
  // outputs of this one. A program that cannot be run exits with 127.
  static absl::StatusOr<Process> Start(const std::vector<std::string>& argv, const std::string& output = "");
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  bool ended() const { return pid_ < 0; }

  // Blocks until it stops or ends. Not once it has ended.
  State Await();
  // Whether it has ended, without waiting.
  bool HasEnded();
  void Signal(int signal);
  void Continue();

 private:
  explicit Process(pid_t pid) : pid_(pid) {}

  pid_t pid_;  // -1: it has ended and was waited for.
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_PROCESS_H_

#include "common/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace examples {
namespace {

// In the child, of a parent with threads: nothing but system calls.
[[noreturn]] void Exec(char* const* argv, const char* output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // It died before we could ask.
  if (output != nullptr) {
    const int fd = open(output, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) _exit(127);
  }
  execvp(argv[0], argv);
  _exit(127);
}

}  // namespace

absl::StatusOr<Process> Process::Start(const std::vector<std::string>& argv, const std::string& output) {
  std::vector<char*> args;
  args.reserve(argv.size() + 1);
  for (const std::string& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(args.data(), output.empty() ? nullptr : output.c_str(), parent);
  if (pid < 0) return absl::UnavailableError(absl::StrCat("fork for ", argv[0], ": ", std::strerror(errno)));
  return Process(pid);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  return *this;
}

Process::~Process() {
  if (ended()) return;
  Signal(SIGKILL);
  while (!ended()) Await();
}

Process::State Process::Await() {
  int status = 0;
  while (waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (WIFSTOPPED(status)) return {.stopped = true};
  pid_ = -1;
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status)};
  return {.exit_status = WEXITSTATUS(status)};
}

bool Process::HasEnded() {
  if (!ended() && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return ended();
}

void Process::Signal(int signal) { kill(pid_, signal); }

void Process::Continue() { Signal(SIGCONT); }

}  // namespace examples

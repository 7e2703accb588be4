#include "peers/peer_process.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_join.h"
#include "stockade/base/strings.h"

extern char** environ;

namespace stockade::bench {
namespace {

constexpr size_t kLongestLine = 4096;

using SpawnError = int;

// The child's input and output are `end`; what else this process has open closes itself, being close-on-exec.
SpawnError Spawn(const std::vector<std::string>& command, int end, pid_t& pid) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  SpawnError error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO}) {
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, end, standard);
  }
  if (error == 0) error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) return base_internal::Concat("was ended by signal ", WTERMSIG(wait_status));
  return base_internal::Concat("ended with status ", WEXITSTATUS(wait_status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> PeerProcess::Start(std::vector<std::string> command) {
  if (command.empty()) return absl::InvalidArgumentError("peer: no command");
  std::string name = absl::StrJoin(command, " ");
  // A socket pair rather than pipes: sending to a child that is gone can be an error, where writing is a signal.
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ErrnoToStatus(errno, base_internal::Concat("peer '", name, "': no socket pair"));
  }
  pid_t pid = -1;
  const SpawnError error = Spawn(command, ends[1], pid);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return absl::ErrnoToStatus(error, base_internal::Concat("peer '", name, "' does not start"));
  }
  return std::unique_ptr<PeerProcess>(new PeerProcess(std::move(name), pid, ends[0]));
}

PeerProcess::~PeerProcess() { End(); }

absl::StatusOr<std::string> PeerProcess::ReadLine(absl::Duration timeout) {
  if (socket_ < 0) return absl::FailedPreconditionError(base_internal::Concat("peer '", name_, "' has already failed"));
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  while (true) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() > kLongestLine) return Fail(absl::InvalidArgumentError("sent no line end"));

    pollfd readable = {.fd = socket_, .events = POLLIN, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready = poll(&readable, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000)));
    if (ready < 0 && errno != EINTR) return Fail(absl::ErrnoToStatus(errno, "cannot be waited for"));
    if (ready <= 0) {
      if (std::chrono::steady_clock::now() < deadline) continue;
      return Fail(
          absl::DeadlineExceededError(base_internal::Concat("sent no line in ", absl::FormatDuration(timeout))));
    }
    char buffer[512];
    const ssize_t size = recv(socket_, buffer, sizeof(buffer), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return FailAtEnd();
    received_.append(buffer, static_cast<size_t>(size));
  }
}

absl::StatusOr<std::string> PeerProcess::Ask(std::string_view request, absl::Duration timeout) {
  const std::string line = base_internal::Concat(request, "\n");
  // A request fits the socket's buffer, so this does not block.
  for (size_t sent = 0; socket_ >= 0 && sent < line.size();) {
    const ssize_t size = send(socket_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return FailAtEnd();
    sent += static_cast<size_t>(size);
  }
  return ReadLine(timeout);
}

absl::StatusOr<double> PeerProcess::AskForRate(std::string_view request, absl::Duration timeout) {
  const absl::StatusOr<std::string> line = Ask(request, timeout);
  if (!line.ok()) return line.status();
  char* end = nullptr;
  const double rate = std::strtod(line->c_str(), &end);
  if (line->empty() || end != line->c_str() + line->size() || !std::isfinite(rate) || rate <= 0) {
    return Fail(
        absl::InvalidArgumentError(base_internal::Concat("answered '", request, "' with '", *line, "', no rate")));
  }
  return rate;
}

absl::Status PeerProcess::Fail(absl::Status why) {
  End();
  return {why.code(),
          base_internal::AbslView(base_internal::Concat("peer '", name_, "' ", std::string(why.message())))};
}

// The other end is closed: by the child's end, or by the child, which then is of no use either.
absl::Status PeerProcess::FailAtEnd() { return Fail(absl::UnavailableError(HowItEnded(End()))); }

int PeerProcess::End() {
  int wait_status = 0;
  if (pid_ >= 0) {
    kill(pid_, SIGKILL);  // One that is ending already keeps its own status.
    while (waitpid(pid_, &wait_status, 0) < 0 && errno == EINTR) {
    }
  }
  if (socket_ >= 0) close(socket_);
  pid_ = -1;
  socket_ = -1;
  return wait_status;
}

}  // namespace stockade::bench

#include "inventory/crash/victim.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stockade::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr absl::Duration kHung = absl::Seconds(100);

struct Child {
  pid_t pid;
  int output;
};

Child Start(const Round& round, const std::string& crash_at) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) abort();
  std::vector<std::string> args = {STOCKADE_SHOP_UNDER_LOAD,        round.ledger,
                                   absl::StrCat(round.world.seed),  absl::StrCat(round.world.skus),
                                   absl::StrCat(round.world.stock), absl::StrCat(round.number),
                                   absl::StrCat(round.threads),     absl::FormatDuration(round.retention),
                                   absl::StrCat(round.requests)};
  for (const uint32_t count : round.former) args.push_back(absl::StrCat(count));
  std::vector<char*> argv;
  argv.reserve(args.size() + 1);
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::string crash = absl::StrCat("STOCKADE_CRASH_AT=", crash_at);
  std::vector<char*> environment = {crash.data()};
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  Child child{.pid = -1, .output = ends[0]};
  if (posix_spawn(&child.pid, argv[0], &actions, nullptr, argv.data(), environment.data()) != 0) abort();
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  return child;
}

// Whether there is something to read, or the end; false: it is `until`.
bool AwaitOutput(int output, Clock::time_point until) {
  while (true) {
    const auto left = std::max(Clock::duration::zero(), until - Clock::now());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec wait{.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
    pollfd watched{.fd = output, .events = POLLIN, .revents = 0};
    const int ready = ppoll(&watched, 1, &wait, nullptr);
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= until) return false;
  }
}

Clock::time_point After(Clock::time_point begin, absl::Duration span) {
  return begin + absl::ToChronoNanoseconds(std::min(span, absl::Hours(24)));
}

}  // namespace

Ended RunRound(const Round& round, const Death& death, const std::function<void(std::string_view)>& line) {
  const Clock::time_point start = Clock::now();
  const Child child = Start(round, death.crash_at);
  Ended ended;
  uint64_t lines = 0;
  Clock::time_point end = After(start, death.after_start);
  Clock::time_point patience = After(start, kHung);
  bool killed = false;
  std::string text;
  char buffer[65536];
  while (true) {
    if (!killed && !AwaitOutput(child.output, std::min(end, patience))) {
      ended.hung = patience <= end;
      killed = true;
      kill(child.pid, SIGKILL);
    }
    // What was written before it died is still to be read.
    const ssize_t size = read(child.output, buffer, sizeof(buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    patience = After(Clock::now(), kHung);
    text.append(buffer, static_cast<size_t>(size));
    size_t begin = 0;
    for (size_t stop; (stop = text.find('\n', begin)) != std::string::npos; begin = stop + 1) {
      if (text.compare(begin, stop - begin, "open") == 0) {
        ended.opened = true;
        ended.opening = absl::FromChrono(Clock::now() - start);
        end = std::min(end, After(Clock::now(), death.after_opening));
        continue;
      }
      line(std::string_view(text).substr(begin, stop - begin));
      if (++lines == death.lines) end = std::min(end, After(Clock::now(), death.after_lines));
    }
    text.erase(0, begin);
  }
  close(child.output);
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

}  // namespace stockade::testing

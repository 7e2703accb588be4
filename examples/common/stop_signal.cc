#include "common/stop_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

namespace examples {
namespace {

// The handler writes a byte, which is one of the few things that it may safely do, and Wait() polls for it. The pipe is
// never closed: a handler may still run on another thread when the default action is restored.
int stop_pipe[2] = {-1, -1};

void OnSignal(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(stop_pipe[1], "", 1);
  errno = saved;
}

void SetAction(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

StopSignal::StopSignal() {
  // Without a pipe the signals end the process, as they do by default.
  if (stop_pipe[0] < 0 && pipe2(stop_pipe, O_CLOEXEC) != 0) return;
  SetAction(OnSignal);
}

StopSignal::~StopSignal() {
  SetAction(SIG_DFL);
  struct pollfd came = {.fd = stop_pipe[0], .events = POLLIN, .revents = 0};
  if (!reported_ && poll(&came, 1, 0) == 1) raise(SIGTERM);
}

bool StopSignal::Wait(int other) {
  struct pollfd fds[] = {{.fd = stop_pipe[0], .events = POLLIN, .revents = 0},
                         {.fd = other, .events = POLLIN, .revents = 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  reported_ = fds[0].revents != 0;
  return reported_;
}

bool StopSignal::Came() {
  struct pollfd came = {.fd = stop_pipe[0], .events = POLLIN, .revents = 0};
  reported_ = reported_ || poll(&came, 1, 0) == 1;
  return reported_;
}

}  // namespace examples

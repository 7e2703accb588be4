#include "stop_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace flash_sale {
namespace {

// Whichever thread takes the signal writes a byte, the only thing that a handler may safely do; Wait() reads it.
int stop_pipe[2];

void OnSignal(int) {
  const int saved = errno;
  [[maybe_unused]] const ssize_t written = write(stop_pipe[1], "", 1);
  errno = saved;
}

}  // namespace

StopSignal::StopSignal() {
  if (pipe2(stop_pipe, O_CLOEXEC) != 0) return;  // Then the signals end the process, as they do by default.
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  // No SA_RESTART: the read in Wait() is to return. ThreadSanitizer runs handlers only once a system call has ended.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void StopSignal::Wait() {
  char byte;
  while (read(stop_pipe[0], &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace flash_sale

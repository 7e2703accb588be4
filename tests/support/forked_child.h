#ifndef STOCKADE_TESTS_SUPPORT_FORKED_CHILD_H_
#define STOCKADE_TESTS_SUPPORT_FORKED_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

namespace stockade::testing {

// The wait status of a forked child that runs `body` and exits with 0.
template <typename Body>
int InForkedChild(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_FORKED_CHILD_H_

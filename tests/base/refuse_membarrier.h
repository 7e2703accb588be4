#ifndef STOCKADE_TESTS_BASE_REFUSE_MEMBARRIER_H_
#define STOCKADE_TESTS_BASE_REFUSE_MEMBARRIER_H_

#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <iterator>

namespace stockade::testing {

// From now on the kernel answers EPERM to every membarrier(2) of the calling thread, of the threads and children that
// it makes, and of what they exec. For good. False where there are no filters for system calls.
inline bool RefuseMembarrier() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Whether the kernel has membarrier(2) and lets this process use it.
inline bool KernelHasMembarrier() {
  const long commands = syscall(__NR_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_BASE_REFUSE_MEMBARRIER_H_

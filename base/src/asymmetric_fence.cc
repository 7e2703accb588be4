#include "stockade/base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal {
namespace {

long Membarrier(int command) { return syscall(__NR_membarrier, command, 0, 0); }

// A process registers once; the kernel refuses the fence to those that have not.
bool Register() { return Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0; }

}  // namespace

namespace asymmetric_fence_detail {

constinit bool by_membarrier = false;

}  // namespace asymmetric_fence_detail

void InitAsymmetricFence() {
  static const bool settled = [] {
    asymmetric_fence_detail::by_membarrier = Register() && Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
    return true;
  }();
  (void)settled;
}

void HeavyFence() {
  InitAsymmetricFence();                                // A thread without a slot may be on this side only.
  std::atomic_thread_fence(std::memory_order_seq_cst);  // For this thread's own stores and loads.
  if (!asymmetric_fence_detail::by_membarrier) return;
  if (Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  // A forked child may have to register again.
  if (Register() && Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return;
  Fatal(Concat("membarrier(2) fails, although it worked when the process began and locks depend on it: ",
               std::strerror(errno)));
}

}  // namespace stockade::base_internal

#ifndef STOCKADE_BASE_FORK_GUARD_H_
#define STOCKADE_BASE_FORK_GUARD_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "stockade/base/export.h"
#include "stockade/base/floors.h"

namespace stockade::base_internal {

namespace fork_detail {
// The number of forks between the first process and this one. Changed only in a child, by a pthread_atfork handler.
STOCKADE_EXPORT extern constinit std::atomic<uint32_t> generation;
STOCKADE_EXPORT void InstallHandler();
[[noreturn]] STOCKADE_EXPORT void Die(std::string_view what, std::string_view name);
}  // namespace fork_detail

// A member of every object that must not be used in a forked child, because threads, lock holders and sockets do not
// survive fork(). The child may only call exec: other calls on such an object abort, and its destructor does nothing.
// Children of vfork() and posix_spawn() are not affected, because they only call exec.
class ForkGuard {
 public:
  ForkGuard() {
    fork_detail::InstallHandler();
    generation_ = fork_detail::generation.load(std::memory_order_relaxed);
  }

  // True in a child of the process that created the object. A relaxed load is enough: the child starts with a single
  // thread, which is the one that ran the handler.
  bool InForkedChild() const { return generation_ != fork_detail::generation.load(std::memory_order_relaxed); }

  // Aborts in a forked child, naming the object: "stockade: LoadingCache 'products' used after fork; ...".
  void Check(std::string_view what, std::string_view name) const {
    if (InForkedChild()) [[unlikely]] {
      fork_detail::Die(what, name);
    }
  }

 private:
  uint32_t generation_;
};

}  // namespace stockade::base_internal

#endif  // STOCKADE_BASE_FORK_GUARD_H_

#include "stockade/base/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "stockade/base/hazard_row.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade::base_internal::fork_detail {

constinit std::atomic<uint32_t> generation{0};

void InstallHandler() {
  static const int installed = pthread_atfork(nullptr, nullptr, [] {
    generation.fetch_add(1, std::memory_order_relaxed);
    hazard_row_detail::light_row = nullptr;  // A thread with a light row does not check the generation.
  });
  if (installed != 0) std::abort();  // No memory for the handler's node.
}

void Die(std::string_view what, std::string_view name) {
  // Straight to standard error: the log's mutex may have been held in the parent when it forked.
  const std::string line =
      Concat("stockade FATAL: ", what, name.empty() ? "" : " '", Printable(name), name.empty() ? "" : "'",
             " used in a forked child: only exec is supported after fork\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());
  std::abort();
}

}  // namespace stockade::base_internal::fork_detail

#include "stockade/base/crash_point.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace stockade::base_internal {
namespace {

struct Target {
  std::string name = {};
  uint64_t pass = 1;
  unsigned wait_ms = 0;
};

Target ReadTarget() {
  const char* const at = std::getenv("STOCKADE_CRASH_AT");
  if (at == nullptr) return {};
  Target target{.name = at};
  if (const size_t plus = target.name.rfind('+'); plus != std::string::npos) {
    target.wait_ms = static_cast<unsigned>(std::strtoul(at + plus + 1, nullptr, 10));
    target.name.resize(plus);
  }
  if (const size_t hash = target.name.rfind('#'); hash != std::string::npos) {
    target.pass = std::strtoull(at + hash + 1, nullptr, 10);
    target.name.resize(hash);
  }
  return target;
}

const Target& Wanted() {
  static const Target* const target = new Target(ReadTarget());  // Threads may outlive main().
  return *target;
}

std::atomic<uint64_t> passes{0};

}  // namespace

std::atomic<bool> crash_points_armed{!Wanted().name.empty()};

void PassCrashPoint(std::string_view name) {
  if (name != Wanted().name || passes.fetch_add(1, std::memory_order_relaxed) + 1 != Wanted().pass) return;
  (void)usleep(Wanted().wait_ms * 1000);
  // Not through abort(): nothing of this process may run any more.
  (void)kill(getpid(), SIGKILL);
}

}  // namespace stockade::base_internal

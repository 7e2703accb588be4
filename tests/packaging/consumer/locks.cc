#include <stockade/locks/connect_lock_service.h>
#include <stockade/version.h>

#include <cstdio>

// Links every engine that was built, and needs no server.
int main() {
  static_assert(STOCKADE_VERSION_MAJOR == 0);
  if (stockade::LibraryVersion() != STOCKADE_VERSION) return 1;
  const auto locks = stockade::ConnectLockService("local:");
  if (!locks.ok()) return 1;
  const auto held = (*locks)->Acquire("ticket");
  std::printf("%s\n", held.ok() && held->valid() ? "held" : "not held");
  return 0;
}

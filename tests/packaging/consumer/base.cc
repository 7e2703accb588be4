#include <stockade/base/executor.h>
#include <stockade/version.h>

#include <cstdio>

// Calls what takes and returns types of Abseil, in the library with the fewest dependencies.
int main() {
  static_assert(STOCKADE_VERSION_MAJOR == 0);
  if (stockade::LibraryVersion() != STOCKADE_VERSION) return 1;
  const absl::StatusOr<std::unique_ptr<stockade::ThreadPool>> pool = stockade::ThreadPool::Create(1);
  if (!pool.ok()) return 1;
  (*pool)->Schedule([] { std::puts("scheduled"); });
  return 0;
}

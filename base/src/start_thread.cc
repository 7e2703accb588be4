#include "stockade/base/start_thread.h"

#include <latch>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "stockade/base/strings.h"

namespace stockade::base_internal {

absl::Status StartThread(std::thread& thread, absl::AnyInvocable<void()> body) {
  if (!body) return absl::InvalidArgumentError("cannot start a thread without a function");
  try {
    thread = std::thread(std::move(body));
    return absl::OkStatus();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(Concat("cannot start a thread: ", error.code().message()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("cannot start a thread: out of memory");
  }
}

absl::Status TryThreads(int count) {
  std::latch end(1);
  std::vector<std::thread> threads(static_cast<size_t>(count));
  absl::Status status;
  for (std::thread& thread : threads) {
    if (status.ok()) status = StartThread(thread, [&end] { end.wait(); });
  }
  end.count_down();
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return status;
}

}  // namespace stockade::base_internal

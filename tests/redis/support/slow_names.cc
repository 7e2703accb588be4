#include "redis/support/slow_names.h"

#include <dlfcn.h>
#include <netdb.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string_view>

namespace stockade::testing {
namespace {

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  int leaving = 0;  // So many may go.
  int waiting = 0;
  int most_waiting = 0;
  int lookups = 0;
};
Gate& TheGate() {
  static auto* const gate = new Gate;
  return *gate;
}

void Pass() {
  Gate& gate = TheGate();
  std::unique_lock lock(gate.mutex);
  ++gate.lookups;
  gate.most_waiting = std::max(gate.most_waiting, ++gate.waiting);
  gate.changed.notify_all();
  gate.changed.wait(lock, [&] { return gate.open || gate.leaving > 0; });
  gate.leaving = std::max(gate.leaving - 1, 0);
  --gate.waiting;
  gate.changed.notify_all();
}

int Get(int Gate::*number) {
  const std::lock_guard lock(TheGate().mutex);
  return TheGate().*number;
}

}  // namespace

void SlowNames::Reset() {
  const std::lock_guard lock(TheGate().mutex);
  TheGate().open = false;
  TheGate().leaving = 0;
  TheGate().lookups = 0;
  TheGate().most_waiting = 0;
}

void SlowNames::Answer() {
  std::unique_lock lock(TheGate().mutex);
  TheGate().open = true;
  TheGate().changed.notify_all();
  TheGate().changed.wait(lock, [] { return TheGate().waiting == 0; });
}

void SlowNames::LetGo(int count) {
  std::unique_lock lock(TheGate().mutex);
  TheGate().changed.wait(lock, [&] { return TheGate().waiting >= count; });
  TheGate().leaving += count;
  TheGate().changed.notify_all();
  TheGate().changed.wait(lock, [] { return TheGate().leaving == 0; });
}

void SlowNames::AwaitWaiting(int count) {
  std::unique_lock lock(TheGate().mutex);
  TheGate().changed.wait(lock, [&] { return TheGate().waiting >= count; });
}

int SlowNames::waiting() { return Get(&Gate::waiting); }
int SlowNames::most_waiting() { return Get(&Gate::most_waiting); }
int SlowNames::lookups() { return Get(&Gate::lookups); }

}  // namespace stockade::testing

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** result) {
  static auto* const real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  const std::string_view name = host == nullptr ? "" : host;
  const bool numeric_only = hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0;
  const bool slow = name == "slow.test" || name.ends_with(".slow.test");
  if (numeric_only || (!slow && name != "fast.test")) return real(host, service, hints, result);
  if (slow) stockade::testing::Pass();
  return real("127.0.0.1", service, hints, result);
}

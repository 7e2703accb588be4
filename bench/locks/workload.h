#ifndef STOCKADE_BENCH_LOCKS_WORKLOAD_H_
#define STOCKADE_BENCH_LOCKS_WORKLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "locks/peers.h"
#include "measure/threads.h"
#include "stockade/base/strings.h"
#include "stockade/base/thread_annotations.h"

namespace stockade::bench {

inline constexpr int64_t kBatch = 256;

// What the lock guards has a line of its own, so that what is measured is the lock.
template <typename Mutex>
struct Guarded {
  template <typename... Args>
  explicit Guarded(const Args&... args) : mutex(args...) {}

  alignas(128) Mutex mutex;
  alignas(128) int64_t counter = 0;
};

// Worker::RunFor() under the conditions of the contestant `Mutex`, which each thread sets up before the start and takes
// back after the end.
//
// A body first copies the captures that its loop needs: KeepAlive() makes the compiler load captures again in every
// round, but not the variables that only the loop can see.
template <typename Mutex, typename Body>
Throughput Hammer(Worker& worker, absl::Duration span, int64_t batch, Body&& body) {
  [[maybe_unused]] const Conditions<Mutex> conditions{};
  return worker.RunFor(span, batch, body);
}

template <typename Mutex>
void LockAndAdd(Guarded<Mutex>& guarded) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
  guarded.mutex.lock();
  KeepAlive(++guarded.counter);
  guarded.mutex.unlock();
}

template <typename Mutex>
void LockSharedAndLook(Guarded<Mutex>& guarded) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
  guarded.mutex.lock_shared();
  KeepAlive(guarded.counter);
  guarded.mutex.unlock_shared();
}

// All threads do nothing but LockAndAdd().
template <typename Mutex>
Throughput Write(Guarded<Mutex>& guarded, Worker& worker, absl::Duration span, int64_t batch = kBatch) {
  return Hammer<Mutex>(worker, span, batch, [&](size_t, int64_t ops) {
    Guarded<Mutex>& here = guarded;
    for (int64_t i = 0; i < ops; ++i) LockAndAdd(here);
  });
}

// All threads do nothing but LockSharedAndLook().
template <typename Mutex>
Throughput Read(Guarded<Mutex>& guarded, Worker& worker, absl::Duration span) {
  return Hammer<Mutex>(worker, span, kBatch, [&](size_t, int64_t ops) {
    Guarded<Mutex>& here = guarded;
    for (int64_t i = 0; i < ops; ++i) LockSharedAndLook(here);
  });
}

// "<what>, alone" or "<what>, 8 threads".
inline std::string WithThreads(std::string_view what, size_t threads) {
  return threads == 1 ? base_internal::Concat(what, ", alone") : base_internal::Concat(what, ", ", threads, " threads");
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_WORKLOAD_H_

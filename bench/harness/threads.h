#ifndef STOCKADE_BENCH_HARNESS_THREADS_H_
#define STOCKADE_BENCH_HARNESS_THREADS_H_

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace stockade::bench {

// Makes the compiler believe that `value` is looked at, and that memory may have changed.
template <typename T>
void KeepAlive(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// What N threads did together, from the first one's start to the last one's end.
struct Throughput {
  int64_t ops = 0;
  double seconds = 0;
  std::vector<int64_t> ops_by_thread = {};  // Their sum is `ops`.

  double NsPerOp() const { return seconds * 1e9 / static_cast<double>(ops); }  // In all: elapsed time / operations.
  double PerSecond() const { return static_cast<double>(ops) / seconds; }
  double MillionsPerSecond() const { return PerSecond() / 1e6; }
  // What the slowest thread did, over what each would have done had all done the same: 1 is perfectly fair.
  double SlowestShare() const {
    const int64_t least = *std::min_element(ops_by_thread.begin(), ops_by_thread.end());
    return static_cast<double>(least) * static_cast<double>(ops_by_thread.size()) / static_cast<double>(ops);
  }
};

namespace detail {

using SteadyTime = std::chrono::steady_clock::time_point;

// Padded, so that what one thread notes at its end disturbs no other.
struct alignas(128) ThreadRun {
  SteadyTime begin;
  SteadyTime end;
  int64_t ops = 0;
};

// Even a single thread is a thread of its own: libstdc++ leaves atomics out of programs that have only one.
template <typename Work>
Throughput RunThreads(size_t threads, Work& work) {
  std::vector<ThreadRun> runs(threads);
  std::barrier start(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::thread> workers;
  for (size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      start.arrive_and_wait();
      runs[i].begin = std::chrono::steady_clock::now();
      runs[i].ops = work(i, runs[i].begin);
      runs[i].end = std::chrono::steady_clock::now();
    });
  }
  for (std::thread& worker : workers) worker.join();

  SteadyTime begin = runs[0].begin;
  SteadyTime end = runs[0].end;
  Throughput total;
  for (const ThreadRun& run : runs) {
    begin = std::min(begin, run.begin);
    end = std::max(end, run.end);
    total.ops += run.ops;
    total.ops_by_thread.push_back(run.ops);
  }
  total.seconds = std::chrono::duration<double>(end - begin).count();
  return total;
}

}  // namespace detail

// Each thread runs body(thread, batch) over and over until `span` has passed. For work that goes on for ever: no thread
// runs on alone once the others are done. The clock is read once a batch.
template <typename Body>
Throughput RunFor(size_t threads, absl::Duration span, int64_t batch, Body&& body) {
  auto work = [&](size_t thread, detail::SteadyTime begin) {
    const detail::SteadyTime deadline = begin + absl::ToChronoNanoseconds(span);
    int64_t ops = 0;
    do {
      body(thread, batch);
      ops += batch;
    } while (std::chrono::steady_clock::now() < deadline);
    return ops;
  };
  return detail::RunThreads(threads, work);
}

// Each thread runs body(thread, ops) once. For work that uses something up.
template <typename Body>
Throughput RunOps(size_t threads, int64_t ops, Body&& body) {
  auto work = [&](size_t thread, detail::SteadyTime) {
    body(thread, ops);
    return ops;
  };
  return detail::RunThreads(threads, work);
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_HARNESS_THREADS_H_

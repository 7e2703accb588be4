#ifndef STOCKADE_BENCH_MEASURE_THREADS_H_
#define STOCKADE_BENCH_MEASURE_THREADS_H_

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/time/time.h"

namespace stockade::bench {

// Makes the compiler assume that `value` is read, and that memory may have changed.
template <typename T>
void KeepAlive(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// What all threads did together, from the start of the first one to the end of the last one.
struct Throughput {
  int64_t ops = 0;
  double seconds = 0;
  std::vector<int64_t> ops_by_thread = {};  // Their sum is `ops`.

  double NsPerOp() const { return seconds * 1e9 / static_cast<double>(ops); }  // Elapsed time / all operations.
  double PerSecond() const { return static_cast<double>(ops) / seconds; }
  double MillionsPerSecond() const { return PerSecond() / 1e6; }
  // The operations of the slowest thread divided by an equal share: 1 is perfectly fair.
  double SlowestShare() const {
    const int64_t least = *std::min_element(ops_by_thread.begin(), ops_by_thread.end());
    return static_cast<double>(least) * static_cast<double>(ops_by_thread.size()) / static_cast<double>(ops);
  }
};

// What the threads of one benchmark share.
struct Crew {
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct alignas(128) Run {  // Padded: a thread that notes its end does not disturb the others.
    SteadyTime begin;
    SteadyTime end;
    int64_t ops = 0;
    const void* value = nullptr;  // Of Worker::Gather().
  };

  explicit Crew(size_t threads) : barrier(static_cast<std::ptrdiff_t>(threads)), runs(threads) {}

  std::barrier<> barrier;
  std::vector<Run> runs;
};

// One thread of a benchmark. All threads of the crew make the same calls in the same order, and each call returns when
// all have done their part.
class Worker {
 public:
  Worker(Crew& crew, size_t thread) : crew_(crew), thread_(thread) {}

  size_t thread() const { return thread_; }
  size_t threads() const { return crew_.runs.size(); }

  // Thread 0 calls `work`.
  template <typename Work>
  void Once(const Work& work) {
    if (thread_ == 0) work();
    crew_.barrier.arrive_and_wait();
  }

  // Each thread calls body(thread, batch) repeatedly until `span` has passed, and reads the clock once per batch.
  // Google Benchmark would give each thread the same number of iterations. Threads that get a contended lock less often
  // would then finish without contention.
  template <typename Body>
  Throughput RunFor(absl::Duration span, int64_t batch, const Body& body) {
    return Run([&](Crew::SteadyTime begin) {
      const Crew::SteadyTime deadline = begin + absl::ToChronoNanoseconds(span);
      int64_t ops = 0;
      do {
        body(thread_, batch);
        ops += batch;
      } while (std::chrono::steady_clock::now() < deadline);
      return ops;
    });
  }

  // Each thread calls body(thread, ops) once, for work that cannot go on forever.
  template <typename Body>
  Throughput RunOps(int64_t ops, const Body& body) {
    return Run([&](Crew::SteadyTime) { return body(thread_, ops), ops; });
  }

  // Thread 0 calls use(value) for the value of each thread.
  template <typename T, typename Use>
  void Gather(const T& mine, const Use& use) {
    crew_.runs[thread_].value = &mine;
    crew_.barrier.arrive_and_wait();
    Once([&] {
      for (const Crew::Run& run : crew_.runs) use(*static_cast<const T*>(run.value));
    });
  }

 private:
  template <typename Work>
  Throughput Run(const Work& work) {
    Crew::Run& mine = crew_.runs[thread_];
    crew_.barrier.arrive_and_wait();
    mine.begin = std::chrono::steady_clock::now();
    mine.ops = work(mine.begin);
    mine.end = std::chrono::steady_clock::now();
    crew_.barrier.arrive_and_wait();
    Throughput total;
    Crew::Run whole = mine;
    for (const Crew::Run& run : crew_.runs) {
      whole.begin = std::min(whole.begin, run.begin);
      whole.end = std::max(whole.end, run.end);
      total.ops += run.ops;
      total.ops_by_thread.push_back(run.ops);
    }
    total.seconds = std::chrono::duration<double>(whole.end - whole.begin).count();
    return total;
  }

  Crew& crew_;
  const size_t thread_;
};

// Calls work(worker) on `threads` threads, outside of a benchmark.
template <typename Work>
void RunCrew(size_t threads, const Work& work) {
  Crew crew(threads);
  std::vector<std::jthread> workers;
  for (size_t i = 0; i < threads; ++i) {
    workers.emplace_back([&, i] {
      Worker worker(crew, i);
      work(worker);
    });
  }
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_MEASURE_THREADS_H_

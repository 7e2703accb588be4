#ifndef STOCKADE_TESTS_SUPPORT_RUN_THREADS_H_
#define STOCKADE_TESTS_SUPPORT_RUN_THREADS_H_

#include <latch>
#include <thread>
#include <vector>

namespace stockade::testing {

// Runs body(0) to body(count - 1), each on a thread, all let go at the same moment; returns when all have ended.
template <typename Body>
void RunThreads(int count, const Body& body) {
  std::latch start(count);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_RUN_THREADS_H_

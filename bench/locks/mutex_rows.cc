// Lock, add one, unlock. Nanoseconds an operation are of all threads together: elapsed time / operations.
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

template <typename Mutex, typename... Args>
Measurement Contend(absl::Duration span, const Args&... args) {
  return [=, guarded = std::make_shared<Guarded<Mutex>>(args...)](Worker& worker) {
    return Write(*guarded, worker, span).NsPerOp();
  };
}

// The locks are beside each other in an array, and each thread uses all of them, one after another.
enum class Order { kOfTheArray, kRandom };

template <typename Mutex>
Measurement ContendForMany(size_t threads, Order order, absl::Duration span) {
  using Indices = std::array<size_t, 1000>;
  std::vector<Indices> turns(threads);
  for (size_t thread = 0; thread < threads; ++thread) {
    std::iota(turns[thread].begin(), turns[thread].end(), size_t{0});
    if (order == Order::kOfTheArray) continue;
    std::shuffle(turns[thread].begin(), turns[thread].end(), std::mt19937(static_cast<uint32_t>(thread + 1)));
  }
  const auto locks = std::make_shared<std::array<Mutex, Indices().size()>>();
  return [=, turns = std::move(turns)](Worker& worker) {
    const auto body = [&](size_t thread, int64_t) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
      auto& here = *locks;
      int64_t counter = 0;
      for (const size_t i : turns[thread]) {
        here[i].lock();
        KeepAlive(++counter);
        here[i].unlock();
      }
    };
    return Hammer<Mutex>(worker, span, Indices().size(), body).NsPerOp();
  };
}

// Alone, the claim is against the reentrant lock of the standard library. With more threads it is to be no worse than
// the best of that and nsync, hence than either.
std::string MutexTarget(size_t threads, std::string_view peer) {
  const bool recursive = peer == "std::recursive_mutex";
  if (threads == 1) return recursive ? "<= 0.6" : "-";
  if (threads == 4) return "-";
  return recursive || peer == kNsync ? "<= 1" : "-";
}

}  // namespace

void AddMutexRows(Suite& suite) {
  for (const size_t threads : {1, 2, 4, 8}) {
    ForEachMutex([&]<typename Mutex>(Peer<Mutex> peer) {
      suite.Add({.name = WithThreads("mutex", threads),
                 .unit = "ns/op",
                 .peer = std::string(peer.name),
                 .target = MutexTarget(threads, peer.name)},
                {.threads = threads, .prepare = [](const Scale& scale) -> Contestants {
                   return {Contend<ReentrantMutex>(scale.span), Contend<Mutex>(scale.span)};
                 }});
    });
  }
  for (const size_t threads : {1, 2}) {
    for (const Order order : {Order::kOfTheArray, Order::kRandom}) {
      const char* const what = order == Order::kRandom ? "mutex, 1,000 at random" : "mutex, 1,000 in turn";
      suite.Add({.name = WithThreads(what, threads), .unit = "ns/op", .peer = "std::recursive_mutex", .target = "<= 1"},
                {.threads = threads, .prepare = [=](const Scale& scale) -> Contestants {
                   return {ContendForMany<ReentrantMutex>(threads, order, scale.span),
                           ContendForMany<std::recursive_mutex>(threads, order, scale.span)};
                 }});
    }
  }
  suite.Add({.name = "mutex, FIFO, 2 threads", .unit = "ns/op", .peer = "std::mutex"},
            {.threads = 2, .prepare = [](const Scale& scale) -> Contestants {
               return {Contend<ReentrantMutex>(scale.span, LockOptions{.fifo = true}), Contend<std::mutex>(scale.span)};
             }});
}

}  // namespace stockade::bench

// Reads alone, reads by two threads, and mixes with writes, each of which touches one guarded number.
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "harness/threads.h"
#include "locks/peers.h"
#include "locks/rows.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#ifdef STOCKADE_BENCH_BOOST
#include <boost/thread/shared_mutex.hpp>
#endif
#ifdef STOCKADE_BENCH_TBB
#include <oneapi/tbb/rw_mutex.h>
#endif

namespace stockade::bench {
namespace {

constexpr int64_t kBatch = 256;

template <typename Mutex>
struct Guarded {
  alignas(128) Mutex mutex;
  alignas(128) int64_t counter = 0;
};

// Every `write_every`-th operation writes; 0: none does.
template <typename Mutex>
Throughput Run(Guarded<Mutex>& guarded, size_t threads, absl::Duration span, int64_t write_every) {
  return RunFor(threads, span, kBatch, [&, write_every](size_t thread, int64_t ops) {
    for (int64_t i = 1; i <= ops; ++i) {
      if (write_every != 0 && (i + static_cast<int64_t>(thread)) % write_every == 0) {
        guarded.mutex.lock();
        KeepAlive(++guarded.counter);
        guarded.mutex.unlock();
      } else {
        guarded.mutex.lock_shared();
        KeepAlive(guarded.counter);
        guarded.mutex.unlock_shared();
      }
    }
  });
}

template <typename Mutex>
Measurement Ns(size_t threads, absl::Duration span, int64_t write_every) {
  return
      [=, guarded = std::make_shared<Guarded<Mutex>>()] { return Run(*guarded, threads, span, write_every).NsPerOp(); };
}

template <typename Mutex>
Measurement ReadsMillionsPerSecond(size_t threads, absl::Duration span) {
  return
      [=, guarded = std::make_shared<Guarded<Mutex>>()] { return Run(*guarded, threads, span, 0).MillionsPerSecond(); };
}

template <typename Peer>
void AddReads(Suite& suite, const std::string& peer, Target alone, Target together) {
  suite.Add({.name = "read lock, alone",
             .unit = "ns/op",
             .peer = peer,
             .target = alone,
             .prepare = [](const Scale& scale) -> Contestants {
               return {Ns<ReentrantSharedMutex>(1, scale.span, 0), Ns<Peer>(1, scale.span, 0)};
             }});
  suite.Add({.name = "read lock, 2 threads",
             .unit = "M/s",
             .peer = peer,
             .better = Better::kHigher,
             .target = together,
             .prepare = [](const Scale& scale) -> Contestants {
               return {ReadsMillionsPerSecond<ReentrantSharedMutex>(2, scale.span),
                       ReadsMillionsPerSecond<Peer>(2, scale.span)};
             }});
}

void AddMix(Suite& suite, const std::string& name, int64_t write_every, Target target) {
  suite.Add({.name = name,
             .unit = "ns/op",
             .peer = "std::shared_mutex",
             .target = target,
             .prepare = [=](const Scale& scale) -> Contestants {
               return {Ns<ReentrantSharedMutex>(2, scale.span, write_every),
                       Ns<std::shared_mutex>(2, scale.span, write_every)};
             }});
}

}  // namespace

void AddSharedMutexRows(Suite& suite) {
  AddReads<std::shared_mutex>(suite, "std::shared_mutex", Target::RatioAtMost(0.3), Target::RatioAtLeast(15));
  AddReads<AbslMutex>(suite, "absl::Mutex", Target::None(), Target::None());
#ifdef STOCKADE_BENCH_NSYNC
  AddReads<NsyncMutex>(suite, "nsync_mu", Target::None(), Target::None());
#else
  suite.LeaveOut("read lock against nsync", "nsync was not found (libnsync-dev)");
#endif
#ifdef STOCKADE_BENCH_BOOST
  AddReads<boost::shared_mutex>(suite, "boost::shared_mutex", Target::None(), Target::None());
#else
  suite.LeaveOut("read lock against boost::shared_mutex", "Boost was not found (libboost-thread-dev)");
#endif
#ifdef STOCKADE_BENCH_TBB
  AddReads<tbb::rw_mutex>(suite, "tbb::rw_mutex", Target::None(), Target::None());
#else
  suite.LeaveOut("read lock against tbb::rw_mutex", "TBB was not found (libtbb-dev)");
#endif
  suite.Add({.name = "read lock, 2 threads",
             .unit = "M/s",
             .peer = "ours, 1 thread",
             .better = Better::kHigher,
             .target = Target::RatioAtLeast(1.8),
             .prepare = [](const Scale& scale) -> Contestants {
               return {ReadsMillionsPerSecond<ReentrantSharedMutex>(2, scale.span),
                       ReadsMillionsPerSecond<ReentrantSharedMutex>(1, scale.span)};
             }});
  AddMix(suite, "90 % reads, 2 threads", 10, Target::None());
  AddMix(suite, "50 % writes, 2 threads", 2, Target::RatioAtMost(1.2));
}

}  // namespace stockade::bench

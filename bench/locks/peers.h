#ifndef STOCKADE_BENCH_LOCKS_PEERS_H_
#define STOCKADE_BENCH_LOCKS_PEERS_H_

// The peers under the names that the standard gives to the calls of locks, and how rows find them: With...(add) and
// ForEach...(add) call add(Peer<Mutex>{name}) for those that were found when this was built.

#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "absl/synchronization/mutex.h"
#include "harness/suite.h"
#ifdef STOCKADE_BENCH_NSYNC
#include <nsync.h>
#endif
#ifdef STOCKADE_BENCH_BOOST
#include <boost/thread/recursive_mutex.hpp>
#include <boost/thread/shared_mutex.hpp>
#endif
#ifdef STOCKADE_BENCH_TBB
#include <oneapi/tbb/mutex.h>
#include <oneapi/tbb/rw_mutex.h>
#endif

namespace stockade::bench {

// As Debian builds it. With deadlock detection: what a program gets that does nothing about it.
template <bool kDetectsDeadlocks>
class AbslMutex {
 public:
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.Unlock(); }
  void lock_shared() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.ReaderLock(); }
  void unlock_shared() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_.ReaderUnlock(); }

 private:
  absl::Mutex mutex_;
};

#ifdef STOCKADE_BENCH_NSYNC
class NsyncMutex {
 public:
  NsyncMutex() { nsync::nsync_mu_init(&mutex_); }

  void lock() { nsync::nsync_mu_lock(&mutex_); }
  void unlock() { nsync::nsync_mu_unlock(&mutex_); }
  void lock_shared() { nsync::nsync_mu_rlock(&mutex_); }
  void unlock_shared() { nsync::nsync_mu_runlock(&mutex_); }

 private:
  nsync::nsync_mu mutex_;
};
#endif

// Sets the process up for the contestant `Mutex` as long as it lives; most want nothing.
template <typename Mutex>
struct Conditions {};

// The switch is one for the process, and on when a program of Debian's starts.
template <>
struct Conditions<AbslMutex<false>> {
  Conditions() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }
  ~Conditions() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kAbort); }

  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;
};

template <typename MutexType>
struct Peer {
  using Mutex = MutexType;
  std::string_view name;
};

inline constexpr std::string_view kNsync = "nsync_mu";

template <typename Add>
void WithNsync([[maybe_unused]] const Add& add) {
#ifdef STOCKADE_BENCH_NSYNC
  add(Peer<NsyncMutex>{kNsync});
#endif
}

template <typename Add>
void WithTbbRwMutex([[maybe_unused]] const Add& add) {
#ifdef STOCKADE_BENCH_TBB
  add(Peer<tbb::rw_mutex>{"tbb::rw_mutex"});
#endif
}

template <typename Add>
void WithAbsl(const Add& add) {
  add(Peer<AbslMutex<true>>{"absl::Mutex"});
  add(Peer<AbslMutex<false>>{"absl::Mutex, no deadlock detection"});
}

template <typename Add>
void ForEachMutex(const Add& add) {
  add(Peer<std::recursive_mutex>{"std::recursive_mutex"});
  WithNsync(add);
  add(Peer<std::mutex>{"std::mutex"});
  WithAbsl(add);
#ifdef STOCKADE_BENCH_BOOST
  add(Peer<boost::recursive_mutex>{"boost::recursive_mutex"});
#endif
#ifdef STOCKADE_BENCH_TBB
  add(Peer<tbb::mutex>{"tbb::mutex"});
#endif
}

template <typename Add>
void ForEachSharedMutex(const Add& add) {
  add(Peer<std::shared_mutex>{"std::shared_mutex"});
  WithNsync(add);
  WithTbbRwMutex(add);
  WithAbsl(add);
#ifdef STOCKADE_BENCH_BOOST
  add(Peer<boost::shared_mutex>{"boost::shared_mutex"});
#endif
}

inline void NoteMissingPeers([[maybe_unused]] Suite& suite) {
#ifndef STOCKADE_BENCH_NSYNC
  suite.LeaveOut("rows against nsync", "it was not found (libnsync-dev)");
#endif
#ifndef STOCKADE_BENCH_BOOST
  suite.LeaveOut("rows against Boost", "it was not found (libboost-thread-dev)");
#endif
#ifndef STOCKADE_BENCH_TBB
  suite.LeaveOut("rows against oneTBB", "it was not found (libtbb-dev)");
#endif
}

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_PEERS_H_

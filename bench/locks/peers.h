#ifndef STOCKADE_BENCH_LOCKS_PEERS_H_
#define STOCKADE_BENCH_LOCKS_PEERS_H_

// The peers under the names that the standard gives to locks. Those that were not found are not here.

#include "absl/synchronization/mutex.h"
#ifdef STOCKADE_BENCH_NSYNC
#include <nsync.h>
#endif

namespace stockade::bench {

// As Debian builds it, deadlock detection included: what a program gets that does nothing about it.
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

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_PEERS_H_

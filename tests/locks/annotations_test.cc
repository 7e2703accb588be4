// Compiled with clang's -Wthread-safety as an error: what the annotations promise is that this compiles.
#include <gtest/gtest.h>

#include <chrono>

#include "stockade/base/thread_annotations.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"

namespace stockade {
namespace {

class Guarded {
 public:
  void Scoped() {
    {
      ReentrantMutexGuard guard(mutex_);
      AddLocked();
    }
    {
      WriteGuard guard(shared_);
      ++seen_;
    }
  }

  void ByHand() {
    mutex_.lock();
    AddLocked();
    mutex_.unlock();
    if (mutex_.try_lock_for(std::chrono::milliseconds(1))) {
      AddLocked();
      mutex_.unlock();
    }
    if (shared_.try_lock()) {
      ++seen_;
      shared_.unlock();
    }
  }

  int Count() {
    ReentrantMutexGuard guard(mutex_);
    return count_;
  }
  int Seen() {
    ReadGuard guard(shared_);
    return seen_;
  }

 private:
  void AddLocked() STOCKADE_REQUIRES(mutex_) { ++count_; }

  ReentrantMutex mutex_;
  int count_ STOCKADE_GUARDED_BY(mutex_) = 0;
  ReentrantSharedMutex shared_;
  int seen_ STOCKADE_GUARDED_BY(shared_) = 0;
};

TEST(ThreadAnnotationsTest, GuardsAndCallsByHand_GuardWhatTheySay) {
  Guarded guarded;
  guarded.Scoped();
  guarded.ByHand();
  EXPECT_EQ(guarded.Count(), 3);
  EXPECT_EQ(guarded.Seen(), 2);
}

}  // namespace
}  // namespace stockade

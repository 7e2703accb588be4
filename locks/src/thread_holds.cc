#include "thread_holds.h"

#include <pthread.h>

#include <memory>

#include "lock_metrics.h"
#include "stockade/base/log.h"

namespace stockade::internal {
namespace {

constinit thread_local ThreadHolds* this_thread_holds = nullptr;

pthread_key_t KeyWithDestructor(void (*at_thread_end)(void*)) {
  static const pthread_key_t key = [&] {
    pthread_key_t made;
    if (pthread_key_create(&made, at_thread_end) != 0) Fatal("locks: no pthread key is left for the record of holds");
    return made;
  }();
  return key;
}

}  // namespace

ThreadHolds& ThreadHolds::Mine() {
  ThreadHolds* const mine = this_thread_holds;
  if (mine != nullptr && !mine->fork_guard_.InForkedChild()) [[likely]] {
    return *mine;
  }
  return Make();
}

ThreadHolds& ThreadHolds::Make() {
  delete this_thread_holds;  // From before a fork, or null.
  this_thread_holds = new ThreadHolds;
  pthread_setspecific(KeyWithDestructor(&AtThreadEnd), this_thread_holds);
  return *this_thread_holds;
}

void ThreadHolds::AtThreadEnd(void* record) {
  std::unique_ptr<ThreadHolds> holds(static_cast<ThreadHolds*>(record));
  if (!holds->holds_.empty() && !holds->fork_guard_.InForkedChild()) {
    if (holds->end_seen_) holds->holds_.begin()->first->identity().Die("held by a thread that ends");
    // Destructors of other pthread keys may release it yet: pthreads calls again after them.
    holds->end_seen_ = true;
    pthread_setspecific(KeyWithDestructor(&AtThreadEnd), holds.release());
    return;
  }
  this_thread_holds = nullptr;
}

bool ThreadHolds::NextIsSampled() {
  if (until_sample_ > 0) {
    --until_sample_;
    return false;
  }
  until_sample_ = kHoldSampling - 1;
  return true;
}

}  // namespace stockade::internal

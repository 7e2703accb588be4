#ifndef STOCKADE_LOCKS_SRC_ENGINES_LOCAL_CIRCUIT_H_
#define STOCKADE_LOCKS_SRC_ENGINES_LOCAL_CIRCUIT_H_

#include <optional>

#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"

namespace stockade::locks_internal {

// Spares callers the time-out of somebody who has just failed to answer: he is left alone for a pause, and then asked
// by one caller in each pause until he answers. Thread-safe.
class Circuit {
 public:
  Circuit(Clock* clock, absl::Duration pause) : clock_(clock), pause_(pause) {}

  // Whether this caller is to ask.
  bool MayAsk() {
    const MutexLock lock(mutex_);
    if (!ask_again_.has_value()) return true;
    const Instant now = clock_->Now();
    if (now < *ask_again_) return false;
    ask_again_ = now + pause_;
    return true;
  }

  // What became of it. True: it is news.
  bool Failed() {
    const MutexLock lock(mutex_);
    const bool news = !ask_again_.has_value();
    ask_again_ = clock_->Now() + pause_;
    return news;
  }
  bool Answered() {
    const MutexLock lock(mutex_);
    const bool news = ask_again_.has_value();
    ask_again_.reset();
    return news;
  }

 private:
  Clock* const clock_;
  const absl::Duration pause_;
  Mutex mutex_;
  std::optional<Instant> ask_again_ STOCKADE_GUARDED_BY(mutex_);  // None: he answers.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_LOCAL_CIRCUIT_H_

#ifndef STOCKADE_CACHE_INTERNAL_CALL_GATE_H_
#define STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "stockade/base/futex.h"

namespace stockade::cache_internal {

// Counts the calls inside a cache, for which its destructor waits. Tasks in an executor's queue share the gate: a task
// that runs after the cache is gone finds the gate closed and accesses nothing else.
//
// Invariant: after Close() has returned, no call enters. After AwaitEmpty() has returned then, no call is inside. The
// count is divided into stripes, so that calls contend for the gate only if they contend for the cache's shard as well.
// There is no mutex, so that thousands of calls that are answered at once can leave at once.
//
// Memory order: all accesses to a stripe are read-modify-writes of one word. A call therefore enters either before
// Close(), which then sees its count, or afterwards and sees that the gate is closed. Leaving is a release and
// AwaitEmpty() is an acquire: everything that a call did happens before the cache is destroyed.
class CallGate {
  static constexpr uint32_t kClosed = 1;
  static constexpr uint32_t kInside = 2;  // Multiplied by the number of calls inside, which is below 2^31.

  struct alignas(64) Stripe {
    std::atomic<uint32_t> word{0};
  };

 public:
  static constexpr size_t kStripes = 16;

  // One call. Leaves when destroyed if it was admitted.
  class Call {
   public:
    Call(CallGate& gate, size_t stripe) : stripe_(gate.stripes_[stripe]) {
      inside_ = (stripe_.word.fetch_add(kInside, std::memory_order_acquire) & kClosed) == 0;
      if (!inside_) Leave(stripe_);
    }
    ~Call() {
      if (inside_) Leave(stripe_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    bool inside() const { return inside_; }

   private:
    Stripe& stripe_;
    bool inside_;
  };

  void Close() {
    for (Stripe& stripe : stripes_) stripe.word.fetch_or(kClosed, std::memory_order_acq_rel);
  }
  bool closed() const { return (stripes_.back().word.load(std::memory_order_relaxed) & kClosed) != 0; }
  void AwaitEmpty() {
    for (Stripe& stripe : stripes_) {
      for (uint32_t word = stripe.word.load(std::memory_order_acquire); word != kClosed;
           word = stripe.word.load(std::memory_order_acquire)) {
        base_internal::FutexWait(stripe.word, word, std::chrono::steady_clock::time_point::max());
      }
    }
  }

 private:
  // After the subtraction the gate may be gone: only the word's address is used.
  static void Leave(Stripe& stripe) {
    const uint32_t before = stripe.word.fetch_sub(kInside, std::memory_order_release);
    if (before == (kInside | kClosed)) base_internal::FutexWake(stripe.word, std::numeric_limits<int>::max());
  }

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

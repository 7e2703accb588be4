#ifndef STOCKADE_CACHE_INTERNAL_CALL_GATE_H_
#define STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stockade/base/export.h"

namespace stockade::internal {

// Who is inside a cache: what its destructor waits for. Tasks that wait on an executor share the gate, so that one
// which comes up after the cache is gone finds it closed and touches nothing else.
//
// Invariant: once Close() has returned nobody enters; once AwaitEmpty() has, after that, nobody is inside. Counted in
// stripes, so that calls meet on a gate only where they meet on the cache's shard as well. No mutex: thousands that are
// answered at once leave at once.
//
// Ordering: all steps on a stripe are read-modify-writes of one word, so an entry comes either before Close(), which
// then sees its count, or after, and sees it closed. Leaving releases and AwaitEmpty() acquires: what a call did
// happens before the end of the cache.
class STOCKADE_EXPORT CallGate {
 public:
  static constexpr size_t kStripes = 16;

  // One call. Leaves when destroyed, if it was let in.
  class Call {
   public:
    Call(CallGate& gate, size_t stripe);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    bool inside() const { return inside_; }

   private:
    CallGate& gate_;
    const size_t stripe_;
    bool inside_;
  };

  void Close();
  void AwaitEmpty();

 private:
  static constexpr uint32_t kClosed = 1;
  static constexpr uint32_t kInside = 2;  // Times who is inside; fewer than 2^31 are.

  struct alignas(64) Stripe {
    std::atomic<uint32_t> word{0};
  };

  static void Leave(Stripe& stripe);

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

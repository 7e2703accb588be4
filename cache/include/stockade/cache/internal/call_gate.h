#ifndef STOCKADE_CACHE_INTERNAL_CALL_GATE_H_
#define STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stockade/base/export.h"

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
class STOCKADE_EXPORT CallGate {
 public:
  static constexpr size_t kStripes = 16;

  // One call. Leaves when destroyed if it was admitted.
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
  static constexpr uint32_t kInside = 2;  // Multiplied by the number of calls inside, which is below 2^31.

  struct alignas(64) Stripe {
    std::atomic<uint32_t> word{0};
  };

  static void Leave(Stripe& stripe);

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

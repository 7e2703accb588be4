#ifndef STOCKADE_CACHE_INTERNAL_CALL_GATE_H_
#define STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace stockade::internal {

// Who is inside a cache: what its destructor waits for. Tasks that wait on an executor share the gate, so that one
// which comes up after the cache is gone finds it closed and touches nothing else.
//
// Invariant: once Close() has returned nobody enters; once AwaitEmpty() has, after that, nobody is inside. Counted in
// stripes, so that calls meet on a gate only where they meet on the cache's shard as well.
class CallGate {
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
  struct alignas(64) Stripe {
    std::mutex mutex;
    std::condition_variable left;
    int64_t inside = 0;   // Guarded by mutex.
    bool closed = false;  // Guarded by mutex.
  };

  std::array<Stripe, kStripes> stripes_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_CALL_GATE_H_

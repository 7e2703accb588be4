#include "stockade/cache/internal/call_gate.h"

#include <chrono>
#include <limits>

#include "stockade/base/futex.h"

namespace stockade::cache_internal {

CallGate::Call::Call(CallGate& gate, size_t stripe) : gate_(gate), stripe_(stripe) {
  Stripe& mine = gate_.stripes_[stripe_];
  inside_ = (mine.word.fetch_add(kInside, std::memory_order_acquire) & kClosed) == 0;
  if (!inside_) Leave(mine);
}

CallGate::Call::~Call() {
  if (inside_) Leave(gate_.stripes_[stripe_]);
}

// After the subtraction the gate may be gone: only the word's address is used.
void CallGate::Leave(Stripe& stripe) {
  const uint32_t before = stripe.word.fetch_sub(kInside, std::memory_order_release);
  if (before == (kInside | kClosed)) FutexWake(stripe.word, std::numeric_limits<int>::max());
}

void CallGate::Close() {
  for (Stripe& stripe : stripes_) stripe.word.fetch_or(kClosed, std::memory_order_acq_rel);
}

void CallGate::AwaitEmpty() {
  for (Stripe& stripe : stripes_) {
    for (uint32_t word = stripe.word.load(std::memory_order_acquire); word != kClosed;
         word = stripe.word.load(std::memory_order_acquire)) {
      FutexWait(stripe.word, word, std::chrono::steady_clock::time_point::max());
    }
  }
}

}  // namespace stockade::cache_internal

#include "stockade/cache/internal/call_gate.h"

namespace stockade::internal {

CallGate::Call::Call(CallGate& gate, size_t stripe) : gate_(gate), stripe_(stripe) {
  Stripe& mine = gate_.stripes_[stripe_];
  std::lock_guard lock(mine.mutex);
  inside_ = !mine.closed;
  if (inside_) ++mine.inside;
}

CallGate::Call::~Call() {
  if (!inside_) return;
  Stripe& mine = gate_.stripes_[stripe_];
  std::lock_guard lock(mine.mutex);
  // Notified with the mutex held: after its release the gate may be gone.
  if (--mine.inside == 0 && mine.closed) mine.left.notify_all();
}

void CallGate::Close() {
  for (Stripe& stripe : stripes_) {
    std::lock_guard lock(stripe.mutex);
    stripe.closed = true;
  }
}

void CallGate::AwaitEmpty() {
  for (Stripe& stripe : stripes_) {
    std::unique_lock lock(stripe.mutex);
    stripe.left.wait(lock, [&] { return stripe.inside == 0; });
  }
}

}  // namespace stockade::internal

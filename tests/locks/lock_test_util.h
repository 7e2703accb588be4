#ifndef STOCKADE_TESTS_LOCKS_LOCK_TEST_UTIL_H_
#define STOCKADE_TESTS_LOCKS_LOCK_TEST_UTIL_H_

#include <atomic>
#include <concepts>
#include <cstdint>
#include <thread>

namespace stockade::testing {

// Until `done()` holds; the test's time-out bounds it.
template <std::predicate Done>
void Await(Done done) {
  while (!done()) std::this_thread::yield();
}

template <typename Lock>
void AwaitWaiters(const Lock& lock, uint64_t count) {
  Await([&] { return lock.waiters() >= count; });
}

// The same for one that waits with a time-out, and sets `gave_up` after it: that may be over before anybody looks.
template <typename Lock>
void AwaitWaiterUnless(const std::atomic<bool>& gave_up, const Lock& lock) {
  Await([&] { return gave_up || lock.waiters() > 0; });
}

// What `body` returns on a thread of its own, which holds nothing.
template <typename Body>
auto OnOtherThread(Body body) {
  decltype(body()) result{};
  std::thread([&] { result = body(); }).join();
  return result;
}

// Whether another thread gets the lock now. It lets go at once.
template <typename Lock>
bool OtherGetsIn(Lock& lock) {
  return OnOtherThread([&] {
    if (!lock.try_lock()) return false;
    lock.unlock();
    return true;
  });
}
template <typename Lock>
bool OtherReads(Lock& lock) {
  return OnOtherThread([&] {
    if (!lock.try_lock_shared()) return false;
    lock.unlock_shared();
    return true;
  });
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_LOCK_TEST_UTIL_H_

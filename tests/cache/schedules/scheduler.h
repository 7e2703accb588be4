#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULER_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "cache/schedules/choice.h"

namespace stockade::testing {

// A moment of a schedule: the number of its event in the trace, and virtual time in nanoseconds.
struct Stamp {
  int64_t step = 0;
  int64_t time = 0;
};

// Runs threads one at a time. Exactly one has the baton. At its points (base_internal::SyncPoint() and waits) the
// Choice picks the next one, so a seed gives the same schedule each time. The threads are real, because the library has
// thread-local state, and are kept from schedule to schedule.
//
// Only the thread with the baton touches the state here. Passing the baton orders the actions of one thread before
// those of the next. Time is virtual: a thread moves it, or the Choice does if a wait has a deadline.
class Scheduler {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kStart = 1'000'000'000;  // The time when a schedule begins.
  static constexpr int kMaxThreads = 8;

  struct Event {
    int64_t time;
    int thread;  // -1: the clock, or who runs the schedule.
    const char* what;
    int64_t a, b;
  };

  Scheduler();
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Sets the time to that at which a schedule begins, for what is made before Run().
  void Reset();

  // A schedule in which each of `bodies` runs on a thread of its own; returns when all have ended. `at_each_step` is
  // called at each point. `stuck`: no thread can go on, or they go on for ever; must not return, because threads that
  // hang in the library cannot be brought back.
  void Run(const std::vector<std::function<void()>>& bodies, Choice& choice, const std::function<void()>& at_each_step,
           const std::function<void(const char* why)>& stuck);
  // The next part of that schedule: the trace and the time continue.
  void Continue(const std::vector<std::function<void()>>& bodies);

  // The scheduler of the calling thread; null where it is under none.
  static Scheduler* Current();

  // On a thread of the schedule:
  int thread() const;
  // A point: others may go on here.
  void Step();
  // Waits for Woke(on), or until `deadline`, or for nothing.
  void Wait(const void* on, int64_t deadline);
  // Waits for Woke(on) as one who has nothing to do; false: nobody has, the schedule is at its end.
  bool WaitIdle(const void* on);
  void Woke(const void* on);
  void Advance(int64_t span);

  // From anywhere, between schedules too.
  int64_t now() const { return now_; }
  Stamp Note(const char* what, int64_t a = 0, int64_t b = 0);
  const std::vector<Event>& events() const { return events_; }
  std::string Trace() const;

 private:
  enum class State { kDone, kReady, kWaiting, kIdle };

  struct alignas(64) Thread {
    std::thread thread;
    std::atomic<uint32_t> baton{0};  // 1: has it, or is about to.
    State state = State::kDone;
    const void* waits_on = nullptr;
    int64_t deadline = kNever;
    const std::function<void()>* body = nullptr;
  };

  static constexpr int kDriver = kMaxThreads;  // The caller of Run(): it has a slot, but no thread.

  void Main(int index);
  void HandOn(int from);
  void Await(int index);
  int Next(int current);
  bool CanGoOn(const Thread& thread) const;
  int64_t NextDeadline() const;
  bool EndIfIdle();

  std::array<Thread, kMaxThreads + 1> threads_;
  Choice* choice_ = nullptr;
  const std::function<void()>* at_each_step_ = nullptr;
  const std::function<void(const char*)>* stuck_ = nullptr;
  std::vector<Event> events_;
  int64_t now_ = 0;
  bool ending_ = false;  // All who were left were idle.
  bool quit_ = false;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_SCHEDULER_H_

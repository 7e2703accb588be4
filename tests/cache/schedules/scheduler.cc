#include "cache/schedules/scheduler.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "stockade/base/futex.h"
#include "stockade/base/strings.h"
#include "stockade/base/sync_point.h"

namespace stockade::testing {
namespace {

constexpr size_t kMaxEvents = 20'000;

constinit thread_local Scheduler* current = nullptr;
constinit thread_local int current_thread = -1;

// One core: only one thread runs anyway, and a futex wakes a thread of the same core in a third of the time.
void StayOn(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  // If this is refused, the schedules are the same, but slower.
  (void)pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

}  // namespace

Scheduler::Scheduler() {
  const int core = sched_getcpu();
  StayOn(core);
  for (int i = 0; i < kMaxThreads; ++i) {
    threads_[static_cast<size_t>(i)].thread = std::thread([this, i, core] {
      StayOn(core);
      Main(i);
    });
  }
}

Scheduler::~Scheduler() {
  quit_ = true;
  for (Thread& thread : threads_) {
    thread.baton.store(1, std::memory_order_release);
    base_internal::FutexWake(thread.baton, 1);
    if (thread.thread.joinable()) thread.thread.join();
  }
}

void Scheduler::Run(const std::vector<std::function<void()>>& bodies, Choice& choice,
                    const std::function<void()>& at_each_step, const std::function<void(const char*)>& stuck) {
  choice_ = &choice;
  at_each_step_ = &at_each_step;
  stuck_ = &stuck;
  Reset();
  Continue(bodies);
}

void Scheduler::Reset() {
  events_.clear();
  now_ = kStart;
}

void Scheduler::Continue(const std::vector<std::function<void()>>& bodies) {
  ending_ = false;
  for (size_t i = 0; i < bodies.size(); ++i) {
    threads_[i].state = State::kReady;
    threads_[i].body = &bodies[i];
  }
  HandOn(kDriver);
}

Scheduler* Scheduler::Current() { return current; }

int Scheduler::thread() const { return current_thread; }

void Scheduler::Main(int index) {
  current = this;
  current_thread = index;
  Thread& self = threads_[static_cast<size_t>(index)];
  for (;;) {
    Await(index);
    if (quit_) return;
    (*self.body)();
    self.state = State::kDone;
    const int next = Next(index);
    threads_[static_cast<size_t>(next)].baton.store(1, std::memory_order_release);
    base_internal::FutexWake(threads_[static_cast<size_t>(next)].baton, 1);
  }
}

void Scheduler::Step() {
  Note("point");
  HandOn(current_thread);
}

void Scheduler::Wait(const void* on, int64_t deadline) {
  Thread& self = threads_[static_cast<size_t>(current_thread)];
  Note("waits");
  if (!choice_->WakeForNothing()) {
    self.state = State::kWaiting;
    self.waits_on = on;
    self.deadline = deadline;
  }
  HandOn(current_thread);
  self.state = State::kReady;
  self.deadline = kNever;
  Note("goes on");
}

bool Scheduler::WaitIdle(const void* on) {
  Thread& self = threads_[static_cast<size_t>(current_thread)];
  self.state = State::kIdle;
  self.waits_on = on;
  HandOn(current_thread);
  return !ending_;
}

void Scheduler::Woke(const void* on) {
  for (Thread& thread : threads_) {
    if ((thread.state == State::kWaiting || thread.state == State::kIdle) && thread.waits_on == on) {
      thread.state = State::kReady;
    }
  }
}

void Scheduler::Advance(int64_t span) {
  now_ += span;
  Note("time", now_ - kStart);
}

Stamp Scheduler::Note(const char* what, int64_t a, int64_t b) {
  if (events_.size() >= kMaxEvents) (*stuck_)("the schedule has no end");
  events_.push_back({now_, current_thread, what, a, b});
  return {static_cast<int64_t>(events_.size()), now_};
}

// Gives the baton to whom the Choice picks, and returns when it is back.
void Scheduler::HandOn(int from) {
  if (from != kDriver) (*at_each_step_)();
  const int next = Next(from);
  if (next == from) return;
  threads_[static_cast<size_t>(next)].baton.store(1, std::memory_order_release);
  base_internal::FutexWake(threads_[static_cast<size_t>(next)].baton, 1);
  Await(from);
}

void Scheduler::Await(int index) {
  std::atomic<uint32_t>& baton = threads_[static_cast<size_t>(index)].baton;
  while (baton.load(std::memory_order_acquire) == 0) {
    base_internal::FutexWait(baton, 0, std::chrono::steady_clock::time_point::max());
  }
  baton.store(0, std::memory_order_relaxed);
}

int Scheduler::Next(int from) {
  std::array<int, kMaxThreads> ready;
  for (;;) {
    size_t count = 0;
    for (int i = 0; i < kMaxThreads; ++i) {
      if (CanGoOn(threads_[static_cast<size_t>(i)])) ready[count++] = i;
    }
    const int64_t deadline = NextDeadline();
    if (count == 0 && deadline == kNever) {
      if (EndIfIdle()) continue;
      return kDriver;
    }
    const int picked = count == 0 ? Choice::kClock : choice_->Pick({ready.data(), count}, deadline != kNever, from);
    if (picked != Choice::kClock) return picked;
    now_ = deadline;
    Note("time to a deadline", now_ - kStart);
  }
}

bool Scheduler::CanGoOn(const Thread& thread) const {
  return thread.state == State::kReady || (thread.state == State::kWaiting && thread.deadline <= now_);
}

int64_t Scheduler::NextDeadline() const {
  int64_t next = kNever;
  for (const Thread& thread : threads_) {
    if (thread.state == State::kWaiting && thread.deadline > now_) next = std::min(next, thread.deadline);
  }
  return next;
}

// Nobody can go on. True: the idle ones can now, to end. False: all have ended.
bool Scheduler::EndIfIdle() {
  bool idle = false;
  for (Thread& thread : threads_) {
    if (thread.state == State::kWaiting) (*stuck_)("threads wait for what never comes");
    if (thread.state != State::kIdle) continue;
    thread.state = State::kReady;
    idle = true;
  }
  ending_ = true;
  return idle;
}

std::string Scheduler::Trace() const {
  std::string text;
  for (size_t i = 0; i < events_.size(); ++i) {
    const Event& event = events_[i];
    text += base_internal::Concat(i + 1, " [", event.time - kStart, "] ");
    text += base_internal::Concat("thread ", event.thread, ": ", event.what, " ", event.a, " ", event.b, "\n");
  }
  return text;
}

}  // namespace stockade::testing

namespace stockade::base_internal {

void SyncPoint() {
  if (testing::Scheduler* const scheduler = testing::Scheduler::Current()) scheduler->Step();
}

void Woke(std::condition_variable& sleeper) {
  if (testing::Scheduler* const scheduler = testing::Scheduler::Current()) scheduler->Woke(&sleeper);
}

}  // namespace stockade::base_internal

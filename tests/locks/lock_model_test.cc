// Random operations, seeded, against reference models. STOCKADE_TEST_SEED replays a run.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::Scaled;

constexpr int kThreads = 8;
constexpr int kLocks = 3;
constexpr uint32_t kMaxDepth = 4;

uint64_t Seed() {
  const char* const given = std::getenv("STOCKADE_TEST_SEED");
  return given == nullptr ? 20220623 : std::strtoull(given, nullptr, 10);
}

enum class Op {
  kLock,
  kTryLock,
  kTryLockFor,
  kUnlock,
  kLockShared,
  kTryLockShared,
  kTryLockSharedFor,
  kUnlockShared,
  kDowngrade,
  kTryUpgrade
};
constexpr int kOps = 10;

struct Holds {
  uint32_t reads = 0;
  uint32_t writes = 0;
};

// One operation of one thread of one lock, with the blocking ones only where `may_block`. Returns what it answered.
bool Apply(ReentrantSharedMutex& lock, Op op) {
  switch (op) {
    case Op::kLock: lock.lock(); return true;
    case Op::kTryLock: return lock.try_lock();
    case Op::kTryLockFor: return lock.try_lock_for(std::chrono::microseconds(20));
    case Op::kUnlock: lock.unlock(); return true;
    case Op::kLockShared: lock.lock_shared(); return true;
    case Op::kTryLockShared: return lock.try_lock_shared();
    case Op::kTryLockSharedFor: return lock.try_lock_shared_for(std::chrono::microseconds(20));
    case Op::kUnlockShared: lock.unlock_shared(); return true;
    case Op::kDowngrade: lock.downgrade(); return true;
    case Op::kTryUpgrade: return lock.try_upgrade();
  }
  return false;
}

bool IsAllowed(Op op, const Holds& mine, bool may_block) {
  switch (op) {
    case Op::kLock: return mine.writes < kMaxDepth && (mine.writes > 0 || (mine.reads == 0 && may_block));
    case Op::kTryLock:
    case Op::kTryLockFor: return mine.writes < kMaxDepth;
    case Op::kLockShared: return mine.reads < kMaxDepth && (mine.reads + mine.writes > 0 || may_block);
    case Op::kTryLockShared:
    case Op::kTryLockSharedFor: return mine.reads < kMaxDepth;
    case Op::kUnlock:
    case Op::kDowngrade: return mine.writes > 0;
    case Op::kUnlockShared:
    case Op::kTryUpgrade: return mine.reads > 0;
  }
  return false;
}

void Succeed(Op op, Holds& mine) {
  switch (op) {
    case Op::kLock:
    case Op::kTryLock:
    case Op::kTryLockFor: ++mine.writes; return;
    case Op::kLockShared:
    case Op::kTryLockShared:
    case Op::kTryLockSharedFor: ++mine.reads; return;
    case Op::kUnlock: --mine.writes; return;
    case Op::kUnlockShared: --mine.reads; return;
    case Op::kDowngrade:
      --mine.writes;
      ++mine.reads;
      return;
    case Op::kTryUpgrade:
      --mine.reads;
      ++mine.writes;
      return;
  }
}

// With the FIFO option and without.
class LockModelTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Options, LockModelTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Fifo" : "Default"; });

// Threads that take turns, so the model knows every answer: what an operation gives is decided by who holds what.
TEST_P(LockModelTest, OneOperationAtATime_EveryAnswerIsTheModels) {
  ReentrantSharedMutex lock({.fifo = GetParam()});
  std::array<Holds, kThreads> model{};
  const auto expected = [&](int self, Op op) {
    int readers = 0;
    int writers = 0;
    for (int t = 0; t < kThreads; ++t) {
      if (t == self) continue;
      readers += model[t].writes == 0 && model[t].reads > 0 ? 1 : 0;
      writers += model[t].writes > 0 ? 1 : 0;
    }
    const Holds& mine = model[self];
    if (op == Op::kTryLock || op == Op::kTryLockFor) {
      return mine.writes > 0 || (mine.reads == 0 && readers + writers == 0);
    }
    if (op == Op::kTryLockShared || op == Op::kTryLockSharedFor) return writers == 0;
    if (op == Op::kTryUpgrade) return mine.writes > 0 || readers == 0;
    return true;
  };
  std::atomic<int> turn = 0;  // Whose; kThreads: nobody's any more.
  const int64_t steps = Scaled(20'000, 200'000);
  int64_t step = 0;
  std::mt19937_64 random(Seed());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int now = 0; (now = turn.load()) != kThreads || model[t].reads + model[t].writes > 0;) {
        if (now == kThreads) {
          while (model[t].writes > 0) Apply(lock, Op::kUnlock), --model[t].writes;
          while (model[t].reads > 0) Apply(lock, Op::kUnlockShared), --model[t].reads;
          return;
        }
        if (now != t) {
          std::this_thread::yield();
          continue;
        }
        // A few operations a turn: handing the turn on costs more than they do.
        for (int i = 0; i < 16; ++i) {
          const Op op = static_cast<Op>(random() % kOps);
          if (!IsAllowed(op, model[t], false)) continue;
          const bool answer = Apply(lock, op);
          EXPECT_EQ(answer, expected(t, op)) << "step " << step << " op " << static_cast<int>(op) << " seed " << Seed();
          if (answer) Succeed(op, model[t]);
          EXPECT_EQ(lock.write_hold_count(), model[t].writes);
          EXPECT_EQ(lock.read_hold_count(), model[t].reads);
          ++step;
        }
        turn = step >= steps ? kThreads : static_cast<int>(random() % kThreads);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A lock with what its holders may assume. `plain` is read and written under the lock alone: TSan watches it.
struct Subject {
  explicit Subject(bool fifo) : lock({.fifo = fifo}) {}

  ReentrantSharedMutex lock;
  std::atomic<int> writer = -1;  // The thread that writes.
  std::atomic<int> readers = 0;  // Threads that read and do not write.
  int64_t plain = 0;
};

// What thread `self` was and has become, entered into the model; the order keeps it true for others at every moment:
// left before the lock is given up, entered after it is taken.
void LeaveModel(Subject& subject, int self, const Holds& before) {
  if (before.writes > 0) {
    EXPECT_EQ(subject.writer.exchange(-1), self);
  } else if (before.reads > 0) {
    EXPECT_GT(subject.readers.fetch_sub(1), 0);
  }
}
void EnterModel(Subject& subject, int self, const Holds& now) {
  if (now.writes > 0) {
    EXPECT_EQ(subject.writer.exchange(self), -1);
    EXPECT_EQ(subject.readers, 0);
    ++subject.plain;
  } else if (now.reads > 0) {
    ++subject.readers;
    EXPECT_EQ(subject.writer, -1);
    EXPECT_GE(subject.plain, 0);
  }
}

void RunThread(std::array<std::unique_ptr<Subject>, kLocks>& subjects, int self, int64_t operations) {
  std::mt19937_64 random(Seed() + self + 1);
  std::array<Holds, kLocks> mine{};
  const auto perform = [&](int index, Op op) {
    Subject& subject = *subjects[index];
    Holds& holds = mine[index];
    Holds after = holds;
    Succeed(op, after);
    // A try_upgrade that fails must find this thread among the readers still, but one that succeeds must not; the
    // model is left first, so for that moment it allows more than it need.
    LeaveModel(subject, self, holds);
    if (Apply(subject.lock, op)) holds = after;
    EnterModel(subject, self, holds);
    EXPECT_EQ(subject.lock.write_hold_count(), holds.writes);
    EXPECT_EQ(subject.lock.read_hold_count(), holds.reads);
  };
  for (int64_t i = 0; i < operations; ++i) {
    const int index = static_cast<int>(random() % kLocks);
    const Op op = static_cast<Op>(random() % kOps);
    // Blocking in ascending order of locks only, so that the test itself never deadlocks.
    bool may_block = true;
    for (int higher = index; higher < kLocks; ++higher) may_block &= mine[higher].reads + mine[higher].writes == 0;
    if (IsAllowed(op, mine[index], may_block)) perform(index, op);
  }
  for (int index = 0; index < kLocks; ++index) {
    while (mine[index].writes > 0) perform(index, Op::kUnlock);
    while (mine[index].reads > 0) perform(index, Op::kUnlockShared);
  }
}

TEST_P(LockModelTest, EightThreadsAtOnce_NoHoldIsEverBesideOneThatExcludesIt) {
  std::array<std::unique_ptr<Subject>, kLocks> subjects;
  for (auto& subject : subjects) subject = std::make_unique<Subject>(GetParam());
  const int64_t operations = Scaled(200'000, 1'000'000) / kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { RunThread(subjects, t, operations); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& subject : subjects) {
    EXPECT_EQ(subject->writer, -1);
    EXPECT_EQ(subject->readers, 0);
    EXPECT_GT(subject->plain, 0);
    EXPECT_EQ(subject->lock.waiters(), 0u);
  }
}

}  // namespace
}  // namespace stockade

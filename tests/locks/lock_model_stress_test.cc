// Random operations, seeded, of eight threads at once. STOCKADE_TEST_SEED replays what each thread does.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <type_traits>
#include <vector>

#include "lock_model.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade {
namespace {

using testing::Holds;
using testing::kModelLocks;
using testing::kModelThreads;
using testing::Op;
using testing::Scaled;
using testing::Seed;

// What the holders of a lock may assume. `plain` is read and written under the lock alone: ThreadSanitizer watches it.
struct Claims {
  std::atomic<int> writer = -1;  // The thread that writes.
  std::atomic<int> readers = 0;  // Threads that read and do not write.
  int64_t plain = 0;

  // The order keeps this true for others at every moment: left before the lock is given up, entered after it is taken.
  void Leave(int self, const Holds& before) {
    if (before.writes > 0) {
      EXPECT_EQ(writer.exchange(-1), self);
    } else if (before.reads > 0) {
      EXPECT_GT(readers.fetch_sub(1), 0);
    }
  }
  void Enter(int self, const Holds& now) {
    if (now.writes > 0) {
      EXPECT_EQ(writer.exchange(self), -1);
      EXPECT_EQ(readers, 0);
      ++plain;
    } else if (now.reads > 0) {
      ++readers;
      EXPECT_EQ(writer, -1);
      EXPECT_GE(plain, 0);
    }
  }
};

// An epoch begins with a run of one thread, after which the lock expects that it goes on; then all go on at random, in
// one epoch with hardly a write, in the next with hardly any other thread, in the third without a preference.
enum class Epoch { kReads, kOneWriter, kAnything };

template <typename Kind>
class LockModelStressTest : public ::testing::Test {
 protected:
  using Locks = typename Kind::Locks;
  using Hand = typename Locks::Hand;
  static constexpr bool kHasReads = Locks::kOps > 4;
  static constexpr int64_t kOperationsPerEpoch = 250;

  class Worker {
   public:
    Worker(LockModelStressTest& test, int self) : test_(test), self_(self), random_(Seed() + self + 1) {
      for (int index = 0; index < kModelLocks; ++index) hands_.emplace_back(test.locks_, index);
    }

    void RunEpoch(int64_t number) {
      const auto epoch = static_cast<Epoch>(number % 3);
      const int index = static_cast<int>(number / 3 % kModelLocks);
      const int runner = static_cast<int>(number % kModelThreads);
      // An entry of a keyed lock, with what it has learned, lives only as long as somebody holds it.
      const bool pins = kHasReads && epoch == Epoch::kReads && (runner + 1) % kModelThreads == self_;
      if (pins) Perform(index, Op::kLockShared);
      test_.meet_.arrive_and_wait();
      if (runner == self_) Run(index, epoch);
      test_.meet_.arrive_and_wait();
      for (int64_t i = 0; i < kOperationsPerEpoch; ++i) {
        const int at = static_cast<int>(random_() % kModelLocks);
        const Op op = static_cast<Op>(random_() % Locks::kOps);
        const bool is_rare = epoch == Epoch::kReads       ? kHasReads && op < Op::kUnlock
                             : epoch == Epoch::kOneWriter ? runner != self_
                                                          : false;
        if (!is_rare || random_() % 64 == 0) Try(at, op);
      }
      // Nobody waits for the others while it holds anything.
      for (int at = 0; at < kModelLocks; ++at) {
        while (mine_[at].writes > 0) Perform(at, Op::kUnlock);
        while (mine_[at].reads > 0) Perform(at, Op::kUnlockShared);
      }
      test_.meet_.arrive_and_wait();
    }

   private:
    void Run(int index, Epoch epoch) {
      if (epoch == Epoch::kAnything || (epoch == Epoch::kReads && !kHasReads)) return;
      const bool reads = epoch == Epoch::kReads;
      for (int i = reads ? testing::kManyReads : testing::kManyWrites; i > 0; --i) {
        Perform(index, reads ? Op::kLockShared : Op::kLock);
        Perform(index, reads ? Op::kUnlockShared : Op::kUnlock);
      }
    }

    void Try(int index, Op op) {
      // Blocking in ascending order of locks only, so that the test itself never deadlocks.
      bool may_block = true;
      for (int higher = index; higher < kModelLocks; ++higher) may_block &= mine_[higher].none();
      if (IsAllowed(op, mine_[index], may_block)) Perform(index, op);
    }

    void Perform(int index, Op op) {
      Claims& claims = test_.claims_[index];
      Holds& holds = mine_[index];
      // A try_upgrade that fails must find this thread among the readers still, but one that succeeds must not; the
      // claims are given up first, so for that moment they allow more than they need.
      claims.Leave(self_, holds);
      if (hands_[index].Apply(op)) holds = After(op, holds);
      claims.Enter(self_, holds);
      if (const std::optional<Holds> counted = hands_[index].Counted()) {
        EXPECT_EQ(counted->writes, holds.writes);
        EXPECT_EQ(counted->reads, holds.reads);
      }
      if (hands_[index].IsPublished()) ++test_.published_;
    }

    LockModelStressTest& test_;
    const int self_;
    std::mt19937_64 random_;
    std::vector<Hand> hands_;
    std::array<Holds, kModelLocks> mine_{};
  };

  Locks locks_{Kind::kFifo};
  std::array<Claims, kModelLocks> claims_;
  std::barrier<> meet_{kModelThreads};
  std::atomic<int64_t> published_{0};
};
TYPED_TEST_SUITE(LockModelStressTest, testing::EveryKind, testing::KindName);

TYPED_TEST(LockModelStressTest, EightThreadsAtOnce_NoHoldIsEverBesideOneThatExcludesIt) {
  const int64_t epochs = Scaled(400'000, 2'000'000) / (kModelThreads * this->kOperationsPerEpoch) + 3;
  std::vector<std::thread> threads;
  for (int t = 0; t < kModelThreads; ++t) {
    threads.emplace_back([&, t] {
      typename TestFixture::Worker worker(*this, t);
      for (int64_t epoch = 0; epoch < epochs; ++epoch) worker.RunEpoch(epoch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int index = 0; index < kModelLocks; ++index) {
    EXPECT_EQ(this->claims_[index].writer, -1);
    EXPECT_EQ(this->claims_[index].readers, 0);
    EXPECT_EQ(this->locks_.waiters(index), 0u);
  }
  EXPECT_GT(this->claims_[0].plain, 0);
  if (testing::SomePublish<typename TypeParam::Locks>()) {
    EXPECT_GT(this->published_, 0);
  }
}

}  // namespace
}  // namespace stockade

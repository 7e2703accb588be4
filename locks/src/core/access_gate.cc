#include "stockade/locks/internal/access_gate.h"

#include <utility>

#include "lock_metrics.h"
#include "published_holds.h"
#include "stockade/base/cpu_relax.h"

namespace stockade::locks_internal {

// NOLINTNEXTLINE(google-build-using-namespace): the words of this file's language.
using namespace lock_word;

namespace {

// How a thread waits before it sleeps: it looks at the word after 1, 2, 4 ... pauses, so that it disturbs the one that
// is in less and less; in all some 2 us, less than it costs to fall asleep and be woken.
constexpr int kSpinRounds = 7;
// Some 16 us, longer than it takes to wake a thread.
constexpr int kSpinRoundsBehindHead = 10;

template <typename Done>
bool Spin(Done done, int rounds = kSpinRounds) {
  for (int round = 0; round < rounds; ++round) {
    for (int pause = 0; pause < 1 << round; ++pause) CpuRelax();
    if (done()) return true;
  }
  return false;
}

// Of a word with kFavoured. NOLINTNEXTLINE(performance-no-int-to-ptr): the word has no room for a pointer beside it.
ThreadRecord* RecordIn(uint64_t word) { return reinterpret_cast<ThreadRecord*>(word & ~kFavoured); }

}  // namespace

// One thread in Enter(), on its stack. Guarded by the mutex_ of its gate.
struct AccessGate::Waiter {
  const LockMode mode;
  ThreadRecord& record;
  bool woken = false;  // As the head, to take its turn.
  Waiter* previous = nullptr;
  Waiter* next = nullptr;
};

bool AccessGate::Enter(LockMode mode, SteadyDeadline deadline, LockMetrics* metrics) {
  if (deadline != kNoWait && SpinToEnter(mode)) return true;

  bool entered = false;
  ThreadRecord* to_wake = nullptr;
  {
    const MutexLock lock(mutex_);
    Waiter self{.mode = mode, .record = ThreadRecord::Mine()};
    Append(self);
    if (metrics != nullptr) metrics->WaitBegins();
    Turn turn = Turn::kMustSleep;
    for (bool in_time = deadline != kNoWait;;) {
      if (head_ == &self) turn = TakeTurn(self, deadline, metrics);
      if (turn != Turn::kMustSleep || !in_time) break;
      self.record.PrepareToSleep();
      // With FIFO, two threads that contend would otherwise wake each other at each hold, once one of them has slept.
      const bool spins = fifo_ && self.previous == head_;
      const MutexUnlock unlocked(mutex_);
      if (spins) Spin([&] { return self.record.IsWoken(); }, kSpinRoundsBehindHead);
      // Even after the deadline it looks once more: a thread whose turn has come does not turn away.
      in_time = self.record.Sleep(deadline);
    }
    entered = turn == Turn::kEntered;
    if (entered && mode == LockMode::kExclusive) run_of_ = nullptr;
    to_wake = LeaveQueue(self, entered);
    if (metrics != nullptr) metrics->WaitEnds();
  }
  if (to_wake != nullptr) to_wake->Wake();
  return entered;
}

bool AccessGate::OnlyPublishedMayBeIn(LockMode mode) const {
  // Acquire: the record in it.
  const uint64_t word = word_.load(std::memory_order_acquire);
  if ((word & kFavoured) != 0) return !SeesPublished(key_, entry_, RecordIn(word), nullptr);
  return mode == LockMode::kExclusive && (word & (kPublished | kQueue)) == kPublished &&
         IsOpen(word & ~kPublished, mode) && !SeesPublished(key_, entry_, nullptr, nullptr);
}

bool AccessGate::SpinToEnter(LockMode mode) {
  // Where others wait too, or somebody must be called back, this is of no use.
  constexpr uint64_t kNoUse = kQueue | kPublished | kFavoured;
  if (fifo_) return false;
  bool entered = false;
  Spin([&] {
    if ((word_.load(std::memory_order_relaxed) & kNoUse) != 0) return true;
    return entered = TryEnter(mode);
  });
  return entered;
}

void AccessGate::Append(Waiter& self) {
  self.previous = tail_;
  (tail_ == nullptr ? head_ : tail_->next) = &self;
  tail_ = &self;
  ++waiting_;
  if (head_ != &self) return;
  // Sequentially consistent: forbids to publish, before the fence that precedes the search for those who have.
  uint64_t word = word_.load(std::memory_order_relaxed);
  if ((word & kFavoured) != 0) {
    called_back_ = RecordIn(word);
    word_.store(kQueue | kClaim, std::memory_order_seq_cst);  // Nobody else changes a word with kFavoured.
    return;
  }
  while (!word_.compare_exchange_weak(word, (word & ~(kBias | kTally)) | kQueue | (fifo_ ? kClaim : 0),
                                      std::memory_order_seq_cst, std::memory_order_relaxed)) {
  }
}

ThreadRecord* AccessGate::LeaveQueue(Waiter& self, bool entered) {
  const bool was_head = head_ == &self;
  (self.previous == nullptr ? head_ : self.previous->next) = self.next;
  (self.next == nullptr ? tail_ : self.next->previous) = self.previous;
  --waiting_;
  if (!was_head) return nullptr;
  if (!entered && head_ == nullptr && called_back_ != nullptr) {
    // Nobody else comes in, so the word is kQueue | kClaim, and all is as it was.
    word_.store(FavouredWord(std::exchange(called_back_, nullptr)), std::memory_order_release);
    return nullptr;
  }
  if (!entered) {  // A waiter that entered has already updated the word, in the same step.
    uint64_t word = word_.load(std::memory_order_relaxed);
    while (!word_.compare_exchange_weak(word, WithHead(word, head_), std::memory_order_relaxed)) {
    }
  }
  return (word_.load(std::memory_order_relaxed) & kMustWake) == 0 ? WakeHead() : nullptr;
}

uint64_t AccessGate::WithHead(uint64_t word, const Waiter* head) const {
  word &= ~(kMustWake | kClaim | kTally);
  if (head == nullptr) {
    word &= ~kQueue;
    // Published readers that nobody has called back: others may do as they did.
    return (word & kPublished) != 0 ? word | kBias : word;
  }
  if (fifo_ || called_back_ != nullptr) word |= kClaim;
  if (IsOpenToHead(word, head->mode)) return word;
  return word | kMustWake | (Readers(word) > 0 ? kClaim : 0);
}

ThreadRecord* AccessGate::WakeHead() {
  if (head_ == nullptr) return nullptr;
  head_->woken = true;
  return &head_->record;
}

AccessGate::Turn AccessGate::TakeTurn(Waiter& self, SteadyDeadline deadline, LockMetrics* metrics) {
  bool has_spun = false;
  for (;;) {
    uint64_t word = word_.load(std::memory_order_relaxed);
    if (called_back_ != nullptr ||
        (self.mode == LockMode::kExclusive && (word & kPublished) != 0 && IsOpenToHead(word, self.mode))) {
      if (!CallBack(deadline, metrics)) return Turn::kTimedOut;
    } else if (!IsOpenToHead(word, self.mode)) {
      if (!has_spun && (self.woken || (fifo_ && deadline != kNoWait))) {
        // A woken head found that another thread was faster, and no other will be. With FIFO, no thread spins before it
        // is the head.
        has_spun = true;
        ClaimAndSpin(self.mode);
        continue;
      }
      const bool claims = fifo_ || self.woken || Readers(word) > 0;
      // Fails where the word has changed: the lock may be open now, and nobody would know that we sleep.
      if (word_.compare_exchange_weak(word, word | kMustWake | (claims ? kClaim : 0), std::memory_order_relaxed)) {
        return Turn::kMustSleep;
      }
    } else {
      uint64_t next = WithHead(WithOneIn(word, self.mode), self.next);
      if (self.mode == LockMode::kShared) next += kTallyOne;  // A read: it ends the run of a thread's writes.
      if (word_.compare_exchange_weak(word, next, std::memory_order_acquire, std::memory_order_relaxed)) {
        return Turn::kEntered;
      }
    }
  }
}

void AccessGate::ClaimAndSpin(LockMode mode) {
  word_.fetch_or(kClaim, std::memory_order_relaxed);
  const MutexUnlock unlocked(mutex_);
  Spin([&] { return IsOpenToHead(word_.load(std::memory_order_relaxed), mode); });
}

bool AccessGate::CallBack(SteadyDeadline deadline, LockMetrics* metrics) {
  // Publishing is forbidden and stays so, since the queue is not empty.
  word_.fetch_or(kClaim, std::memory_order_relaxed);
  ThreadRecord* const favoured = called_back_;
  bool gone = false;
  {
    const MutexUnlock unlocked(mutex_);
    gone = favoured == &ThreadRecord::Mine();  // This thread, which is not in.
    if (!gone) {
      if (metrics != nullptr) metrics->CalledBack();
      gone = deadline == kNoWait ? !HasPublished(key_, entry_, favoured)
                                 : DrainPublished(key_, entry_, favoured, deadline);
    }
  }
  if (!gone) return false;
  called_back_ = nullptr;
  // A release: this thread has seen those who were called back leave, and others who enter by the word have not.
  word_.fetch_and(~kPublished, std::memory_order_release);
  return true;
}

bool AccessGate::Favour(const ThreadRecord* record) {
  const MutexLock lock(mutex_);
  // Only from a word that knows of nobody else.
  uint64_t word = kWriter;
  return word_.compare_exchange_strong(word, FavouredWord(record), std::memory_order_release,
                                       std::memory_order_relaxed);
}

void AccessGate::Unfavour(const ThreadRecord* record) {
  const MutexLock lock(mutex_);
  if (word_.load(std::memory_order_relaxed) == FavouredWord(record)) {
    word_.store(kWriter, std::memory_order_relaxed);
  } else {
    called_back_ = nullptr;
    word_.fetch_or(kWriter, std::memory_order_relaxed);
  }
}

void AccessGate::LeaveShared() {
  uint64_t word = word_.load(std::memory_order_relaxed);
  do {
    if ((word & kMustWake) != 0 && Readers(word) == 1 && LeaveAndWake(word, kReader, 0)) return;
  } while (!word_.compare_exchange_weak(word, word - kReader, std::memory_order_release, std::memory_order_relaxed));
}

void AccessGate::Downgrade() {
  uint64_t word = word_.load(std::memory_order_relaxed);
  do {
    if ((word & kMustWake) != 0 && LeaveAndWake(word, kWriter, kReader)) return;
  } while (!word_.compare_exchange_weak(word, (word & ~kWriter) + kReader, std::memory_order_release,
                                        std::memory_order_relaxed));
}

// With kMustWake seen under mutex_ there is a head, which has to take mutex_ to get out of the queue; so nobody can
// have reason to destroy the lock before this thread has let go of mutex_.
bool AccessGate::LeaveAndWake(uint64_t& word, uint64_t minus, uint64_t plus) {
  ThreadRecord* to_wake = nullptr;
  {
    const MutexLock lock(mutex_);
    word = word_.load(std::memory_order_relaxed);
    if ((word & kMustWake) == 0) return false;
    uint64_t next = 0;
    do {
      // A writer that finds a reader in from now on has to claim the lock, or readers could go on for ever.
      next = word - minus + plus;
      next = IsOpenToHead(next, head_->mode) ? next & ~kMustWake : next | kClaim;
    } while (!word_.compare_exchange_weak(word, next, std::memory_order_release, std::memory_order_relaxed));
    if ((next & kMustWake) == 0) to_wake = WakeHead();
  }
  if (to_wake != nullptr) to_wake->Wake();
  return true;
}

bool AccessGate::TryUpgrade(bool published, LockMetrics* metrics) {
  // A look, to keep an attempt without hope from disturbing anybody.
  const uint64_t seen = word_.load(std::memory_order_relaxed);
  if (Readers(seen) > (published ? 0u : 1u)) return false;
  if ((seen & kPublished) != 0 && SeesPublished(key_, entry_, nullptr, &ThreadRecord::Mine())) return false;

  const MutexLock lock(mutex_);
  // Nobody enters meanwhile: arriving threads heed kClaim, the head needs mutex_, and readers no longer publish.
  const uint64_t before = word_.fetch_or(kClaim, std::memory_order_relaxed);
  word_.fetch_and(~kBias, std::memory_order_seq_cst);
  bool alone = Readers(before) == (published ? 0u : 1u);
  if (alone && (before & kPublished) != 0) {
    if (metrics != nullptr) metrics->CalledBack();
    alone = !HasPublished(key_, entry_, nullptr);
  }
  uint64_t word = word_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    next = alone ? (word & ~(kReaders | kPublished)) | kWriter : word | (before & kBias);
    if ((before & kClaim) == 0) next &= ~kClaim;
  } while (!word_.compare_exchange_weak(word, next, std::memory_order_acquire, std::memory_order_relaxed));
  return alone;
}

bool AccessGate::idle() {
  const MutexLock lock(mutex_);
  const uint64_t word = word_.load(std::memory_order_relaxed);
  if ((word & kFavoured) != 0) return !SeesPublished(key_, entry_, RecordIn(word), nullptr);
  return (word & (kWriter | kReaders | kQueue)) == 0 &&
         ((word & kPublished) == 0 || !SeesPublished(key_, entry_, nullptr, nullptr));
}

uint64_t AccessGate::waiters() {
  const MutexLock lock(mutex_);
  return waiting_;
}

}  // namespace stockade::locks_internal

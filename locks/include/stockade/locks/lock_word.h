#ifndef STOCKADE_LOCKS_LOCK_WORD_H_
#define STOCKADE_LOCKS_LOCK_WORD_H_

#include <cstdint>

#include "stockade/base/export.h"

namespace stockade::internal {

enum class LockMode : uint8_t { kExclusive, kShared };

// The 64-bit word of a lock: who is in, and what those who come or go must heed. Here are only its values and the steps
// from one to the next; AccessGate takes the steps.
//
// Invariants: kWriter implies no counted readers and not kPublished. kBias implies kPublished, and neither kWriter nor
// kQueue. kMustWake implies kQueue; so do kClaim, and kPublished without kBias, but for the moment in which a reader
// tries to become the writer. With kFavoured, all else is the address of a ThreadRecord: nobody is in but perhaps that
// record's thread, for writing, and nobody waits.
namespace lock_word {

inline constexpr uint64_t kWriter = 1 << 0;     // A thread is in for writing.
inline constexpr uint64_t kBias = 1 << 1;       // A reader that has published itself is in.
inline constexpr uint64_t kPublished = 1 << 2;  // Readers may be in that have published themselves.
inline constexpr uint64_t kQueue = 1 << 3;      // Somebody waits.
inline constexpr uint64_t kMustWake = 1 << 4;   // The head of the queue sleeps: who makes room for it wakes it.
inline constexpr uint64_t kClaim = 1 << 5;      // Nobody enters but the head of the queue.
inline constexpr uint64_t kFavoured = 1 << 6;   // A thread of the rest, a record, that has published itself is in.

// Readers that are in and counted here, since they did not publish themselves.
inline constexpr uint64_t kReader = uint64_t{1} << 8;
inline constexpr uint64_t kReaders = (uint64_t{1} << 32) - kReader;

// Counted reads since the last write, but for those that were made while somebody waited.
inline constexpr uint64_t kTallyOne = uint64_t{1} << 32;
inline constexpr uint64_t kTally = ~(kTallyOne - 1);

// After so many counted reads without a write between them, reads are expected to go on, and need not be counted any
// more. Calling published readers back costs the next writer a membarrier, up to 20 us; a counted read costs up to 30
// ns more than a published one. So the reads that were counted have cost about what the call-back costs, and no choice
// made in advance does better than twice the best (the ski rental problem). With one write in ten at random, it comes
// to a run of this length once in 10^46.
#ifndef STOCKADE_TEST_EAGER_LOCKS
inline constexpr uint64_t kBiasAfterReads = 1024;
#else  // In a test's own build of the library, so that random operations come to all of it.
inline constexpr uint64_t kBiasAfterReads = 3;
#endif

// The same for writing: after so many write holds of one thread with nobody else between them, the lock is that
// thread's own until somebody else comes. It saves the thread some 4 ns a hold.
#ifndef STOCKADE_TEST_EAGER_LOCKS
inline constexpr uint32_t kFavourAfterWrites = 8192;
#else
inline constexpr uint32_t kFavourAfterWrites = 3;
#endif

constexpr uint64_t Readers(uint64_t word) { return (word & kReaders) / kReader; }
constexpr uint64_t Tally(uint64_t word) { return word / kTallyOne; }

// Whether a thread that arrives may enter.
constexpr bool IsOpen(uint64_t word, LockMode mode) {
  constexpr uint64_t kShut = kWriter | kClaim | kFavoured;
  return (word & (mode == LockMode::kExclusive ? kShut | kPublished | kReaders : kShut)) == 0;
}

// Whether the head of the queue may enter, once it has called back those who published themselves.
constexpr bool IsOpenToHead(uint64_t word, LockMode mode) {
  return (word & (mode == LockMode::kExclusive ? kWriter | kReaders : kWriter)) == 0;
}

// The word with a thread of this mode in, and nothing else changed.
constexpr uint64_t WithOneIn(uint64_t word, LockMode mode) {
  return mode == LockMode::kExclusive ? word | kWriter : word + kReader;
}

// A thread that arrives enters an open lock.
constexpr uint64_t Entered(uint64_t word, LockMode mode) {
  word = WithOneIn(word, mode);
  if (mode == LockMode::kExclusive) return word & ~kTally;
  if ((word & (kQueue | kBias)) != 0) return word;
  word += kTallyOne;
  return Tally(word) >= kBiasAfterReads ? (word & ~kTally) | kBias | kPublished : word;
}

}  // namespace lock_word
}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_LOCK_WORD_H_

#ifndef STOCKADE_LOCKS_INTERNAL_LOCK_WORD_H_
#define STOCKADE_LOCKS_INTERNAL_LOCK_WORD_H_

#include <cstdint>

#include "stockade/base/export.h"

namespace stockade::locks_internal {

enum class LockMode : uint8_t { kExclusive, kShared };

// The 64-bit word of a lock: who is inside, and what arriving and leaving threads must do. This file has only the
// values and the transitions between them; AccessGate performs the transitions.
//
// Invariants: kWriter implies no counted readers and no kPublished. kBias implies kPublished, and neither kWriter nor
// kQueue. kMustWake implies kQueue. kClaim, and kPublished without kBias, imply kQueue, except while a reader tries to
// become the writer. If kFavoured is set, the rest of the word is the address of a ThreadRecord: only that record's
// thread may be inside, for writing, and no thread waits.
namespace lock_word {

inline constexpr uint64_t kWriter = 1 << 0;     // A writer is inside.
inline constexpr uint64_t kBias = 1 << 1;       // A reader that publishes its hold is inside.
inline constexpr uint64_t kPublished = 1 << 2;  // Readers with published holds may be inside.
inline constexpr uint64_t kQueue = 1 << 3;      // The queue is not empty.
inline constexpr uint64_t kMustWake = 1 << 4;   // The head of the queue sleeps; a thread that makes room wakes it.
inline constexpr uint64_t kClaim = 1 << 5;      // Only the head of the queue may enter.
inline constexpr uint64_t kFavoured = 1 << 6;   // The thread of the record in the other bits is inside if it publishes.

// The readers that are counted in the word, because they did not publish their holds.
inline constexpr uint64_t kReader = uint64_t{1} << 8;
inline constexpr uint64_t kReaders = (uint64_t{1} << 32) - kReader;

// Counted reads since the last write, except those that were made while threads waited.
inline constexpr uint64_t kTallyOne = uint64_t{1} << 32;
inline constexpr uint64_t kTally = ~(kTallyOne - 1);

// After this many counted reads without a write in between, reads are expected to continue and are no longer counted.
// Revoking the bias costs the next writer a membarrier of up to 20 us, and a counted read costs up to 30 ns more than a
// published one. At this number the counted reads have cost about as much as a revocation, and no deterministic choice
// is better than twice the optimum (the ski rental problem). If each operation is a write with probability 1/10, a run
// of this length has a probability below 10^-46.
#ifndef STOCKADE_TEST_EAGER_LOCKS
inline constexpr uint64_t kBiasAfterReads = 1024;
#else  // In a test's own build of the library, so that random operations reach all states.
inline constexpr uint64_t kBiasAfterReads = 3;
#endif

// The same for writes: after this many write holds of one thread without another thread in between, the lock is biased
// to that thread until another thread needs it. This saves the thread some 4 ns per hold.
#ifndef STOCKADE_TEST_EAGER_LOCKS
inline constexpr uint32_t kFavourAfterWrites = 8192;
#else
inline constexpr uint32_t kFavourAfterWrites = 3;
#endif

constexpr uint64_t Readers(uint64_t word) { return (word & kReaders) / kReader; }
constexpr uint64_t Tally(uint64_t word) { return word / kTallyOne; }

// Whether an arriving thread may enter.
constexpr bool IsOpen(uint64_t word, LockMode mode) {
  constexpr uint64_t kShut = kWriter | kClaim | kFavoured;
  return (word & (mode == LockMode::kExclusive ? kShut | kPublished | kReaders : kShut)) == 0;
}

// Whether the head of the queue may enter after it has revoked the bias.
constexpr bool IsOpenToHead(uint64_t word, LockMode mode) {
  return (word & (mode == LockMode::kExclusive ? kWriter | kReaders : kWriter)) == 0;
}

// The word after a thread of this mode has entered; nothing else changes.
constexpr uint64_t WithOneIn(uint64_t word, LockMode mode) {
  return mode == LockMode::kExclusive ? word | kWriter : word + kReader;
}

// The word after an arriving thread has entered an open lock.
constexpr uint64_t Entered(uint64_t word, LockMode mode) {
  word = WithOneIn(word, mode);
  if (mode == LockMode::kExclusive) return word & ~kTally;
  if ((word & (kQueue | kBias)) != 0) return word;
  word += kTallyOne;
  return Tally(word) >= kBiasAfterReads ? (word & ~kTally) | kBias | kPublished : word;
}

}  // namespace lock_word
}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_INTERNAL_LOCK_WORD_H_

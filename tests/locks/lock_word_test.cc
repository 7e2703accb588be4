#include "stockade/locks/internal/lock_word.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <random>

#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::locks_internal::lock_word {
namespace {

using testing::Scaled;
using testing::Seed;

constexpr LockMode kWrite = LockMode::kExclusive;
constexpr LockMode kRead = LockMode::kShared;

constexpr uint64_t After(uint64_t word, int reads) {
  for (int i = 0; i < reads; ++i) word = Entered(word, kRead) - kReader;
  return word;
}

// The parts of the word do not overlap, and leave nothing out but the bit between the flags and the readers.
constexpr uint64_t kFlags = kWriter | kBias | kPublished | kQueue | kMustWake | kClaim | kFavoured;
static_assert((kFlags & kReaders) == 0 && (kFlags & kTally) == 0 && (kReaders & kTally) == 0);
static_assert((kFlags | kReaders | kTally) == ~(uint64_t{1} << 7));
static_assert(kWriter + kBias + kPublished + kQueue + kMustWake + kClaim + kFavoured == kFlags);

// A free lock is open to everybody; a writer shuts it for everybody, a reader for writers.
static_assert(IsOpen(0, kWrite) && IsOpen(0, kRead));
static_assert(!IsOpen(kWriter, kWrite) && !IsOpen(kWriter, kRead));
static_assert(!IsOpen(kReader, kWrite) && IsOpen(kReader, kRead));
static_assert(IsOpen(kTally, kWrite) && IsOpen(kTally, kRead));
// Published readers shut it for writers, a favoured thread and a claim for everybody, those who wait for nobody.
static_assert(!IsOpen(kPublished, kWrite) && IsOpen(kPublished, kRead));
static_assert(!IsOpen(kBias | kPublished, kWrite) && IsOpen(kBias | kPublished, kRead));
static_assert(!IsOpen(kFavoured, kWrite) && !IsOpen(kFavoured, kRead));
static_assert(!IsOpen(kClaim | kQueue, kWrite) && !IsOpen(kClaim | kQueue, kRead));
static_assert(IsOpen(kQueue | kMustWake, kWrite) && IsOpen(kQueue | kMustWake, kRead));
// The head of the queue heeds no claim, and calls back those who have published themselves.
static_assert(IsOpenToHead(kClaim | kPublished | kQueue, kWrite) && IsOpenToHead(kClaim | kPublished | kQueue, kRead));
static_assert(!IsOpenToHead(kReader, kWrite) && IsOpenToHead(kReader, kRead));
static_assert(!IsOpenToHead(kWriter, kWrite) && !IsOpenToHead(kWriter, kRead));

// Entering puts one in and nothing else; a writer ends the run of reads.
static_assert(WithOneIn(kQueue, kRead) == kQueue + kReader && WithOneIn(kQueue, kWrite) == (kQueue | kWriter));
static_assert(Readers(Entered(Entered(0, kRead), kRead)) == 2);
static_assert(Entered(After(0, 2), kWrite) == kWriter);
// A run of reads of the full length, and no shorter one, brings the bias; the tally is then done with.
static_assert(Tally(After(0, kBiasAfterReads - 1)) == kBiasAfterReads - 1);
static_assert((After(0, kBiasAfterReads - 1) & (kBias | kPublished)) == 0);
static_assert(After(0, kBiasAfterReads) == (kBias | kPublished));
// While somebody waits no run is counted, so there is no bias; and in a lock that has it none need be counted.
static_assert(After(kQueue, 2 * kBiasAfterReads) == kQueue);
static_assert(After(kBias | kPublished, 10) == (kBias | kPublished));

// What lock_word.h states of every word.
void ExpectInvariants(uint64_t word) {
  EXPECT_TRUE((word & kWriter) == 0 || Readers(word) == 0) << std::hex << word;
  EXPECT_TRUE((word & kBias) == 0 || (word & (kPublished | kWriter | kQueue)) == kPublished) << std::hex << word;
  EXPECT_TRUE((word & (kMustWake | kClaim)) == 0 || (word & kQueue) != 0) << std::hex << word;
  EXPECT_LT(Tally(word), kBiasAfterReads);
}

// Threads come and go in runs of one mode, so that the bias is gained; the holders are counted by hand.
TEST(LockWordTest, ThreadsThatComeAndGo_RandomSequences_KeepTheInvariantsAndTheCount) {
  std::mt19937_64 random(Seed());
  uint64_t word = 0;
  uint64_t readers = 0;
  bool writer = false;
  int64_t gained = 0;
  bool reading_run = true;
  for (int64_t step = Scaled(1'000'000, 20'000'000); step > 0; --step) {
    if (random() % 4096 == 0) reading_run = !reading_run;
    const LockMode mode = reading_run && random() % 8192 != 0 ? kRead : kWrite;
    if (random() % 2 == 0) {
      const bool expected = mode == kWrite ? !writer && readers == 0 && (word & kPublished) == 0 : !writer;
      ASSERT_EQ(IsOpen(word, mode), expected);
      if (!expected) continue;
      gained -= (word & kBias) != 0 ? 1 : 0;
      word = Entered(word, mode);
      gained += (word & kBias) != 0 ? 1 : 0;
      mode == kWrite ? static_cast<void>(writer = true) : static_cast<void>(++readers);
    } else if (writer) {
      word &= ~kWriter;
      writer = false;
    } else if (readers > 0) {
      word -= kReader;
      --readers;
    } else if (mode == kWrite && (word & kPublished) != 0) {
      word &= ~(kBias | kPublished);  // A writer has called back those who published themselves, and went.
    }
    ASSERT_EQ(Readers(word), readers);
    ASSERT_EQ((word & kWriter) != 0, writer);
    ExpectInvariants(word);
  }
  EXPECT_GT(gained, 0);
}

// The same while somebody waits: nothing that arriving threads do touches what is the queue's.
TEST(LockWordTest, ThreadsThatComeAndGo_WhileSomebodyWaits_LeaveTheQueuesBitsAlone) {
  for (const uint64_t queue : {kQueue, kQueue | kMustWake, kQueue | kPublished, kQueue | kMustWake | kPublished}) {
    uint64_t word = queue;
    for (uint64_t i = 1; i <= 2 * kBiasAfterReads; ++i) {
      ASSERT_TRUE(IsOpen(word, kRead));
      word = Entered(word, kRead);
      ASSERT_EQ(word, queue + i * kReader);
      ExpectInvariants(word);
    }
  }
}

}  // namespace
}  // namespace stockade::locks_internal::lock_word

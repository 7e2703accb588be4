// What S3Fifo remembers of the evicted, and what it learns when they come back.
#include <gtest/gtest.h>

#include <vector>

#include "slot_queues.h"
#include "stockade/cache/internal/s3_fifo.h"

namespace stockade::cache_internal {
namespace {

class S3FifoGhostsTest : public ::testing::Test {
 protected:
  Slot& Insert(uint64_t hash) {
    Slot& slot = *slots_.emplace_back(&queues_.New(hash));
    queues_.Insert(slot);
    return slot;
  }

  // Inserts and evicts the hashes from `first` on.
  void PassThrough(uint64_t first, uint64_t count) {
    for (uint64_t hash = first; hash < first + count; ++hash) {
      Insert(hash);
      ASSERT_NE(queues_.Evict(nullptr), nullptr);
    }
  }

  std::vector<Slot*> slots_;
  SlotQueues queues_;
};

TEST_F(S3FifoGhostsTest, Insert_Unknown_EntersSmall) { EXPECT_FALSE(Insert(0).in_main); }

TEST_F(S3FifoGhostsTest, Insert_EvictedFromSmall_EntersMainAndGrowsSmall) {
  for (uint64_t hash = 0; hash < 100; ++hash) Insert(hash);
  ASSERT_EQ(queues_.Evict(nullptr)->hash, 0u);
  EXPECT_TRUE(Insert(0).in_main);
  EXPECT_DOUBLE_EQ(queues_.small_share(), S3Fifo::kFirstShare + S3Fifo::kSmallStep / 99);
}

TEST_F(S3FifoGhostsTest, Insert_EvictedBeforeTheWindow_EntersMainAndMovesNothing) {
  for (uint64_t hash = 0; hash < 100; ++hash) Insert(hash);
  PassThrough(100, 21);  // Evicts 0 to 20.
  EXPECT_TRUE(Insert(0).in_main);
  EXPECT_DOUBLE_EQ(queues_.small_share(), S3Fifo::kFirstShare);
  EXPECT_TRUE(Insert(20).in_main);
  EXPECT_GT(queues_.small_share(), S3Fifo::kFirstShare);
}

TEST_F(S3FifoGhostsTest, Insert_EvictedTooLongAgo_EntersSmall) {
  for (uint64_t hash = 0; hash < 100; ++hash) Insert(hash);
  PassThrough(100, 91);  // Evicts 0 to 90: 90 of them are remembered.
  EXPECT_FALSE(Insert(0).in_main);
  EXPECT_TRUE(Insert(90).in_main);
}

TEST_F(S3FifoGhostsTest, Insert_Removed_EntersSmall) {
  Insert(0);
  queues_.Remove(Insert(1));
  EXPECT_FALSE(Insert(1).in_main);
}

TEST_F(S3FifoGhostsTest, Insert_ComesBackTwice_IsRememberedOnce) {
  for (uint64_t hash = 0; hash < 100; ++hash) Insert(hash);
  ASSERT_EQ(queues_.Evict(nullptr)->hash, 0u);
  Slot& back = Insert(0);
  queues_.Remove(back);
  EXPECT_FALSE(Insert(0).in_main);
}

TEST_F(S3FifoGhostsTest, Insert_EvictedFromMain_EntersMainAndShrinksSmall) {
  for (uint64_t hash = 0; hash < 100; ++hash) Insert(hash).Touch();
  Slot& heavy = Insert(100);
  queues_.Remove(heavy);
  heavy.weight = 1'000'000;
  queues_.Insert(heavy);
  ASSERT_EQ(queues_.Evict(nullptr)->hash, 100u);
  ASSERT_EQ(queues_.Evict(nullptr)->hash, 0u);
  EXPECT_TRUE(Insert(0).in_main);
  EXPECT_DOUBLE_EQ(queues_.small_share(), S3Fifo::kFirstShare - S3Fifo::kMainStep / 99);
}

// A scan that never comes back leaves the share as it is, and what is hot in the cache.
TEST_F(S3FifoGhostsTest, Evict_ScanOfNewEntries_KeepsMainAndShare) {
  for (uint64_t hash = 0; hash < 90; ++hash) Insert(hash).Touch();
  PassThrough(1000, 500);
  int64_t in_main = 0;
  for (uint64_t hash = 0; hash < 90; ++hash) in_main += slots_[hash]->in_main && queues_.Has(*slots_[hash]);
  EXPECT_GE(in_main, 80) << "the small queue takes its tenth, no more";
  EXPECT_DOUBLE_EQ(queues_.small_share(), S3Fifo::kFirstShare);
}

TEST_F(S3FifoGhostsTest, SmallShare_HoweverMuchIsRegretted_StaysWithinItsBounds) {
  for (uint64_t hash = 0; hash < 4; ++hash) Insert(hash);
  for (int i = 0; i < 1000; ++i) {
    Slot* const victim = queues_.Evict(nullptr);
    queues_.Insert(*victim);
    ASSERT_GE(queues_.small_share(), S3Fifo::kLeastShare);
    ASSERT_LE(queues_.small_share(), S3Fifo::kMostShare);
  }
  EXPECT_EQ(queues_.size(), 4u);
}

TEST_F(S3FifoGhostsTest, GhostBytes_ManyEntries_AtMost18AnEntry) {
  constexpr uint64_t kEntries = 10'000;
  for (uint64_t hash = 0; hash < kEntries; ++hash) Insert(hash);
  EXPECT_EQ(queues_.ghost_bytes(), 0u) << "nothing was evicted";
  PassThrough(kEntries, kEntries);
  EXPECT_GE(queues_.ghost_bytes(), kEntries * 8);
  EXPECT_LE(queues_.ghost_bytes(), kEntries * 18);
}

}  // namespace
}  // namespace stockade::cache_internal

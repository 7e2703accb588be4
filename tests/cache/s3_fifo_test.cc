#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "eviction.h"
#include "slot_queues.h"

namespace stockade::cache_internal {
namespace {

// Nodes with the hashes 0, 1, 2 and so on.
class S3FifoTest : public ::testing::Test {
 protected:
  Slot& New(int64_t weight = 1) { return queues_.New(next_hash_++, weight); }

  Slot& Insert(int64_t weight = 1) {
    Slot& node = New(weight);
    queues_.Insert(node);
    return node;
  }

  // Main holds `count` nodes without a use, in the order of the result; the small queue is empty.
  std::vector<Slot*> FillMain(size_t count) {
    std::vector<Slot*> main;
    while (main.size() < count) {
      for (size_t batch = std::min(S3Fifo::kMostSteps / 2, count - main.size()); batch > 0; --batch) {
        main.push_back(&Insert());
        main.back()->Touch();
        main.back()->Touch();
      }
      Slot& heavy = Insert(1'000'000);  // The small queue is due until it is gone.
      EXPECT_EQ(queues_.Evict(nullptr), &heavy);
    }
    return main;
  }

  // Newcomers that were evicted just before come back until the share has grown. Leaves what is in main there.
  void MakeRestless() {
    while (queues_.small_share() <= S3Fifo::kRestlessShare + 0.02) {
      Slot& back = Insert(100);
      ASSERT_EQ(queues_.Evict(nullptr), &back);
      queues_.Insert(back);
      ASSERT_TRUE(back.in_main);
      queues_.Remove(back);
    }
  }

  SlotQueues queues_;
  uint64_t next_hash_ = 0;
};

TEST_F(S3FifoTest, Evict_Empty_IsNull) {
  EXPECT_EQ(queues_.Evict(nullptr), nullptr);
  EXPECT_EQ(queues_.size(), 0u);
  EXPECT_EQ(queues_.weight(), 0);
}

TEST_F(S3FifoTest, Evict_NoUsesInMain_InOrderOfArrival) {
  for (Slot* const node : FillMain(5)) EXPECT_EQ(queues_.Evict(nullptr), node);
  EXPECT_EQ(queues_.size(), 0u);
}

TEST_F(S3FifoTest, Evict_MainIsEmpty_IsFilledByTwoPerEviction) {
  std::vector<Slot*> nodes;
  for (int i = 0; i < 5; ++i) nodes.push_back(&Insert());
  nodes[0]->Touch();
  EXPECT_EQ(queues_.Evict(nullptr), nodes[2]) << "0 and 1 went to main";
  EXPECT_EQ(nodes[0]->uses, 0);
  EXPECT_EQ(queues_.Evict(nullptr), nodes[4]) << "3 did; 4 was the last one in small, and main has its share";
  for (const int i : {0, 1, 3}) EXPECT_EQ(queues_.Evict(nullptr), nodes[i]);
}

TEST_F(S3FifoTest, Evict_SmallWithinTheSlack_FillsNothing) {
  FillMain(72);
  Slot& next = Insert();
  for (int i = 0; i < 28; ++i) Insert();
  EXPECT_EQ(queues_.Evict(nullptr), &next) << "28 of 100";
}

TEST_F(S3FifoTest, Evict_Filling_EndsWhenMainHasItsShare) {
  std::vector<Slot*> nodes = FillMain(60);
  for (int i = 0; i < 40; ++i) nodes.push_back(&Insert());
  const auto pass = [&](int count) {
    for (int i = 0; i < count; ++i) {
      nodes.push_back(&Insert());
      ASSERT_NE(queues_.Evict(nullptr), nullptr);
    }
  };
  const auto in_main = [&] {
    return std::ranges::count_if(nodes, [&](const Slot* node) { return queues_.Has(*node) && node->in_main; });
  };
  pass(10);
  EXPECT_EQ(in_main(), 80) << "two at each eviction, also within the slack once it has begun";
  pass(10);
  EXPECT_EQ(in_main(), 90);
  pass(100);
  EXPECT_EQ(in_main(), 90);
}

TEST_F(S3FifoTest, Loop_LongerThanTheCache_KeepsAPartOfItself) {
  constexpr size_t kLoop = 1000, kRoom = 100;
  std::vector<Slot*> nodes;
  for (size_t i = 0; i < kLoop; ++i) nodes.push_back(&New());
  size_t hits = 0;
  for (size_t i = 0; i < 20 * kLoop; ++i) {
    Slot& asked = *nodes[i % kLoop];
    if (queues_.Has(asked)) {
      asked.Touch();
      ++hits;
      continue;
    }
    queues_.Insert(asked);
    if (queues_.size() > kRoom) {
      ASSERT_NE(queues_.Evict(&asked), nullptr);
    }
  }
  EXPECT_GE(hits, 19 * kRoom * 8 / 10) << "nearly main's 90 in each of 19 rounds";
}

TEST_F(S3FifoTest, Evict_UsedInSmall_GoesToMainWithoutUses) {
  Slot& used = Insert();
  Slot& unused = Insert();
  used.Touch();
  used.Touch();
  EXPECT_EQ(queues_.Evict(nullptr), &unused);
  EXPECT_TRUE(used.in_main);
  EXPECT_EQ(used.uses, 0);
  EXPECT_EQ(queues_.Evict(nullptr), &used);
}

TEST_F(S3FifoTest, Evict_UsedOnceInSmall_IsEvicted) {
  FillMain(10);
  Slot& once = Insert();
  Insert();
  once.Touch();
  EXPECT_EQ(queues_.Evict(nullptr), &once);
}

TEST_F(S3FifoTest, Evict_SmallAboveItsShare_SparesMain) {
  const auto main = FillMain(5);
  Slot& fresh = Insert();
  EXPECT_EQ(queues_.Evict(nullptr), &fresh);
  EXPECT_EQ(queues_.Evict(nullptr), main[0]);
}

TEST_F(S3FifoTest, Evict_SmallWithinItsShare_TakesFromMain) {
  const auto main = FillMain(20);
  Slot& fresh = Insert();
  EXPECT_EQ(queues_.Evict(nullptr), main[0]);
  EXPECT_FALSE(fresh.in_main);
}

TEST_F(S3FifoTest, Evict_SharesAreOfWeight_HeavyNewcomerGoesFirst) {
  const auto main = FillMain(20);
  Slot& heavy = Insert(5);
  Slot& light = Insert(1);
  EXPECT_EQ(queues_.weight(), 26);
  EXPECT_EQ(queues_.Evict(nullptr), &heavy);
  EXPECT_EQ(queues_.weight(), 21);
  EXPECT_EQ(queues_.Evict(nullptr), main[0]) << "one of 21 is within a tenth";
  EXPECT_FALSE(light.in_main);
}

TEST_F(S3FifoTest, Evict_UsedInMain_StaysForEachUse) {
  const auto main = FillMain(3);
  for (int i = 0; i < 5; ++i) main[0]->Touch();
  EXPECT_EQ(main[0]->uses, Slot::kMostUses);
  main[1]->Touch();
  EXPECT_EQ(queues_.Evict(nullptr), main[2]);
  EXPECT_EQ(main[0]->uses, 2);
  EXPECT_EQ(main[1]->uses, 0);
  main[1]->Touch();
  EXPECT_EQ(queues_.Evict(nullptr), main[1]) << "0 and 1 gave a use, 0 its last, and 1 is next";
  EXPECT_EQ(queues_.Evict(nullptr), main[0]);
}

TEST_F(S3FifoTest, Evict_Restless_MainTakesAllUsesAtOnce) {
  const auto main = FillMain(10);
  MakeRestless();
  for (int i = 0; i < 3; ++i) main[0]->Touch();
  EXPECT_EQ(queues_.Evict(nullptr), main[1]);
  EXPECT_EQ(main[0]->uses, 0);
}

TEST_F(S3FifoTest, Evict_Restless_OneUseInSmallIsARoundThereAndTwoLeadToMain) {
  FillMain(10);
  MakeRestless();
  Slot& once = Insert(5);
  Slot& twice = Insert(5);
  Slot& unused = Insert(5);
  once.Touch();
  twice.Touch();
  twice.Touch();
  EXPECT_EQ(queues_.Evict(nullptr), &unused);
  EXPECT_FALSE(once.in_main);
  EXPECT_EQ(once.uses, 0);
  EXPECT_TRUE(twice.in_main);
  EXPECT_EQ(twice.uses, 0);
  EXPECT_EQ(queues_.Evict(nullptr), &once);
}

TEST_F(S3FifoTest, Insert_RestlessAndEvictedFromMain_EntersMain) {
  const auto main = FillMain(100);
  MakeRestless();
  ASSERT_EQ(queues_.Evict(nullptr), main[0]);
  queues_.Insert(*main[0]);
  EXPECT_TRUE(main[0]->in_main);
}

TEST_F(S3FifoTest, Evict_AllHot_EndsAfterItsMostSteps) {
  const auto main = FillMain(10 * S3Fifo::kMostSteps);
  for (Slot* const node : main) {
    for (int i = 0; i < 3; ++i) node->Touch();
  }
  EXPECT_EQ(queues_.Evict(nullptr), main[S3Fifo::kMostSteps]);
  EXPECT_EQ(main[S3Fifo::kMostSteps - 1]->uses, 2);
  EXPECT_EQ(main[S3Fifo::kMostSteps + 1]->uses, 3);
}

TEST_F(S3FifoTest, Evict_OnlySpared_IsNullAndKeepsIt) {
  Slot& spared = Insert(1'000'000);
  EXPECT_EQ(queues_.Evict(&spared), nullptr);
  spared.Touch();
  EXPECT_EQ(queues_.Evict(&spared), nullptr);
  EXPECT_EQ(queues_.size(), 1u);
  EXPECT_EQ(queues_.Evict(nullptr), &spared);
}

TEST_F(S3FifoTest, Evict_SparedInMainAlone_IsNull) {
  const auto main = FillMain(1);
  EXPECT_EQ(queues_.Evict(main[0]), nullptr);
}

TEST_F(S3FifoTest, Evict_SparedIsOldest_TakesTheNext) {
  Slot& spared = Insert();
  Slot& other = Insert();
  EXPECT_EQ(queues_.Evict(&spared), &other);
  EXPECT_TRUE(queues_.Has(spared));
}

TEST_F(S3FifoTest, Evict_SmallHoldsSparedOnly_TakesFromMainHoweverHot) {
  const auto main = FillMain(2);
  for (Slot* const node : main) {
    for (int i = 0; i < 3; ++i) node->Touch();
  }
  Slot& spared = Insert(100);
  EXPECT_EQ(queues_.Evict(&spared), main[0]);
  EXPECT_EQ(queues_.Evict(&spared), main[1]);
  EXPECT_EQ(queues_.Evict(&spared), nullptr);
}

TEST_F(S3FifoTest, Evict_MainHoldsSparedOnly_TakesFromSmallHoweverLittle) {
  Slot& spared = *FillMain(1)[0];
  Slot& small = Insert();
  small.Touch();
  small.Touch();
  EXPECT_EQ(queues_.Evict(&spared), &small);
}

TEST_F(S3FifoTest, Evict_SparedHasLeft_IsNoMatter) {
  Slot& left = Insert();
  Slot& other = Insert();
  queues_.Remove(left);
  EXPECT_EQ(queues_.Evict(&left), &other);
}

// What a cache of one entry does.
TEST_F(S3FifoTest, Evict_RoomForOne_TheLastInsertedStays) {
  Slot* held = &Insert();
  Slot* evicted = nullptr;
  for (int i = 0; i < 20; ++i) {
    for (int hits = 0; hits < i % 5; ++hits) held->Touch();
    Slot& fresh = i % 3 == 2 ? *evicted : New();
    queues_.Insert(fresh);
    evicted = queues_.Evict(&fresh);
    ASSERT_EQ(evicted, held);
    ASSERT_EQ(queues_.size(), 1u);
    held = &fresh;
  }
}

TEST_F(S3FifoTest, Remove_AnyPlace_LeavesTheOthersInOrder) {
  std::vector<Slot*> nodes;
  for (int i = 0; i < 5; ++i) nodes.push_back(&Insert(i + 1));
  for (const int i : {2, 0, 4}) queues_.Remove(*nodes[i]);
  EXPECT_EQ(queues_.size(), 2u);
  EXPECT_EQ(queues_.weight(), 2 + 4);
  EXPECT_EQ(queues_.Evict(nullptr), nodes[3]) << "1 went to main";
  EXPECT_EQ(queues_.Evict(nullptr), nodes[1]);
}

TEST_F(S3FifoTest, Reweigh_InSmall_KeepsItsPlace) {
  FillMain(20);
  Slot& slot = Insert(2);
  Slot& next = Insert();
  queues_.Reweigh(slot, 7);
  EXPECT_EQ(slot.weight, 7);
  EXPECT_EQ(queues_.weight(), 28);
  EXPECT_EQ(queues_.size(), 22u);
  EXPECT_EQ(queues_.Evict(nullptr), &slot);
  EXPECT_TRUE(queues_.Has(next));
  EXPECT_EQ(queues_.weight(), 21);
}

TEST_F(S3FifoTest, Reweigh_InMain_KeepsItsUses) {
  const auto main = FillMain(3);
  main[0]->Touch();
  main[0]->Touch();
  queues_.Reweigh(*main[0], 7);
  EXPECT_TRUE(main[0]->in_main);
  EXPECT_EQ(main[0]->uses, 2);
  EXPECT_EQ(queues_.weight(), 9);
  EXPECT_EQ(queues_.Evict(nullptr), main[1]);
  EXPECT_EQ(queues_.Evict(nullptr), main[2]);
  EXPECT_EQ(queues_.Evict(nullptr), main[0]);
}

}  // namespace
}  // namespace stockade::cache_internal

#include "stockade/base/hazard_row.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "stockade/base/fork_guard.h"
#include "support/scale.h"

namespace stockade::base_internal {
namespace {

bool SomeRowReads(const void* object) {
  for (const HazardRow& row : HazardRows()) {
    if (row.reads.load() == object) return true;
  }
  return false;
}

TEST(HazardRowTest, EachThread_HasARowAmongAll) {
  const int object = 0;
  std::latch set(2);
  std::latch seen(1);
  HazardRow* theirs = nullptr;
  std::thread thread([&] {
    theirs = ThisHazardRow();
    theirs->reads = &object;
    set.count_down();
    seen.wait();
    theirs->reads = nullptr;
  });
  set.arrive_and_wait();
  EXPECT_NE(theirs, ThisHazardRow());
  EXPECT_TRUE(SomeRowReads(&object));
  seen.count_down();
  thread.join();
  EXPECT_FALSE(SomeRowReads(&object));
}

TEST(HazardRowTest, Read_EndsWithItsScope) {
  const int object = 0;
  HazardRow& row = *ThisHazardRow();
  {
    const HazardRow::Read read(row, &object);
    EXPECT_EQ(row.caller, &object);
    row.reads = &object;
  }
  EXPECT_EQ(row.caller, nullptr);
  EXPECT_EQ(row.reads, nullptr);
}

TEST(HazardRowTest, ReadThatWasReleased_StaysOpenForWhoeverTakesIt) {
  const int object = 0;
  HazardRow& row = *ThisHazardRow();
  HazardRow* open = nullptr;
  {
    HazardRow::Read read(row, &object);
    open = read.Release();
  }
  EXPECT_EQ(open, &row);
  EXPECT_EQ(row.caller, &object);
  HazardRow::Read taken(open);
  taken.End();
  EXPECT_EQ(row.caller, nullptr);
  EXPECT_EQ(taken.row(), nullptr);
}

// Destroyed after the thread has given its slot back: what a destructor of that time reads goes by a lock.
struct LateReader {
  HazardRow** light;
  HazardRow** any;
  ~LateReader() {
    *light = ThisLightRow();
    *any = ThisHazardRow();
  }
};

TEST(HazardRowTest, LightRow_IsTheRowFromItsFirstUseToTheThreadsEnd) {
  HazardRow other;
  HazardRow* late_light = &other;
  HazardRow* late_any = &other;
  std::thread thread([&] {
    thread_local LateReader late{&late_light, &late_any};
    EXPECT_NE(late.light, nullptr);  // Made before the slot, and so destroyed after it.
    EXPECT_EQ(ThisLightRow(), nullptr);
    HazardRow* const row = ThisHazardRow();
    EXPECT_EQ(ThisLightRow(), InlineLightStoreWorks() ? row : nullptr);
  });
  thread.join();
  EXPECT_EQ(late_light, nullptr);
  EXPECT_EQ(late_any, nullptr);
}

// Objects of the parent must be found out there, which who has a light row does not look for.
TEST(HazardRowTest, LightRow_InAForkedChild_IsNull) {
  const ForkGuard guard;
  ASSERT_NE(ThisHazardRow(), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const bool none = ThisLightRow() == nullptr;
    (void)ThisHazardRow();
    _exit(none && ThisLightRow() == nullptr ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(ThisLightRow() != nullptr, InlineLightStoreWorks());
}

TEST(HazardRowTest, Pins_AreRefusedWhereAllAreTaken_AndFreeAgain) {
  const int64_t object = 0;
  HazardRow& row = *ThisHazardRow();
  std::vector<HazardRow::Pin*> pins;
  while (auto* const pin = row.TryPin(&object)) pins.push_back(pin);
  EXPECT_EQ(pins.size(), HazardRow::kPins);
  std::thread elsewhere([&] { EXPECT_EQ(HazardRow::Unpin(*pins.back()), nullptr); });
  elsewhere.join();
  auto* const again = row.TryPin(&object);
  EXPECT_EQ(again, pins.back());
  for (auto* const pin : pins) EXPECT_EQ(HazardRow::Unpin(*pin), nullptr);
}

TEST(HazardRowTest, Unpin_AfterAGift_GivesItToTheOwner) {
  const int64_t object = 0;
  HazardRow& row = *ThisHazardRow();
  auto* const pin = row.TryPin(&object);
  ASSERT_TRUE(HazardRow::Offer(*pin, &object));
  EXPECT_FALSE(HazardRow::IsHandedOver(*pin, &object));
  HeavyFence();
  EXPECT_EQ(HazardRow::Confirm(*pin, &object), HazardRow::Offered::kHandedOver);
  EXPECT_TRUE(HazardRow::IsHandedOver(*pin, &object));
  EXPECT_FALSE(HazardRow::Offer(*pin, &object)) << "it has a gift";
  EXPECT_EQ(HazardRow::Unpin(*pin), &object);
  EXPECT_FALSE(HazardRow::IsHandedOver(*pin, &object));
  EXPECT_EQ(row.TryPin(&object), pin);
  EXPECT_EQ(HazardRow::Unpin(*pin), nullptr);
}

TEST(HazardRowTest, Confirm_AfterTheOwnerHasLeft_TakesTheGiftBack) {
  const int64_t object = 0;
  HazardRow& row = *ThisHazardRow();
  auto* const pin = row.TryPin(&object);
  EXPECT_EQ(HazardRow::Unpin(*pin), nullptr);
  ASSERT_TRUE(HazardRow::Offer(*pin, &object));
  auto* const other = row.TryPin(&object);
  EXPECT_NE(other, pin) << "a pin with a gift is not used";
  EXPECT_EQ(HazardRow::Confirm(*pin, &object), HazardRow::Offered::kTakenBack);
  EXPECT_EQ(HazardRow::Confirm(*pin, &object), HazardRow::Offered::kUnpinned);
  EXPECT_EQ(HazardRow::Confirm(*other, &object), HazardRow::Offered::kUnknown) << "nothing was offered";
  EXPECT_EQ(HazardRow::Unpin(*other), nullptr);
}

TEST(HazardRowTest, AwaitReads_ReturnsAfterTheReadsOfThatObject) {
  const int object = 0;
  const int other = 0;
  std::latch reading(2);
  std::atomic<bool> ended = false;
  std::thread reader([&] {
    {
      const HazardRow::Read read(*ThisHazardRow(), &object);
      reading.arrive_and_wait();
      for (int i = 0; i < 100; ++i) std::this_thread::yield();
      ended = true;
    }
    const HazardRow::Read elsewhere(*ThisHazardRow(), &other);
  });
  reading.arrive_and_wait();
  AwaitReads(&object);
  EXPECT_TRUE(ended);
  reader.join();
}

// Readers follow a pointer that a writer keeps replacing. What they have announced and found again is never freed: its
// poison would show, and ASan would.
TEST(HazardRowTest, Stress_NothingIsFreedThatSomebodyReads) {
  struct Node {
    std::atomic<uint64_t> alive{1};
  };
  const int replacements = testing::Scaled(20'000, 500'000);
  std::atomic<Node*> current = new Node;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      HazardRow& row = *ThisHazardRow();
      while (!stop) {
        const HazardRow::Read read(row, &current);
        Node* const node = current.load(std::memory_order_acquire);
        LightStore(row.reads, static_cast<const void*>(node));
        if (current.load(std::memory_order_seq_cst) != node) continue;
        ASSERT_EQ(node->alive.load(std::memory_order_relaxed), 1);
        ++reads;
      }
    });
  }
  std::vector<std::unique_ptr<Node>> retired;
  for (int i = 0; i < replacements; ++i) {
    retired.emplace_back(current.exchange(new Node, std::memory_order_seq_cst));
    if (retired.size() < 16) continue;
    HeavyFence();
    std::erase_if(retired, [](const std::unique_ptr<Node>& node) {
      if (SomeRowReads(node.get())) return false;
      node->alive.store(0, std::memory_order_relaxed);
      return true;
    });
    ASSERT_LE(retired.size(), 16U);
  }
  while (reads == 0) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  delete current.load();
}

}  // namespace
}  // namespace stockade::base_internal

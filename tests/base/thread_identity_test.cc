#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "stockade/base/owner_id.h"
#include "stockade/base/thread_slot.h"

namespace stockade {
namespace {

TEST(ThreadSlotTest, RunningThreads_HaveDifferentSlots) {
  constexpr int kThreads = 64;
  std::mutex mutex;
  std::set<uint32_t> slots;
  std::latch all(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const uint32_t slot = base_internal::ThisThreadSlot();
        EXPECT_EQ(slot, base_internal::ThisThreadSlot());
        {
          std::lock_guard lock(mutex);
          slots.insert(slot);
        }
        all.arrive_and_wait();
      });
    }
  }
  EXPECT_EQ(slots.size(), static_cast<size_t>(kThreads));
}

TEST(ThreadSlotTest, ThreadEnded_ItsSlotIsReused) {
  std::set<uint32_t> slots;
  for (int i = 0; i < 2'000; ++i) {
    std::jthread([&] { slots.insert(base_internal::ThisThreadSlot()); }).join();
  }
  EXPECT_EQ(slots.size(), 1u);
  EXPECT_LT(*slots.begin(), base_internal::kMaxThreadSlots);
}

struct AsksLate {
  uint32_t* out;
  ~AsksLate() { *out = base_internal::ThisThreadSlot(); }
};

TEST(ThreadSlotTest, LateThreadLocalDestructor_HasNoSlot) {
  uint32_t late = 0;
  std::jthread([&] {
    thread_local AsksLate asks{&late};  // Made before the slot's guard, so destroyed after it.
    (void)asks;
    EXPECT_NE(base_internal::ThisThreadSlot(), base_internal::kNoSlot);
  }).join();
  EXPECT_EQ(late, base_internal::kNoSlot);
}

TEST(OwnerIdTest, Threads_OneAfterTheOther_NeverShareAnId) {
  std::set<OwnerId> ids{kNoOwner, ThisThreadOwnerId()};
  EXPECT_EQ(ThisThreadOwnerId(), ThisThreadOwnerId());
  for (int i = 0; i < 100; ++i) {
    std::jthread([&] { ids.insert(ThisThreadOwnerId()); }).join();
  }
  ids.insert(NewOwnerId());
  EXPECT_EQ(ids.size(), 103u);
}

}  // namespace
}  // namespace stockade

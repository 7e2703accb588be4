// S3Fifo against a naive model, and against threads that touch what it evicts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <random>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "eviction.h"
#include "slot_queues.h"
#include "support/scale.h"

namespace stockade::cache_internal {
namespace {

struct ModelEntry {
  uint64_t hash;
  int64_t weight;
  int uses;
};

// The policy as its description has it, on two sequences that are searched. Oldest first.
class Model {
 public:
  void Insert(uint64_t hash, int64_t weight) {
    const double entries = static_cast<double>(Size());
    const auto ghost = ghosts_.Take(hash, Rooms());
    const bool of_small = ghost.has_value() && ghost->queue == GhostTable::Queue::kSmall;
    const bool filling =
        static_cast<double>(Weight(small_)) > (share_ + S3Fifo::kShareSlack) * static_cast<double>(TotalWeight());
    if (ghost.has_value() && !filling && ghost->age < std::max(1.0, S3Fifo::kWindow * std::max(1.0, entries))) {
      share_ += (of_small ? S3Fifo::kSmallStep : -S3Fifo::kMainStep) / std::max(1.0, entries);
      share_ = std::min(std::max(share_, S3Fifo::kLeastShare), S3Fifo::kMostShare);
    }
    const bool enters_main = of_small || (ghost.has_value() && share_ > S3Fifo::kRestlessShare);
    (enters_main ? main_ : small_).push_back({hash, weight, 0});
  }

  void Reweigh(uint64_t hash, int64_t weight) { Find(hash).weight = weight; }
  void Touch(uint64_t hash) { Find(hash).uses = std::min(Find(hash).uses + 1, 3); }
  void Remove(uint64_t hash) {
    for (auto* const queue : {&small_, &main_}) std::erase_if(*queue, [&](auto& entry) { return entry.hash == hash; });
  }

  // The hash of the victim, or -1.
  int64_t Evict(uint64_t spared) {
    size_t fills = 0;
    for (size_t step = 0;; ++step) {
      const auto others = [&](const std::deque<ModelEntry>& queue) {
        return std::any_of(queue.begin(), queue.end(), [&](auto& entry) { return entry.hash != spared; });
      };
      if (!others(small_) && !others(main_)) return -1;
      const double of_small = static_cast<double>(Weight(small_));
      const bool due = of_small > share_ * static_cast<double>(Weight(small_) + Weight(main_));
      const bool from_small = others(small_) && (due || !others(main_));
      std::deque<ModelEntry>& queue = from_small ? small_ : main_;
      const auto oldest = std::find_if(queue.begin(), queue.end(), [&](auto& entry) { return entry.hash != spared; });
      ModelEntry entry = *oldest;
      queue.erase(oldest);
      const bool restless = share_ > S3Fifo::kRestlessShare;
      if (entry.uses > (from_small && !restless ? 1 : 0) && step < S3Fifo::kMostSteps) {
        const bool stays_small = from_small && restless && entry.uses == 1;
        entry.uses = from_small || restless ? 0 : entry.uses - 1;
        (stays_small ? small_ : main_).push_back(entry);
        continue;
      }
      if (from_small) {
        const double all = static_cast<double>(TotalWeight());
        const bool main_is_full = static_cast<double>(Weight(main_)) >= (1 - share_) * all;
        const bool small_is_long = static_cast<double>(Weight(small_)) > (share_ + S3Fifo::kFillSlack) * all;
        filling_ = !main_is_full && (filling_ || small_is_long);
        if (filling_ && fills < S3Fifo::kMostFills && others(small_)) {
          ++fills;
          entry.uses = 0;
          main_.push_back(entry);
          --step;
          continue;
        }
      }
      ghosts_.Remember(entry.hash, from_small ? GhostTable::Queue::kSmall : GhostTable::Queue::kMain, Rooms());
      return static_cast<int64_t>(entry.hash);
    }
  }

  size_t Size() const { return small_.size() + main_.size(); }
  int64_t TotalWeight() const { return Weight(small_) + Weight(main_); }
  double share() const { return share_; }

 private:
  static int64_t Weight(const std::deque<ModelEntry>& queue) {
    int64_t weight = 0;
    for (const ModelEntry& entry : queue) weight += entry.weight;
    return weight;
  }
  GhostTable::Rooms Rooms() const {
    const auto entries = static_cast<double>(Size());
    return {.small = static_cast<uint32_t>(std::max(1.0, S3Fifo::kSmallGhosts * entries)),
            .main = static_cast<uint32_t>(std::max(1.0, S3Fifo::kWindow * entries))};
  }
  ModelEntry& Find(uint64_t hash) {
    for (auto* const queue : {&small_, &main_}) {
      for (ModelEntry& entry : *queue) {
        if (entry.hash == hash) return entry;
      }
    }
    std::abort();
  }

  std::deque<ModelEntry> small_, main_;
  GhostTable ghosts_;
  bool filling_ = false;
  double share_ = S3Fifo::kFirstShare;
};

TEST(S3FifoModelTest, SeededOperations_AsTheModel) {
  constexpr uint64_t kKeys = 120;
  constexpr uint64_t kNone = ~uint64_t{0};
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(testing::Scaled(40, 1000)); ++seed) {
    std::mt19937_64 random(seed);
    const size_t room = 1 + random() % 60;
    const int64_t heaviest = seed % 2 == 0 ? 1 : 1 + static_cast<int64_t>(random() % 50);
    const auto weigh = [&] { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(heaviest)); };
    SlotQueues queues;
    Model model;
    std::vector<Slot*> slots(kKeys);
    for (uint64_t key = 0; key < kKeys; ++key) slots[key] = &queues.New(key);
    for (int i = 0; i < 3000; ++i) {
      // Small keys are asked for more often.
      const uint64_t key = std::min(random() % kKeys, random() % kKeys);
      const uint64_t dice = random() % 20;
      Slot& slot = *slots[key];
      if (!queues.Has(slot)) {
        slot.weight = weigh();
        queues.Insert(slot);
        model.Insert(key, slot.weight);
        while (queues.size() > room) {
          const bool spares = dice % 4 != 0;
          const Slot* const victim = queues.Evict(spares ? &slot : nullptr);
          const int64_t of_model = model.Evict(spares ? key : kNone);
          ASSERT_EQ(victim == nullptr ? -1 : static_cast<int64_t>(victim->hash), of_model) << "seed " << seed;
          if (victim == nullptr) break;
        }
      } else if (dice == 0) {
        queues.Remove(slot);
        model.Remove(key);
      } else if (dice == 1) {
        const int64_t weight = weigh();
        queues.Reweigh(slot, weight);
        model.Reweigh(key, weight);
      } else {
        slot.Touch();
        model.Touch(key);
      }
      ASSERT_EQ(queues.size(), model.Size()) << "seed " << seed;
      ASSERT_EQ(queues.weight(), model.TotalWeight()) << "seed " << seed;
      ASSERT_DOUBLE_EQ(queues.small_share(), model.share()) << "seed " << seed;
    }
  }
}

TEST(S3FifoRaceTest, Touch_ByThreadsDuringEvictions_QueuesStayWhole) {
  constexpr size_t kNodes = 1000, kRoom = 300;
  SlotQueues queues;
  std::vector<Slot*> slots(kNodes);
  for (size_t i = 0; i < kNodes; ++i) slots[i] = &queues.New(i);
  std::vector<std::jthread> touching;
  for (size_t thread = 0; thread < 3; ++thread) {
    touching.emplace_back([&slots, thread](const std::stop_token& stop) {
      for (size_t i = thread; !stop.stop_requested(); ++i) slots[i * 7 % kNodes]->Touch();
    });
  }
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < testing::Scaled(100'000, 5'000'000); ++i) {
    Slot& slot = *slots[random() % kNodes];
    if (queues.Has(slot)) {
      queues.Remove(slot);
      continue;
    }
    queues.Insert(slot);
    if (queues.size() <= kRoom) continue;
    const Slot* const victim = queues.Evict(&slot);
    ASSERT_NE(victim, nullptr);
    ASSERT_NE(victim, &slot);
  }
  touching.clear();  // Stops and joins them.
  size_t linked = 0;
  for (const Slot* const slot : slots) {
    linked += queues.Has(*slot) ? 1 : 0;
    EXPECT_LE(slot->uses, Slot::kMostUses);
  }
  EXPECT_EQ(queues.size(), linked);
  EXPECT_EQ(queues.weight(), static_cast<int64_t>(linked));
  while (queues.Evict(nullptr) != nullptr) --linked;
  EXPECT_EQ(linked, 0u);
}

TEST(S3FifoRaceTest, Touch_ByThreads_CountsSomeAndNeverTooMany) {
  for (int64_t round = 0; round < testing::Scaled(200, 10'000); ++round) {
    Slot node;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
          for (int i = 0; i < 5; ++i) node.Touch();
        });
      }
    }
    ASSERT_GE(node.uses, 1);
    ASSERT_LE(node.uses, Slot::kMostUses);
  }
}

}  // namespace
}  // namespace stockade::cache_internal

#include "invalidation_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stockade::cache_internal {
namespace {

using Concern = InvalidationQueue::Concern;
using State = PendingInvalidation::State;
using Kind = TierTarget::Kind;

class InvalidationQueueTest : public ::testing::Test {
 protected:
  uint64_t Add(Kind kind, std::string_view text = {}) {
    return queue.Add(TierInvalidation({.kind = kind, .text = text}), now);
  }
  uint64_t AddQueued(Kind kind, std::string_view text = {}) {
    const uint64_t id = Add(kind, text);
    queue.Enqueue(id);
    return id;
  }

  Instant now = Instant::FromNanoseconds(1'000'000'000);
  TierTokens tokens;
  static constexpr size_t kMostQueued = 1000;
  InvalidationQueue queue{&tokens, kMostQueued};
};

TEST_F(InvalidationQueueTest, Add_Key_ConcernsThatKeyUntilItIsAccepted) {
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kNone);
  const uint64_t id = Add(Kind::kKey, "k");
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kInFlight);
  EXPECT_EQ(queue.ConcernOf("other"), Concern::kNone);
  queue.Enqueue(id);
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kQueued);
  EXPECT_EQ(queue.queued(), 1u);
  EXPECT_EQ(queue.TakeQueued(10), std::vector<uint64_t>{id});
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kQueued);
  EXPECT_EQ(queue.queued(), 0u);
  queue.Accept(id);
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kNone);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Find(id), nullptr);
}

TEST_F(InvalidationQueueTest, Add_TagOrAll_ConcernsAllKeys) {
  const uint64_t tag = Add(Kind::kTag, "k");
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kInFlight);
  const uint64_t all = AddQueued(Kind::kAll);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kQueued);
  queue.Accept(all);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kInFlight);
  queue.Accept(tag);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kNone);
}

TEST_F(InvalidationQueueTest, Add_AgainWhileQueued_IsOneWithANewOperation) {
  const uint64_t first = AddQueued(Kind::kKey, "k");
  queue.Find(first)->sent_in = 3;
  const std::string operation = queue.Find(first)->operation;
  EXPECT_EQ(Add(Kind::kKey, "k"), first);
  EXPECT_NE(queue.Find(first)->operation, operation) << "the first may have run before";
  EXPECT_EQ(queue.Find(first)->sent_in, 0u);
  EXPECT_NE(Add(Kind::kTag, "k"), first);
  EXPECT_EQ(queue.size(), 2u);
}

TEST_F(InvalidationQueueTest, Add_AgainWhileItIsSent_IsAnother) {
  const uint64_t first = AddQueued(Kind::kKey, "k");
  queue.TakeQueued(1);
  const uint64_t second = Add(Kind::kKey, "k");
  EXPECT_NE(second, first);
  queue.Accept(first);
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kInFlight);
  queue.Accept(second);
  EXPECT_EQ(queue.ConcernOf("k"), Concern::kNone);
}

TEST_F(InvalidationQueueTest, Add_WhileAllIsQueued_IsCovered) {
  const uint64_t all = AddQueued(Kind::kAll);
  EXPECT_EQ(Add(Kind::kKey, "k"), all);
  EXPECT_EQ(Add(Kind::kTag, "t"), all);
  EXPECT_EQ(queue.size(), 1u);
}

TEST_F(InvalidationQueueTest, Add_WhileAllIsQueuedThatMayHaveRun_IsAnother) {
  const uint64_t all = AddQueued(Kind::kAll);
  queue.Find(all)->sent_in = 3;
  const std::string operation = queue.Find(all)->operation;
  const uint64_t key = Add(Kind::kKey, "k");
  EXPECT_NE(key, all);
  EXPECT_NE(Add(Kind::kTag, "t"), all);
  EXPECT_EQ(queue.Find(all)->operation, operation) << "a repeat removes nothing; a new one would remove all again";
  EXPECT_EQ(Add(Kind::kAll), all);
  EXPECT_NE(queue.Find(all)->operation, operation);
  EXPECT_EQ(Add(Kind::kKey, "other"), all) << "it has not been sent";
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kQueued);
}

TEST_F(InvalidationQueueTest, Enqueue_TooMany_BecomeOneOfAll) {
  const uint64_t held = Add(Kind::kKey, "held");
  const uint64_t first = AddQueued(Kind::kKey, "first");
  const uint64_t tag = AddQueued(Kind::kTag, "t");
  queue.TakeQueued(1);  // `first` is on its way.
  uint64_t last = 0;
  for (size_t n = 0; n < kMostQueued; ++n) last = AddQueued(Kind::kKey, "k" + std::to_string(n));
  EXPECT_EQ(queue.queued(), 1u);
  EXPECT_EQ(queue.size(), 3u);
  for (const uint64_t id : {tag, tag + 1, last}) {
    ASSERT_NE(queue.Find(id), nullptr) << id;
    EXPECT_EQ(queue.Find(id)->scope, TierScope::kAll);
  }
  EXPECT_EQ(queue.Find(held)->text, "held");
  EXPECT_EQ(queue.Find(first)->text, "first");
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kQueued);
  EXPECT_TRUE(queue.AnyUpTo(last));
  const std::vector<uint64_t> taken = queue.TakeQueued(10);
  ASSERT_EQ(taken.size(), 1u);
  queue.Accept(taken[0]);
  EXPECT_EQ(queue.Find(last), nullptr);
  EXPECT_EQ(queue.Find(tag), nullptr);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kNone);
  EXPECT_EQ(queue.ConcernOf("held"), Concern::kInFlight);
  queue.Accept(held);
  queue.Accept(first);
  EXPECT_FALSE(queue.AnyUpTo(last));
}

TEST_F(InvalidationQueueTest, EnqueueHeld_BelowAtAndAboveTheBound_MoreAreOneOfAll) {
  for (const size_t count : {kMostQueued - 1, kMostQueued, kMostQueued + 1, 3 * kMostQueued}) {
    InvalidationQueue many(&tokens, kMostQueued);
    std::vector<uint64_t> ids;
    for (size_t n = 0; n < count; ++n)
      ids.push_back(many.Add(TierInvalidation({.kind = Kind::kKey, .text = "k" + std::to_string(n)}), now));
    many.EnqueueHeld(ids);
    EXPECT_EQ(many.queued(), count <= kMostQueued ? count : 1);
    for (const uint64_t id : ids) ASSERT_NE(many.Find(id), nullptr);
    many.EnqueueHeld(ids);
    EXPECT_EQ(many.queued(), count <= kMostQueued ? count : 1) << "none twice";
    const std::vector<uint64_t> taken = many.TakeQueued(count);
    many.EnqueueHeld(ids);
    EXPECT_EQ(many.queued(), 0u) << "they are on their way";
    for (const uint64_t id : taken) many.Accept(id);
    for (const uint64_t id : ids) EXPECT_EQ(many.Find(id), nullptr);
  }
}

TEST_F(InvalidationQueueTest, Enqueue_TooManyTwice_EachIsFound) {
  const uint64_t first = AddQueued(Kind::kKey, "first");
  for (size_t n = 0; n < kMostQueued; ++n) AddQueued(Kind::kKey, std::to_string(n));
  ASSERT_EQ(queue.TakeQueued(10).size(), 1u);  // On its way, so that new ones do not join it.
  uint64_t last = 0;
  for (size_t n = 0; n <= kMostQueued; ++n) last = AddQueued(Kind::kKey, std::to_string(n));
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_NE(queue.Find(first), queue.Find(last));
  queue.Accept(first);
  EXPECT_EQ(queue.Find(first), nullptr);
  ASSERT_NE(queue.Find(last), nullptr);
  EXPECT_EQ(queue.Find(last)->scope, TierScope::kAll);
}

TEST_F(InvalidationQueueTest, EnqueueHeldBefore_TakesOldOnesOnly) {
  const uint64_t old = Add(Kind::kKey, "old");
  const uint64_t sending = Add(Kind::kKey, "sending");
  queue.Find(sending)->state = State::kSending;
  now = now + absl::Seconds(1);
  const uint64_t young = Add(Kind::kKey, "young");
  queue.EnqueueHeldBefore(now);
  EXPECT_EQ(queue.Find(old)->state, State::kQueued);
  EXPECT_EQ(queue.Find(sending)->state, State::kSending);
  EXPECT_EQ(queue.Find(young)->state, State::kHeld);
}

TEST_F(InvalidationQueueTest, Widen_AKey_ConcernsAllKeys) {
  const uint64_t id = AddQueued(Kind::kKey, "k");
  queue.TakeQueued(1);
  const std::string operation = queue.Find(id)->operation;
  queue.Widen(id);
  EXPECT_EQ(queue.Find(id)->scope, TierScope::kAll);
  EXPECT_NE(queue.Find(id)->operation, operation);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kQueued);
  queue.Enqueue(id);
  EXPECT_EQ(queue.queued(), 1u);
  queue.Accept(id);
  EXPECT_EQ(queue.ConcernOf("any"), Concern::kNone);
  EXPECT_EQ(queue.queued(), 0u);
}

// What is too long for the journal is an invalidation of memory, which concerns no key of the tier.
TEST_F(InvalidationQueueTest, LongTexts_AreOneInvalidationOfMemory) {
  const std::string longest(1024, 'x');
  const uint64_t precise = AddQueued(Kind::kKey, longest);
  EXPECT_EQ(queue.Find(precise)->scope, TierScope::kKey);
  const uint64_t memory = AddQueued(Kind::kKey, longest + "x");
  EXPECT_EQ(queue.Find(memory)->scope, TierScope::kMemory);
  EXPECT_EQ(queue.Find(memory)->text, "");
  EXPECT_EQ(Add(Kind::kTag, std::string(1 << 20, 'y')), memory);
  EXPECT_EQ(queue.ConcernOf("other"), Concern::kNone);
  EXPECT_EQ(queue.ConcernOf(longest), Concern::kQueued);
  queue.Accept(precise);
  queue.Accept(memory);
  EXPECT_EQ(Add(Kind::kTag, longest), queue.newest());
  EXPECT_EQ(queue.Find(queue.newest())->scope, TierScope::kTag);
}

}  // namespace
}  // namespace stockade::cache_internal

// What keyed locks cost once nobody holds or waits for a key, however many there were: nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "support/scale.h"

namespace stockade {
namespace {

using testing::Scaled;

size_t BytesInUse() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

template <typename Keyed>
class KeyedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kSanitized) GTEST_SKIP() << "a sanitizer allocates in its own way";
    (void)mutex_.Lock(0).holds();  // The thread's record, and what else is made once.
  }

  Keyed mutex_;
};
using MeasuredKinds = ::testing::Types<KeyedMutex<int>, KeyedSharedMutex<int>>;
TYPED_TEST_SUITE(KeyedMemoryTest, MeasuredKinds);

TYPED_TEST(KeyedMemoryTest, AMillionKeys_OneAfterAnother_LeaveNoneBehind) {
  const size_t before = BytesInUse();
  for (int key = 0; key < 1'000'000; ++key) (void)this->mutex_.Lock(key).holds();
  EXPECT_EQ(this->mutex_.size(), 0u);
  // Each shard has a small table for its keys, made when it gets its first one.
  EXPECT_LT(BytesInUse(), before + 16 * 1024);
}

TYPED_TEST(KeyedMemoryTest, ManyKeys_AllHeldAtOnce_AreGoneAfterTheRelease) {
  const size_t before = BytesInUse();
  {
    std::vector<int> keys(static_cast<size_t>(Scaled(200'000, 1'000'000)));
    std::iota(keys.begin(), keys.end(), 0);
    const auto held = this->mutex_.LockAll(std::move(keys));
    EXPECT_GT(BytesInUse(), before + held.size() * sizeof(locks_internal::LockCore));
  }
  EXPECT_EQ(this->mutex_.size(), 0u);
  EXPECT_LT(BytesInUse(), before + 64 * 1024);
}

}  // namespace
}  // namespace stockade

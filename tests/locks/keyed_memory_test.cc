// What keyed locks cost once nobody holds or waits for a key: nothing.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstddef>

#include "stockade/locks/keyed_mutex.h"
#include "stockade/locks/keyed_shared_mutex.h"
#include "support/scale.h"

namespace stockade {
namespace {

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
using Kinds = ::testing::Types<KeyedMutex<int>, KeyedSharedMutex<int>>;
TYPED_TEST_SUITE(KeyedMemoryTest, Kinds);

TYPED_TEST(KeyedMemoryTest, AMillionKeys_OneAfterAnother_LeaveNoneBehind) {
  const size_t before = BytesInUse();
  for (int key = 0; key < 1'000'000; ++key) (void)this->mutex_.Lock(key).holds();
  EXPECT_EQ(this->mutex_.size(), 0u);
  // Each shard has a small table for its keys, made when it gets its first one.
  EXPECT_LT(BytesInUse(), before + 16 * 1024);
}

}  // namespace
}  // namespace stockade

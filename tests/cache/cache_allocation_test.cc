// A cache without memory for the tags of an entry. This program replaces operator new.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "stockade/base/log.h"
#include "stockade/cache/loading_cache.h"

namespace {

// Only allocations that are so large are counted, and fail: those of the long tags below.
constexpr size_t kLarge = 10'000;
constinit thread_local int64_t allow = INT64_MAX;  // So many more, on this thread.

void* Allocate(size_t size) {
  if (size >= kLarge && allow-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: g++ 12 would think that what new gave is freed by the wrong one.
[[gnu::noinline]] void* operator new(size_t size) { return Allocate(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace stockade {
namespace {

using Cache = LoadingCache<int, int>;

// Lets the n-th allocation of `body` fail, for each n, until none does. Returns how many failed.
template <typename Body>
int FailEach(const Body& body) {
  for (int n = 0;; ++n) {
    allow = n;
    body(n);
    const bool failed = allow < 0;
    allow = INT64_MAX;
    if (!failed) return n;
  }
}

class CacheAllocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([](LogSeverity, std::string_view) {});
  }
  void TearDown() override { SetLogSink({}); }

  static std::string Tag(char of) { return std::string(2 * kLarge, of); }
};

TEST_F(CacheAllocationTest, Store_NoMemoryForATag_LeavesNoTagBehind) {
  for (const bool there : {false, true}) {
    SCOPED_TRACE(there ? "over a value" : "new");
    const int failed = FailEach([&](int n) {
      const int64_t allowed = std::exchange(allow, INT64_MAX);
      SCOPED_TRACE(n);
      int loaded = 0;
      Cache cache({.name = "short", .ttl = absl::Hours(1)}, [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
        for (const char tag : {'b', 'c', 'd'}) load.AddTag(Tag(tag));
        return ++loaded;
      });
      if (there) cache.Put(1, 100, {.tags = {Tag('a'), Tag('b')}});
      EXPECT_EQ(cache.size(), there ? 1 : 0);
      EntryOptions entry{.tags = {Tag('b'), Tag('c'), Tag('d')}};
      allow = allowed;
      cache.Put(1, 200, std::move(entry));
      const int64_t left = std::exchange(allow, INT64_MAX);
      const auto value = cache.GetIfPresent(1);
      EXPECT_EQ(value.has_value(), left >= 0);
      if (value.has_value()) {
        EXPECT_EQ(**value, 200);
      }
      EXPECT_EQ(**cache.Get(1), value.has_value() ? 200 : 1);
      for (const char tag : {'a', 'c'}) cache.InvalidateTag(Tag(tag));
      EXPECT_EQ(cache.size(), 0);
      for (const char tag : {'b', 'd'}) cache.InvalidateTag(Tag(tag));
      EXPECT_EQ(**cache.Get(1), value.has_value() ? 1 : 2);
      allow = left;
    });
    EXPECT_GE(failed, 6) << "a key and a name for each tag";
  }
}

TEST_F(CacheAllocationTest, Load_NoMemoryForATag_IsReturnedAndNotStored) {
  const std::string names[] = {Tag('b'), Tag('c')};
  int returned_without_memory = 0;
  const int failed = FailEach([&](int n) {
    const int64_t allowed = std::exchange(allow, INT64_MAX);
    SCOPED_TRACE(n);
    Cache cache({.name = "short", .ttl = absl::Hours(1)}, [&](const int&, LoadContext& load) -> absl::StatusOr<int> {
      for (const std::string& name : names) load.AddTag(name);
      allow = allowed;
      return 1;
    });
    const auto found = cache.Get(1);
    const int64_t left = std::exchange(allow, INT64_MAX);
    if (found.ok()) {
      EXPECT_EQ(**found, 1);
      returned_without_memory += left < 0;
    } else {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kResourceExhausted);
    }
    EXPECT_EQ(cache.size(), left >= 0 ? 1 : 0);
    cache.InvalidateTag(names[0]);
    EXPECT_EQ(cache.size(), 0);
    cache.InvalidateTag(names[1]);
    allow = left;
  });
  EXPECT_GE(failed, 4);
  EXPECT_GE(returned_without_memory, 4);
}

}  // namespace
}  // namespace stockade

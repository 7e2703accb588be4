#ifndef STOCKADE_TESTS_CACHE_COUNTED_VALUE_H_
#define STOCKADE_TESTS_CACHE_COUNTED_VALUE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace stockade::testing {

// A value that is pinned, not copied: owns memory, counts how many of its kind live (what was moved from does not), and
// is no longer right once destroyed.
class CountedText {
 public:
  CountedText(uint64_t key, std::atomic<int64_t>& live) : text_(TextOf(key)), live_(&live) {
    live.fetch_add(1, std::memory_order_relaxed);
  }

  bool Right(uint64_t key) const { return live_ != nullptr && text_ == TextOf(key); }

 private:
  struct CountDown {
    void operator()(std::atomic<int64_t>* live) const { live->fetch_sub(1, std::memory_order_relaxed); }
  };

  // Too long for the string to hold it in itself.
  static std::string TextOf(uint64_t key) { return std::string(24, 'x') + std::to_string(key); }

  std::string text_;
  std::unique_ptr<std::atomic<int64_t>, CountDown> live_;
};

// One that is copied into handles.
class SmallNumber {
 public:
  SmallNumber(uint64_t key, std::atomic<int64_t>&) : key_(key), check_(~key) {}

  bool Right(uint64_t key) const { return key_ == key && check_ == ~key; }

 private:
  uint64_t key_;
  uint64_t check_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_COUNTED_VALUE_H_

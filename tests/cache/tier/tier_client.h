#ifndef STOCKADE_TESTS_CACHE_TIER_TIER_CLIENT_H_
#define STOCKADE_TESTS_CACHE_TIER_TIER_CLIENT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/locks/lock_lease.h"

namespace stockade::testing {

using Answer = TierAnswer::Kind;
using Filled = TierFilled::Kind;
using Target = TierTarget::Kind;
using Mark = TierMark::Kind;

// Records the calls of a tier. Thread-safe.
class TierEar final : public TierListener {
 public:
  struct Heard {
    uint64_t position = 0;  // 0: OnReset().
    Target kind = Target::kAll;
    std::string text;
  };

  void OnInvalidated(uint64_t position, const TierTarget& target) override {
    Note({.position = position, .kind = target.kind, .text = std::string(target.text)});
  }
  void OnReset() override { Note({}); }
  void OnLeaseEnded(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    ended_.emplace_back(key);
    changed_.notify_all();
  }

  // Invoked within each call, before it is recorded.
  std::function<void()> during;

  std::vector<Heard> heard() const {
    const std::lock_guard lock(mutex_);
    return heard_;
  }
  // The same as texts: "key <key>", "tag <tag>", "all" and "reset".
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const Heard& one : heard()) {
      const bool all = one.kind == Target::kAll;
      lines.push_back(all ? one.position == 0 ? "reset" : "all"
                          : (one.kind == Target::kKey ? "key " : "tag ") + one.text);
    }
    return lines;
  }
  int resets() const {
    const std::lock_guard lock(mutex_);
    return resets_;
  }
  // The keys of OnLeaseEnded().
  std::vector<std::string> ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // Block until it is so; false if that takes a minute.
  bool AwaitPosition(uint64_t position) {
    return Await([&] { return newest_ >= position; });
  }
  bool AwaitResets(int count) {
    return Await([&] { return resets_ >= count; });
  }
  bool AwaitEnded(size_t count) {
    return Await([&] { return ended_.size() >= count; });
  }

 private:
  void Note(Heard heard) {
    if (during) during();
    const std::lock_guard lock(mutex_);
    if (heard.position == 0) ++resets_;
    newest_ = std::max(newest_, heard.position);
    heard_.push_back(std::move(heard));
    changed_.notify_all();
  }
  template <typename Predicate>
  bool Await(Predicate holds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), holds);
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Heard> heard_;
  std::vector<std::string> ended_;
  uint64_t newest_ = 0;
  int resets_ = 0;
};

// The lines of invalidations of the keys "0" to count - 1.
inline std::vector<std::string> NumberedKeys(size_t count) {
  std::vector<std::string> lines;
  for (size_t n = 0; n < count; ++n) lines.push_back("key " + std::to_string(n));
  return lines;
}

// A cache of one process in a tier, of which a test makes the calls.
class TierClient {
 public:
  explicit TierClient(std::shared_ptr<CacheTier> of, std::string_view name = "products",
                      std::string_view codec = "product/1")
      : tier(std::move(of)) {
    absl::StatusOr<std::unique_ptr<TierCache>> opened = tier->Open(name, codec, *ear);
    EXPECT_TRUE(opened.ok()) << opened.status();
    cache = *std::move(opened);
  }

  TierAnswer Ask(std::string_view key, uint64_t known_version = 0) {
    const TierAsk ask{.key = key, .known_version = known_version};
    return std::move(cache->Ask({&ask, 1})[0]);
  }

  // Asks for a key that the tier has, until most questions were hits. A tier in Redis then reads the records of the
  // next questions before it runs a script.
  void AskUntilItReads(std::string_view key) {
    for (int n = 0; n < 64; ++n) EXPECT_EQ(Ask(key).kind, Answer::kHit);
  }

  struct Value {
    std::string_view bytes = {};
    std::vector<std::string> tags = {};
    absl::Duration ttl = absl::Hours(1);
    absl::Duration grace = absl::ZeroDuration();
    bool absent = false;
  };
  TierFilled Fill(std::string_view key, const TierLease& lease, const Value& value) {
    const TierFill fill{.key = key,
                        .lease = lease,
                        .absent = value.absent,
                        .bytes = value.bytes,
                        .tags = value.tags,
                        .ttl = value.ttl,
                        .grace = value.grace,
                        .load_time = absl::Milliseconds(7)};
    return cache->Fill({&fill, 1})[0];
  }
  TierFilled Fill(std::string_view key, const TierLease& lease, std::string_view bytes) {
    return Fill(key, lease, Value{.bytes = bytes});
  }
  // Asks, and loads `value`.
  TierFilled Load(std::string_view key, const Value& value) {
    const TierAnswer answer = Ask(key);
    EXPECT_EQ(answer.kind, Answer::kGranted) << key;
    return Fill(key, answer.lease, value);
  }
  TierFilled Load(std::string_view key, std::string_view bytes) { return Load(key, Value{.bytes = bytes}); }

  // Whether the key has a value now, which the tier had, or which this has loaded.
  bool Provide(std::string_view key, std::string_view bytes) {
    const TierAnswer answer = Ask(key);
    return answer.kind == Answer::kHit ||
           (answer.kind == Answer::kGranted && Fill(key, answer.lease, bytes).kind == Filled::kStored);
  }

  TierInvalidated Invalidate(Target kind, std::string_view text = {}, bool with_lease = false) {
    return cache->Await(cache->Queue({.kind = kind, .text = text}), with_lease);
  }
  TierInvalidated InvalidateKey(std::string_view key) { return Invalidate(Target::kKey, key); }
  TierInvalidated InvalidateTag(std::string_view tag) { return Invalidate(Target::kTag, tag); }
  TierInvalidated InvalidateAll() { return Invalidate(Target::kAll); }

  TierMark Hold(std::string_view key, int64_t fencing_token) {
    return cache->Hold(cache->Queue({.kind = Target::kKey, .text = key}), fencing_token);
  }
  TierMark Release(std::string_view key, const TierMark& held) {
    return cache->Release(cache->Queue({.kind = Target::kKey, .text = key}), held);
  }

  bool AwaitAccepted() { return cache->AwaitAll(tier->clock()->Now() + absl::Minutes(1)); }
  bool trusted() const { return tier->clock()->Now() < cache->trusted_until(); }

  std::shared_ptr<CacheTier> tier;
  std::unique_ptr<TierEar> ear = std::make_unique<TierEar>();
  std::unique_ptr<TierCache> cache;
};

inline std::ostream& operator<<(std::ostream& out, const TierClient::Value& value) { return out << value.bytes; }

}  // namespace stockade::testing

namespace stockade {

inline void PrintTo(TierAnswer::Kind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"kHit", "kGranted", "kBusy", "kAway"};
  *out << kNames[static_cast<int>(kind)];
}
inline void PrintTo(TierFilled::Kind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"kStored", "kUnstored", "kRefused", "kAway"};
  *out << kNames[static_cast<int>(kind)];
}

inline void PrintTo(TierMark::Kind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"kStands", "kLost", "kRefused", "kAway"};
  *out << kNames[static_cast<int>(kind)];
}

}  // namespace stockade

#endif  // STOCKADE_TESTS_CACHE_TIER_TIER_CLIENT_H_

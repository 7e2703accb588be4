#ifndef STOCKADE_TESTS_CACHE_REDIS_TIER_NODE_H_
#define STOCKADE_TESTS_CACHE_REDIS_TIER_NODE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "stockade/base/log.h"
#include "stockade/cache/redis_cache_tier.h"

namespace stockade::testing {

// The keys of PatientTier(), and those of key "k" of a TierNode.
inline constexpr char kState[] = "sc1:{test}:s";
inline constexpr char kJournal[] = "sc1:{test}:j";
inline constexpr char kRecord[] = "sc1:{test}:v:products:product/1:k";
inline constexpr char kLease[] = "sc1:{test}:l:products:product/1:k";
inline constexpr char kWaiters[] = "sc1:{test}:w:products:product/1:k";
inline constexpr char kChannel[] = "sc1:{test}:c";

// Records the calls of a tier. Thread-safe.
class TierEar final : public TierListener {
 public:
  struct Heard {
    uint64_t position = 0;  // 0: OnReset().
    TierTarget::Kind kind = TierTarget::Kind::kAll;
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

// Options with which nothing ends by itself, however busy the machine is.
inline RedisCacheTierOptions PatientTier() {
  RedisCacheTierOptions options;
  options.prefix = "test";
  options.heartbeat = absl::Milliseconds(10);
  options.max_staleness = absl::Minutes(10);
  options.timeout = absl::Seconds(30);
  options.lease = absl::Minutes(1);
  options.max_load = absl::Minutes(10);
  options.metrics = nullptr;
  options.redis.metrics = nullptr;
  return options;
}

// With heartbeats so rare, and no messages, that all that passes a proxy is the calls' own.
inline RedisCacheTierOptions QuietTier() {
  RedisCacheTierOptions options = PatientTier();
  options.heartbeat = absl::Minutes(2);
  options.pubsub = false;
  return options;
}

// What a cache of one process has of a tier.
class TierNode {
 public:
  explicit TierNode(const std::string& url, RedisCacheTierOptions options = PatientTier(),
                    std::string_view cache = "products", std::string_view codec = "product/1") {
    // On a busy machine a server may answer too late for connect_timeout.
    options.redis.connect_timeout = absl::Seconds(30);
    absl::StatusOr<std::shared_ptr<CacheTier>> connected = RedisCacheTier::Connect(url, std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    tier = *std::move(connected);
    Open(cache, codec);
  }
  // Another cache of the same process.
  TierNode(const TierNode& other, std::string_view name, std::string_view codec = "product/1") : tier(other.tier) {
    Open(name, codec);
  }

  TierAnswer Ask(std::string_view key, uint64_t known_version = 0) {
    const TierAsk ask{.key = key, .known_version = known_version};
    return std::move(cache->Ask({&ask, 1})[0]);
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
    EXPECT_EQ(answer.kind, TierAnswer::Kind::kGranted) << key;
    return Fill(key, answer.lease, value);
  }
  TierFilled Load(std::string_view key, std::string_view bytes) { return Load(key, Value{.bytes = bytes}); }

  TierInvalidated Invalidate(TierTarget::Kind kind, std::string_view text = {}, bool with_lease = false) {
    return cache->Await(cache->Queue({.kind = kind, .text = text}), with_lease);
  }
  TierInvalidated InvalidateKey(std::string_view key) { return Invalidate(TierTarget::Kind::kKey, key); }
  TierInvalidated InvalidateTag(std::string_view tag) { return Invalidate(TierTarget::Kind::kTag, tag); }
  TierInvalidated InvalidateAll() { return Invalidate(TierTarget::Kind::kAll); }

  bool trusted() const { return tier->clock()->Now() < cache->trusted_until(); }

  std::shared_ptr<CacheTier> tier;
  std::unique_ptr<TierEar> ear = std::make_unique<TierEar>();
  std::unique_ptr<TierCache> cache;

 private:
  void Open(std::string_view name, std::string_view codec) {
    absl::StatusOr<std::unique_ptr<TierCache>> opened = tier->Open(name, codec, *ear);
    EXPECT_TRUE(opened.ok()) << opened.status();
    cache = *std::move(opened);
  }
};

inline std::ostream& operator<<(std::ostream& out, const TierNode::Value& value) { return out << value.bytes; }

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

}  // namespace stockade

#endif  // STOCKADE_TESTS_CACHE_REDIS_TIER_NODE_H_

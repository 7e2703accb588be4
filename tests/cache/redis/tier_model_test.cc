// Random calls of three processes against a reference model: what each call answers is known exactly. By seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cache/redis/tier_node.h"
#include "redis/support/redis_server.h"
#include "support/await.h"
#include "support/scale.h"
#include "support/test_seed.h"

namespace stockade::testing {
namespace {

constexpr int kKeys = 4;
constexpr int kTags = 3;

// The memory of a process, as a cache keeps it: an entry has the position of the answer that it came with.
class Memory final : public TierListener {
 public:
  void OnInvalidated(uint64_t position, const TierTarget& target) override {
    const std::lock_guard lock(mutex_);
    heard_.push_back({position, target.kind, std::string(target.text)});
    std::erase_if(entries_, [&](const auto& entry) { return Concerns(heard_.back(), entry.first, entry.second); });
  }
  void OnReset() override {
    const std::lock_guard lock(mutex_);
    entries_.clear();
    heard_.clear();
    ++resets_;
  }

  int resets() {
    const std::lock_guard lock(mutex_);
    return resets_;
  }
  // Unless something newer has been heard, or a reset since the call began.
  void Store(const std::string& key, int value, const std::vector<std::string>& tags, uint64_t position, int resets) {
    const std::lock_guard lock(mutex_);
    if (resets != resets_) return;
    const Entry entry{value, {tags.begin(), tags.end()}, position};
    for (const Heard& heard : heard_) {
      if (Concerns(heard, key, entry)) return;
    }
    entries_[key] = entry;
  }
  std::map<std::string, int> values() {
    const std::lock_guard lock(mutex_);
    std::map<std::string, int> values;
    for (const auto& [key, entry] : entries_) values[key] = entry.value;
    return values;
  }
  bool HasHeard(uint64_t position) {
    const std::lock_guard lock(mutex_);
    return !heard_.empty() && heard_.back().position >= position;
  }

 private:
  struct Heard {
    uint64_t position;
    Target kind;
    std::string text;
  };
  struct Entry {
    int value;
    std::set<std::string> tags;
    uint64_t position;
  };
  static bool Concerns(const Heard& heard, const std::string& key, const Entry& entry) {
    if (entry.position >= heard.position) return false;
    switch (heard.kind) {
      case Target::kKey: return heard.text == key;
      case Target::kTag: return entry.tags.contains(heard.text);
      case Target::kAll: break;
    }
    return true;
  }

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::vector<Heard> heard_;
  int resets_ = 0;
};

struct Process {
  explicit Process(const std::string& url) {
    RedisCacheTierOptions options = PatientTier();
    options.heartbeat = absl::Milliseconds(2);
    tier = RedisCacheTier::Connect(url, options).value();
    cache = tier->Open("products", "product/1", memory).value();
  }
  Memory memory;
  std::shared_ptr<CacheTier> tier;
  std::unique_ptr<TierCache> cache;
  uint64_t newest = 0;
};

class Fleet {
 public:
  Fleet(const RedisServer& server, uint64_t seed) : server_(server), random_(seed) {
    server.Call({"FLUSHALL"});
    for (int n = 0; n < 3; ++n) processes_.push_back(std::make_unique<Process>(server.url()));
  }

  void Step() {
    Process& process = *processes_[Pick(processes_.size())];
    const std::string key = "k" + std::to_string(Pick(kKeys));
    const size_t choice = Pick(100);
    if (choice < 35) return Ask(process, key, false);
    if (choice < 42) return Ask(process, key, true);
    if (choice < 65) return Fill();
    if (choice < 69) return Fail();
    if (choice < 76) return Invalidate(process, Target::kKey, key, false);
    if (choice < 82) return Invalidate(process, Target::kTag, "t" + std::to_string(Pick(kTags)), false);
    if (choice < 84) return Invalidate(process, Target::kAll, "", false);
    if (choice < 90) return Invalidate(process, Target::kKey, key, true);
    Lose(key, choice);
  }

  // All processes have applied everything: what they still have is what Redis has, or would have.
  void Check() {
    for (const auto& process : processes_) {
      // A reset may cover the marker; then another one follows it.
      for (bool heard = false; !heard;) {
        const int resets = process->memory.resets();
        const TierInvalidated marker =
            process->cache->Await(process->cache->Queue({.kind = Target::kKey, .text = "marker"}), false);
        ASSERT_TRUE(marker.accepted);
        NotePosition(*process, marker.position);
        Await("the journal", [&] {
          heard = process->memory.HasHeard(marker.position);
          return heard || process->memory.resets() != resets;
        });
      }
      for (const auto& [key, value] : process->memory.values()) {
        const Load& load = loads_[value];
        EXPECT_TRUE(load.time >= keys_[key] && Current(load.time, load.tags))
            << key << " in memory is older than its last invalidation";
      }
    }
  }

 private:
  struct Record {
    int value;
    std::vector<std::string> tags;
    uint64_t time;  // When its load began.
    uint64_t version;
    bool fresh = true;
  };
  struct Lease {
    Process* process;
    std::string key;
    TierLease lease;
    uint64_t time;
    int value;
    std::vector<std::string> tags;
    bool filled = false;
  };
  struct Load {
    uint64_t time = 0;
    std::vector<std::string> tags = {};
  };
  size_t Pick(size_t count) { return random_() % count; }

  std::vector<std::string> SomeTags() {
    std::vector<std::string> tags;
    for (int n = 0; n < kTags; ++n) {
      if (Pick(3) == 0) tags.push_back("t" + std::to_string(n));
    }
    return tags;
  }

  bool Current(uint64_t time, const std::vector<std::string>& tags) {
    return time >= all_ && std::all_of(tags.begin(), tags.end(), [&](const auto& tag) { return time >= tags_[tag]; });
  }
  Record* RecordOf(const std::string& key) {
    const auto found = records_.find(key);
    if (found == records_.end()) return nullptr;
    if (Current(found->second.time, found->second.tags)) return &found->second;
    records_.erase(found);
    return nullptr;
  }

  void NotePosition(Process& process, uint64_t position) {
    EXPECT_GE(position, process.newest) << "positions do not go back";
    process.newest = position;
  }

  void Begin(Process& process, const std::string& key, const TierLease& lease) {
    tokens_[key] = lease.token;
    const std::vector<std::string> tags = SomeTags();
    loads_[++last_load_] = {now_, tags};
    leases_.push_back({&process, key, lease, now_, last_load_, tags});
  }

  void Ask(Process& process, const std::string& key, bool refresh) {
    Record* const record = RecordOf(key);
    const bool fresh = record != nullptr && record->fresh;
    const uint64_t known = refresh && record != nullptr ? record->version : 0;
    const int resets = process.memory.resets();
    const TierAsk ask{.key = key, .known_version = known};
    const TierAnswer answer = process.cache->Ask({&ask, 1})[0];
    const bool hit = fresh && known == 0;
    const Answer expected = hit ? Answer::kHit : tokens_.contains(key) ? Answer::kBusy : Answer::kGranted;
    ASSERT_EQ(answer.kind, expected);
    if (hit || (record != nullptr && !fresh)) {
      ASSERT_TRUE(answer.record.has_value());
      EXPECT_EQ(answer.record->bytes, std::to_string(record->value));
      EXPECT_EQ(answer.record->tags, record->tags);
      EXPECT_EQ(answer.record->version, record->version);
      EXPECT_EQ(answer.record->left > absl::ZeroDuration(), hit);
      NotePosition(process, answer.record->position);
    } else {
      EXPECT_FALSE(answer.record.has_value());
    }
    if (hit) process.memory.Store(key, record->value, record->tags, answer.record->position, resets);
    if (answer.kind == Answer::kGranted) Begin(process, key, answer.lease);
  }

  void Fill() {
    if (leases_.empty()) return;
    Lease& lease = leases_[Pick(leases_.size())];
    const bool mine = tokens_.contains(lease.key) && tokens_[lease.key] == lease.lease.token;
    Record* const record = RecordOf(lease.key);
    const bool repeat = !mine && lease.filled && record != nullptr && record->time == lease.time &&
                        record->value == lease.value && versions_[lease.lease.token] == record->version;
    const bool stored = (mine || repeat) && Current(lease.time, lease.tags);
    Process& process = *lease.process;
    const int resets = process.memory.resets();
    const std::string bytes = std::to_string(lease.value);
    const TierFill fill{.key = lease.key,
                        .lease = lease.lease,
                        .bytes = bytes,
                        .tags = lease.tags,
                        .ttl = absl::Hours(1),
                        .grace = absl::Hours(1)};
    const TierFilled filled = process.cache->Fill({&fill, 1})[0];
    ASSERT_EQ(filled.kind, stored ? Filled::kStored : Filled::kRefused) << lease.key;
    if (mine) tokens_.erase(lease.key);
    if (stored) {
      if (mine) {
        records_[lease.key] = {lease.value, lease.tags, lease.time, filled.version};
        versions_[lease.lease.token] = filled.version;
        lease.filled = true;
        NotePosition(process, filled.position);
      }
      EXPECT_EQ(filled.version, versions_[lease.lease.token]);
      process.memory.Store(lease.key, lease.value, lease.tags, filled.position, resets);
    }
    if (Pick(2) == 0) std::erase_if(leases_, [&](const Lease& one) { return &one == &lease; });
  }

  void Fail() {
    if (leases_.empty()) return;
    const size_t at = Pick(leases_.size());
    const Lease lease = leases_[at];
    leases_.erase(leases_.begin() + static_cast<std::ptrdiff_t>(at));
    lease.process->cache->Fail(lease.key, lease.lease);
    if (!tokens_.contains(lease.key) || tokens_[lease.key] != lease.lease.token) return;
    tokens_.erase(lease.key);
    Await("the end of the lease", [&] { return server_.Call({"EXISTS", LeaseKey(lease.key)}).text == "0"; });
  }

  void Invalidate(Process& process, Target kind, const std::string& text, bool put) {
    const TierInvalidated done = process.cache->Await(process.cache->Queue({.kind = kind, .text = text}), put);
    ASSERT_TRUE(done.accepted);
    NotePosition(process, done.position);
    ++now_;
    if (kind == Target::kKey) {
      keys_[text] = now_;
      records_.erase(text);
      tokens_.erase(text);
    } else if (kind == Target::kTag) {
      tags_[text] = now_;
    } else {
      all_ = now_;
    }
    EXPECT_EQ(done.lease.token.empty(), !put);
    if (put) Begin(process, text, done.lease);
  }

  void Lose(const std::string& key, size_t choice) {
    const bool all = choice < 92;
    switch (choice) {
      case 90: server_.Call({"FLUSHALL"}); break;
      case 91: server_.Call({"DEL", kState}); break;
      case 92: server_.Call({"DEL", kJournal}); break;
      case 93:
        server_.Call({"DEL", RecordKey(key)});
        records_.erase(key);
        break;
      case 94:
      case 95:
        server_.Call({"DEL", LeaseKey(key)});
        tokens_.erase(key);
        break;
      default:  // Expires, and is in its grace.
        if (Record* const record = RecordOf(key); record != nullptr) {
          ASSERT_EQ(server_.Call({"PEXPIRE", RecordKey(key), "3500000"}).text, "1");
          record->fresh = false;
        }
    }
    if (!all) return;
    // A new reign: everything is void.
    ++now_;
    all_ = now_;
    records_.clear();
    tokens_.clear();
  }

  static std::string RecordKey(const std::string& key) { return "sc1:{test}:v:products:product/1:" + key; }
  static std::string LeaseKey(const std::string& key) { return "sc1:{test}:l:products:product/1:" + key; }

  const RedisServer& server_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Process>> processes_;

  uint64_t now_ = 1;           // Grows with each invalidation.
  std::map<int, Load> loads_;  // By value: each load has another one.
  int last_load_ = 0;
  std::map<std::string, uint64_t> keys_;  // When each was invalidated.
  uint64_t all_ = 0;
  std::map<std::string, uint64_t> tags_;
  std::map<std::string, Record> records_;
  std::map<std::string, std::string> tokens_;  // Of the leases that are alive.
  std::map<std::string, uint64_t> versions_;   // By token.
  std::vector<Lease> leases_;                  // All that were granted, and perhaps ended.
};

TEST(TierModelTest, RandomCalls_AnswerAsTheModelDoes) {
  STOCKADE_NEEDS_REDIS();
  RedisServer server;
  const int64_t seeds = Scaled(30, 1000);
  for (int64_t n = 0; n < seeds; ++n) {
    const uint64_t seed = Seed() + static_cast<uint64_t>(n);
    SCOPED_TRACE("STOCKADE_TEST_SEED=" + std::to_string(seed));
    Fleet fleet(server, seed);
    for (int step = 0; step < 300; ++step) {
      fleet.Step();
      if (step % 50 == 49) fleet.Check();
      if (::testing::Test::HasFailure()) FAIL() << "step " << step;
    }
  }
}

}  // namespace
}  // namespace stockade::testing

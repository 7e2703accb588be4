#ifndef STOCKADE_CACHE_MEMORY_CACHE_TIER_H_
#define STOCKADE_CACHE_MEMORY_CACHE_TIER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/thread_annotations.h"
#include "stockade/cache/cache_tier.h"

namespace stockade {

class LockService;

// Times of a MemoryCacheTier.
struct MemoryCacheTierOptions {
  // The clock of the caches, too: a ManualClock in tests whose time passes only when they say so. Not null; must
  // outlive the tier.
  Clock* clock = Clock::System();
  absl::Duration max_staleness = absl::Seconds(10);    // After a heartbeat, memory is trusted for so long.
  absl::Duration lease = absl::Seconds(2);             // Then another process may load the key. It is not renewed.
  absl::Duration retry_after = absl::Milliseconds(5);  // After which a call asks again that waits for another process.
  absl::Duration max_ttl = absl::Hours(24);            // The longest life of a record, with its grace.
  size_t max_value_bytes = size_t{16} << 20;           // Larger values are not stored.
  // For the updates of strict caches, such as a LocalLockService; null: there are no such caches. Must outlive the
  // tier.
  LockService* locks = nullptr;
};

// A second level in memory, for the tests of a program that has RedisCacheTier in production: a test opens several
// caches in it, each of which stands for a process of its own, also if they have one name. The test decides when
// heartbeats come, leases lapse, replies are lost, a process is cut off and a new reign begins. Nothing happens by
// itself: without Beat() a process does not learn what others have invalidated, and trusts its memory for
// max_staleness.
//
//   auto tier = MemoryCacheTier::Create({.clock = &clock});
//   Products here({.name = "products", .clock = &clock, .tier = tier}, load);
//   Products there({.name = "products", .clock = &clock, .tier = tier}, load);
//   here.Invalidate("dunk-low");       // `there` has the old value,
//   tier->BeatAll();                   // until a heartbeat.
//   tier->process(1).away = true;      // The network of `there` is down.
//
// Thread-safe. No call blocks.
class STOCKADE_EXPORT MemoryCacheTier final : public CacheTier, public std::enable_shared_from_this<MemoryCacheTier> {
 public:
  class Process;

  // Something that happens on the server, or a reply of it.
  struct Event {
    // As the comments say.
    enum class Kind {
      kAway,      // A question for the key `text` was answered kAway.
      kGranted,   // The process has the lease `token` of the key `text`.
      kEnded,     // The process has ended the lease `token`, by Fill() or Fail().
      kReload,    // The key `text` may be loaded once more: it has expired, is refreshed, or its lease has lapsed.
      kStored,    // The key `text` has the value `bytes`.
      kQueued,    // The process has queued its invalidation `number`.
      kAccepted,  // The invalidation `number` of the process has been accepted.
      kShown,     // A heartbeat has seen all that has been accepted so far.
    };
    Kind kind;                    // As above.
    size_t process;               // As in process().
    std::string_view text = {};   // The encoded key.
    std::string_view token = {};  // Of the lease.
    std::string_view bytes = {};  // The encoded value.
    uint64_t number = 0;          // Of the invalidation, from 1.
  };
  // Called for each event, within a call of the tier. Must not call the tier or its caches, and must not throw.
  using Observer = std::function<void(const Event&)>;

  // Caches need the tier in a shared_ptr. `observer` may be empty.
  static std::shared_ptr<MemoryCacheTier> Create(const MemoryCacheTierOptions& options = {}, Observer observer = {});
  ~MemoryCacheTier() override;

  Clock* clock() const override { return options_.clock; }
  // Several caches of one name may be open. InvalidArgument: a name is invalid.
  absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                  TierListener& listener) override;
  bool has_locks() const override { return options_.locks != nullptr; }

  // The caches that were opened, also those that are closed by now.
  size_t opened() const;
  // The cache that was opened as the i-th, from 0. It must be open.
  Process& process(size_t i) const;
  // A heartbeat of each open cache.
  void BeatAll();

  // Faults of the server: all leases end; all values are lost; it comes back empty; the journal has lost all entries,
  // so that processes that have not read them drop what they have in memory.
  void LapseLeases();
  void DropRecords();
  void BeginReign();
  void TrimJournal();

  // Now: the leases of all keys.
  size_t leases() const;
  // Leases that a cache had not ended before it was destroyed.
  size_t forgotten_leases() const;
  // Calls of Ask() so far, and the most keys of one, and of one Fill().
  int64_t asks() const;
  size_t most_asked() const;
  size_t most_filled() const;
  // Questions that said that the codec had refused the value.
  int64_t undecodable() const;

 private:
  struct Record {
    std::string codec;
    TierRecord record;
    Instant expires_at;
    absl::Duration grace;
  };
  struct Lease {
    size_t process;
    std::string token;
    uint64_t position;
    Instant until;
    int64_t fencing_token = 0;  // Of a mark; 0: it is none.

    bool is_mark() const { return fencing_token != 0; }
  };
  struct Entry {
    uint64_t position;
    std::string cache;
    TierTarget::Kind kind;
    std::string text;
  };
  // Of one name.
  struct Space {
    std::map<std::string, Record> records;
    std::map<std::string, Lease> leases;
    std::map<std::string, uint64_t> tags;
    uint64_t all = 0;

    bool IsOutdated(uint64_t position, std::span<const std::string> tags_of) const;
  };

  MemoryCacheTier(const MemoryCacheTierOptions& options, Observer observer);

  TierLease Grant(const Process& process, const std::string& key, Instant now) STOCKADE_REQUIRES(mutex_);
  bool Takes(const TierFill& fill) const;
  TierAnswer Answer(const Process& process, const TierAsk& question, Instant now) STOCKADE_REQUIRES(mutex_);
  TierFilled Store(const Process& process, const TierFill& fill, Instant now) STOCKADE_REQUIRES(mutex_);
  uint64_t Append(const std::string& cache, TierTarget::Kind kind, const std::string& text) STOCKADE_REQUIRES(mutex_);
  // The mark of a key, or null. Leases of marks do not lapse before Release().
  Lease* FindMark(const std::string& cache, const std::string& key) STOCKADE_REQUIRES(mutex_);
  void Tell(const Event& event) const STOCKADE_REQUIRES(mutex_) {
    if (observer_) observer_(event);
  }

  const MemoryCacheTierOptions options_;
  const Observer observer_;
  mutable base_internal::Mutex mutex_;
  uint64_t reign_ STOCKADE_GUARDED_BY(mutex_) = 1;
  uint64_t position_ STOCKADE_GUARDED_BY(mutex_) = 1;
  uint64_t tokens_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint64_t versions_ STOCKADE_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Space> spaces_ STOCKADE_GUARDED_BY(mutex_);
  std::vector<Entry> journal_ STOCKADE_GUARDED_BY(mutex_);
  std::vector<Process*> processes_ STOCKADE_GUARDED_BY(mutex_);
  int64_t asks_ STOCKADE_GUARDED_BY(mutex_) = 0;
  int64_t undecodable_ STOCKADE_GUARDED_BY(mutex_) = 0;
  size_t most_asked_ STOCKADE_GUARDED_BY(mutex_) = 0;
  size_t most_filled_ STOCKADE_GUARDED_BY(mutex_) = 0;
  size_t forgotten_leases_ STOCKADE_GUARDED_BY(mutex_) = 0;
};

// A cache of the tier, which stands for a process: what a test does with its connection. Thread-safe. It lives as long
// as its cache.
class STOCKADE_EXPORT MemoryCacheTier::Process final : public TierCache {
 public:
  ~Process() override;

  std::atomic<bool> away{false};        // Nothing reaches the server.
  std::atomic<int> replies_to_lose{0};  // So many next calls happen on the server, but their replies are lost.
  // Called while the reply to a question, or to a fill, is on its way, and at the begin of AwaitAll(). Set before other
  // threads use the process.
  std::function<void()> on_reply = [] {};
  std::function<void()> on_fill = [] {};       // As above.
  std::function<void()> on_await_all = [] {};  // As above.
  std::atomic<bool> waits_cancelled{false};    // By CancelWaits().

  // A heartbeat: sends what is queued, applies the journal, and begins max_staleness again. Nothing while it is away.
  // Calls the listener on this thread. One at a time.
  void Beat();
  // A message brings the next entry of the journal before a heartbeat, if there is one. Not during Beat().
  void HearEntry();
  // A message says that a load of the encoded key has ended. It may be late, or wrong.
  void TellLeaseEnded(std::string_view key);

  // As in TierCache.
  std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) override;
  std::vector<TierFilled> Fill(std::span<const TierFill> fills) override;
  void Fail(std::string_view key, const TierLease& lease) override;
  uint64_t Queue(const TierTarget& target) override;
  TierInvalidated Await(uint64_t queued, bool with_lease) override;
  absl::StatusOr<LockLease> Lock(std::string_view key, Duration timeout, const std::stop_token& stop) override;
  TierMark Hold(uint64_t queued, int64_t fencing_token) override;
  TierMark Release(uint64_t queued, const TierMark& held) override;
  bool AwaitAll(Instant deadline) override;
  void CancelWaits() override { waits_cancelled = true; }
  Instant trusted_until() const override { return trusted_until_.load(std::memory_order_acquire); }
  absl::Duration max_staleness() const override { return tier_.options_.max_staleness; }
  absl::Duration max_ttl() const override { return tier_.options_.max_ttl; }

 private:
  friend class MemoryCacheTier;
  struct Queued {
    uint64_t number;
    TierTarget::Kind kind;
    std::string text;
  };

  Process(std::shared_ptr<MemoryCacheTier> tier, std::string_view cache, std::string_view codec,
          TierListener& listener);

  Space& space() const STOCKADE_REQUIRES(tier_.mutex_) { return tier_.spaces_[cache_]; }
  void Accept(const Queued& queued) STOCKADE_REQUIRES(tier_.mutex_);
  void SendQueue() STOCKADE_REQUIRES(tier_.mutex_);
  bool Pends(std::string_view key) const STOCKADE_REQUIRES(tier_.mutex_);
  bool LosesReply();

  const std::shared_ptr<MemoryCacheTier> shared_;
  MemoryCacheTier& tier_ = *shared_;
  const std::string cache_;
  const std::string codec_;
  size_t index_ = 0;
  TierListener& listener_;
  uint64_t reign_ STOCKADE_GUARDED_BY(tier_.mutex_) = 0;
  uint64_t applied_ STOCKADE_GUARDED_BY(tier_.mutex_) = 1;
  uint64_t heard_ STOCKADE_GUARDED_BY(tier_.mutex_) = 0;  // By messages since the last heartbeat.
  uint64_t queued_ STOCKADE_GUARDED_BY(tier_.mutex_) = 0;
  std::list<Queued> queue_ STOCKADE_GUARDED_BY(tier_.mutex_);
  std::map<uint64_t, uint64_t> accepted_ STOCKADE_GUARDED_BY(tier_.mutex_);  // The positions of those that were sent.
  std::atomic<Instant> trusted_until_{Instant::InfinitePast()};
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_MEMORY_CACHE_TIER_H_

#ifndef STOCKADE_CACHE_CACHE_TIER_H_
#define STOCKADE_CACHE_CACHE_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"

namespace stockade {

class LockLease;
namespace cache_internal {
class CacheCore;
}

// The second level of LoadingCache, which the caches of one name in all processes of a fleet share. Keys and values are
// bytes here. RedisCacheTier (redis_cache_tier.h) is the implementation for Redis. This header is for authors of
// another one.
//
// Terms. A *position* is a point in the tier's journal of invalidations: a number that grows with each invalidation. A
// record or a lease of position p takes account of all invalidations up to p. A *reign* is the time during which one
// server keeps the journal without a gap; a new reign begins with an empty tier.
//
// A tier promises:
//   C1. At any time at most one live lease of a key exists.
//   C2. Fill() stores a value only if nothing that concerns it (its key, its tags, all) was invalidated since its lease
//       was granted.
//   C3. trusted_until() is in the future only if every invalidation that was accepted before trusted_until() less
//       max_staleness() has been given to OnInvalidated() or OnReset(), and that call has returned.
//   C4. The position of an answer is that of a moment within the call.
//   C5. No call blocks for longer than the tier's time-out, except for AwaitMany() and Lock().
//   C6. From Hold() until Release(), no question for the key is answered with kHit or kGranted and no value of it is
//       stored, unless the mark is lost, which Release() tells. This is only for caches with options.strict.

// A value or an absence in the tier.
struct TierRecord {
  bool absent = false;                 // A cached absence, of which `bytes` is the message.
  std::string bytes = {};              // The encoded value.
  std::vector<std::string> tags = {};  // At most 64, of at most 255 bytes each.
  absl::Duration ttl = {};             // From the fill to the expiry.
  absl::Duration left = {};            // Until the expiry. Zero or less: expired, but within its grace.
  absl::Duration load_time = {};       // Of the loader.
  uint64_t position = 0;               // The journal's position at the moment of the answer.
  uint64_t version = 0;                // Differs between fills of one key. Not 0.
};

// The right to load a key for the whole fleet. The tier keeps it alive from the grant to Fill(), Fail() or the longest
// time of a load.
struct TierLease {
  std::string token = {};  // Empty: none.
  uint64_t position = 0;   // When it was granted.
};

// A question for one key.
struct TierAsk {
  std::string_view key;  // Encoded.
  // 0: a lookup, for which any fresh record will do. Otherwise a refresh of the record with this version: a fresh
  // record of the same version is no answer.
  uint64_t known_version = 0;
  // The codec refused the record of `known_version`. For the tier's counts only.
  bool undecodable = false;
};

// The answer to a question.
struct TierAnswer {
  // It says what the caller does next.
  enum class Kind {
    kHit,      // `record` is fresh and, for a refresh, another one than the known.
    kGranted,  // The caller loads the key and ends `lease`. `record`: an expired value in its grace, if there is one.
    kBusy,     // Another load of the key is in progress. `record` as above. Ask again after `retry_after`.
    kAway,     // The tier cannot be asked, or an invalidation of the key is still queued: load without a lease.
  };
  Kind kind = Kind::kAway;                            // As above.
  std::optional<TierRecord> record = std::nullopt;    // A value or an absence, if there is one.
  TierLease lease = {};                               // For kGranted.
  absl::Duration retry_after = absl::ZeroDuration();  // For kBusy.
};

// The result of a load. Its views are valid during the call.
struct TierFill {
  std::string_view key;                    // Encoded.
  TierLease lease = {};                    // As granted.
  bool absent = false;                     // As in TierRecord, and so the next two.
  std::string_view bytes = {};             // The encoded value, or the message.
  std::span<const std::string> tags = {};  // Of the value.
  absl::Duration ttl = {};                 // Zero or less: the value is not stored, and the lease ends.
  absl::Duration grace = {};               // How long it is kept after its expiry.
  absl::Duration load_time = {};           // Of the loader.
};

// The result of a fill.
struct TierFilled {
  // It says what became of the value and the lease.
  enum class Kind {
    kStored,    // At `position`, as `version`.
    kUnstored,  // The tier does not take it: too large, too many tags, a TTL of zero. The lease, whose position
                // `position` is, has ended.
    kRefused,   // The lease was lost or voided, by an invalidation for example. The value may be outdated.
    kAway,      // Unknown: the tier did not answer.
  };
  Kind kind = Kind::kAway;  // As above.
  uint64_t position = 0;    // For kStored and kUnstored.
  uint64_t version = 0;     // For kStored.
};

// The records that an invalidation concerns.
struct TierTarget {
  // One key, all records with a tag, or all records of the cache.
  enum class Kind { kKey, kTag, kAll };
  Kind kind = Kind::kAll;      // As above.
  std::string_view text = {};  // The encoded key, or the tag.
};

// The result of an invalidation.
struct TierInvalidated {
  bool accepted = false;  // False: it is queued, and the tier sends it until it is accepted.
  uint64_t position = 0;  // If accepted: records of smaller positions are outdated.
  TierLease lease = {};   // If asked for and granted.
};

// The mark of an update, which keeps the values of a key out of the tier.
struct TierMark {
  // As Hold() and Release() return it.
  enum class Kind {
    kStands,   // Hold(): it is set. Release(): it had stood since, for the values of all codecs, and is removed.
    kLost,     // Release(): it was lost. Values from before the write may have been stored in between.
    kRefused,  // Hold(): there is a mark of a larger fencing token, so this update has lost its lock.
    kAway,     // The tier has not confirmed it. The invalidation is queued.
  };
  Kind kind = Kind::kAway;                      // As above.
  std::string token = {};                       // Of the mark; empty unless Hold() has set it.
  uint64_t position = 0;                        // As TierInvalidated::position, unless kRefused or kAway.
  absl::Duration bound = absl::ZeroDuration();  // The longest max_staleness of all processes, unless kRefused or kAway.
};

// The side of the cache. Called by one thread of the tier at a time, except for OnLeaseEnded(), with no lock of the
// tier held. Must not throw.
class STOCKADE_EXPORT TierListener {
 public:
  // Records of `target` with a position below `position` are outdated. In the order of the journal, and including the
  // cache's own invalidations.
  virtual void OnInvalidated(uint64_t position, const TierTarget& target) = 0;
  // The journal has a gap, or a new reign has begun: everything may be outdated.
  virtual void OnReset() = 0;
  // A load of `key` by another process may have ended: calls that have got kBusy should ask again now. A tier need not
  // call it, and may call it for any key, at any time and by any thread.
  virtual void OnLeaseEnded(std::string_view key) { (void)key; }

 protected:
  ~TierListener() = default;
};

// One cache of one process in a tier. Thread-safe. Does not throw. Calls block for at most the tier's time-out.
class STOCKADE_EXPORT TierCache {
 public:
  // Must come after the last call; must not be called on the listener. Ends all leases. No listener is called
  // afterwards. Invalidations that are still queued are lost, which is logged and counted.
  virtual ~TierCache() = default;

  // The answers are in the order of the questions. The cache asks for many keys by several calls, each of at most 256
  // keys; such a call is one round trip. Fill() likewise. A question waits, within the time-out,
  // for an invalidation of its key that another thread is about to make.
  virtual std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) = 0;
  // Ends the leases.
  virtual std::vector<TierFilled> Fill(std::span<const TierFill> fills) = 0;
  // Ends a lease without a value.
  virtual void Fail(std::string_view key, const TierLease& lease) = 0;
  // An invalidation takes two steps, between which the cache removes what it has itself. From the first step on until
  // the tier has accepted it, questions that it concerns are kAway. The first step does not block.
  virtual uint64_t Queue(const TierTarget& target) = 0;
  // Waits until the tier has accepted the invalidation `queued`, at most for the time-out, and not at all while the
  // tier cannot be reached. `with_lease`: also asks for the key's lease in the same step.
  virtual TierInvalidated Await(uint64_t queued, bool with_lease) = 0;
  // The same for several, with a result for each. A tier may send them at a pace that all processes can follow, and
  // wait for that in addition to the time-out if leases are asked for, until CancelWaits(). It may replace many by one
  // of all records. The default awaits one after another.
  virtual std::vector<TierInvalidated> AwaitMany(std::span<const uint64_t> queued, bool with_lease);
  // For updates of strict caches. The defaults are for a tier without locks(): Lock() returns Unimplemented, and the
  // others kAway.
  //
  // Acquires the lock of the updates of `key`, with a fencing token, which is positive. Waits for other updates for at
  // most `timeout`, until `stop` is requested, and then for the engine of the locks. InvalidArgument: the tier has no
  // place for such a key. Otherwise the errors of LockService::Acquire().
  virtual absl::StatusOr<LockLease> Lock(std::string_view key, Duration timeout, const std::stop_token& stop);
  // As Await(), and in the same step marks the key. The mark is like a lease: it lapses, and is renewed until Release()
  // or the longest time of a load. Invalidations and Put() of other calls leave it. It replaces one of a smaller token.
  virtual TierMark Hold(uint64_t queued, int64_t fencing_token);
  // As Await(), and in the same step removes the mark `held`, which Hold() has returned. The mark is not renewed any
  // more, whatever this returns.
  virtual TierMark Release(uint64_t queued, const TierMark& held);
  // FailedPrecondition: other processes have another max_staleness, which strict caches must not have.
  virtual absl::Status CheckStrict() { return absl::OkStatus(); }
  // Waits until all queued invalidations of this cache are accepted, at most until `deadline`. Returns whether they
  // are.
  virtual bool AwaitAll(Instant deadline) = 0;
  // Makes AwaitAll() return without waiting, now and in future calls. The cache is being destroyed.
  virtual void CancelWaits() = 0;

  // Until then, on the tier's clock, the cache has applied all invalidations that are older than max_staleness().
  // Lock-free. Acquire: a cache that sees the time also sees what the listener has removed before it.
  virtual Instant trusted_until() const = 0;
  // How outdated a value may be that the cache serves, at most.
  virtual absl::Duration max_staleness() const = 0;
  // The longest life of a record, with its grace.
  virtual absl::Duration max_ttl() const = 0;
};

// The counts of one open cache of a tier, and its pending work.
struct TierCacheStats {
  std::string cache = {};  // Its name.
  // Keys that were asked for, by TierAnswer::Kind.
  uint64_t hits = 0;
  uint64_t granted = 0;
  uint64_t busy = 0;
  uint64_t away = 0;
  uint64_t undecodable = 0;  // Of the hits: values that the codec refused, so that they were loaded again.
  // Values that were to be stored, by TierFilled::Kind.
  uint64_t stored = 0;
  uint64_t unstored = 0;
  uint64_t refused = 0;
  uint64_t unanswered = 0;
  uint64_t leases_lost = 0;             // They lapsed, or an invalidation voided them, before they could be renewed.
  uint64_t leases_returned = 0;         // Given back: their question had no answer.
  uint64_t invalidations_accepted = 0;  // Of this process.
  uint64_t invalidations_applied = 0;   // Of all processes, read from the journal.
  uint64_t invalidations_dropped = 0;   // They were still queued when their cache was destroyed.
  int64_t invalidations_pending = 0;    // Now: not accepted yet.
  int64_t leases = 0;                   // Now: held for loads.
};

// The counts of a tier, and its state.
struct TierStats {
  bool trusted = false;                     // Now: the caches may serve what they have in memory.
  bool away = false;                        // Now: the server is not asked, because it does not answer.
  bool subscribed = false;                  // Now: messages of other processes arrive.
  uint64_t heartbeats = 0;                  // That succeeded.
  uint64_t heartbeats_failed = 0;           // Others.
  uint64_t reigns = 0;                      // New reigns that the process has seen, the first one included.
  uint64_t gaps = 0;                        // Times that the journal had lost what the process had missed.
  uint64_t invalidation_messages = 0;       // Invalidations that arrived by a message before a heartbeat.
  uint64_t lease_messages = 0;              // Messages that a load of another process has ended.
  uint64_t tags_dropped = 0;                // Times that so many tags became one invalidation of all.
  std::vector<TierCacheStats> caches = {};  // The open ones, in the order of their names.
};

// Thread-safe. Caches share it, and it must outlive none of them: each keeps it.
class STOCKADE_EXPORT CacheTier {
 public:
  virtual ~CacheTier() = default;

  // The clock of trusted_until(), and the one that its caches must have.
  virtual Clock* clock() const = 0;
  // Whether there are locks for the updates of strict caches: see TierCache::Lock().
  virtual bool has_locks() const { return false; }
  // `cache` is the cache's name, of at most 64 characters, and `codec` names the format of its values, with at most 32:
  // printable ASCII without braces, colons and spaces. Blocks for at most the time-out; a tier that cannot be reached
  // now is no error. The listener may be called before Open() has returned.
  //   InvalidArgument: a name is invalid. FailedPrecondition: the tier has an open cache of this name.
  virtual absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                          TierListener& listener) = 0;

  // For health checks and tests; metrics have the same counts over time. They are read one after the other, so calls
  // that run meanwhile may be in some of them. O(caches). A tier that counts nothing returns zeros.
  virtual TierStats Stats() const { return {}; }

 protected:
  static constexpr size_t kMaxCacheBytes = 64;  // Of the name of a cache.
  static constexpr size_t kMaxCodecBytes = 32;  // Of the name of a codec.

  CacheTier();

  // InvalidArgument, which begins with `what`: the name of a cache or a codec is not as Open() wants it.
  static absl::Status CheckName(std::string_view what, std::string_view name, size_t longest);

 private:
  friend class cache_internal::CacheCore;

  // Joins this tier. Here, so that only programs with a tier link a cache's side of it.
  absl::Status (*const join_)(cache_internal::CacheCore& core);
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_CACHE_TIER_H_

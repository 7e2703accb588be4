#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_RECORD_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "stockade/cache/cache_tier.h"

namespace stockade::cache_internal {

// The bytes of a record and of a message, and the names of keys. docs/FLEET_CACHE_WIRE.md describes them.

inline constexpr size_t kTierTokenBytes = 16;
inline constexpr size_t kTierIncarnationBytes = 16;  // Hexadecimal digits.
inline constexpr size_t kMaxTierKeyBytes = 1024;
inline constexpr size_t kTierHeadBytes = 65;  // Of a record without tags, before its value.
inline constexpr size_t kTierSumDigits = 20;  // Hexadecimal, of a SHA-1.
inline constexpr size_t kMaxTierTags = 64;
inline constexpr size_t kMaxTierTagBytes = 255;
// Of a key or a tag in the journal. No record has a longer one, so it becomes an invalidation of memory.
inline constexpr size_t kMaxTierTextBytes = kMaxTierKeyBytes;

// The keys of a tier.
struct TierKeys {
  explicit TierKeys(std::string_view prefix);
  std::string state;
  std::string journal;
  std::string records;  // The prefix of the keys of records. The next two are alike.
  std::string leases;
  std::string waiters;
  std::string channel;
  std::string inboxes;  // The prefix of the channels of inboxes.
};

// The keys of a cache's entries of one codec.
struct TierEntryKeys {
  TierEntryKeys(const TierKeys& keys, std::string_view cache, std::string_view codec);
  std::string Record(std::string_view key) const;
  std::string Lease(std::string_view key) const;
  // The keys of the record, the lease and the waiters.
  std::array<std::string, 3> Entry(std::string_view key) const;
  std::string records;
  std::string leases;
  std::string waiters;
};

// The values that an invalidation concerns, as its code in the journal.
enum class TierScope : char {
  kKey = 'k',
  kTag = 't',
  kAll = 'a',
  kMemory = 'm',  // All values of the cache in the memory of processes. The records in Redis stay.
};
// An invalidation as the journal has it: of memory, without its text, if the text is too long.
struct TierInvalidation {
  explicit TierInvalidation(const TierTarget& target);
  TierScope scope = TierScope::kAll;
  std::string_view text = {};
};

// An entry of the journal. kMemory counts as all, and so does an unknown kind.
struct TierJournalEntry {
  uint64_t position = 0;
  std::string_view cache = {};
  TierTarget target = {};
};
TierTarget::Kind TierKindOf(std::string_view code);
// Returns false if `text` is not a number.
bool ReadPosition(std::string_view text, uint64_t& position);

// Reads the entry that a message of a tier's channel names; nullopt if it is invalid or of another incarnation.
std::optional<TierJournalEntry> ReadTierMessage(std::string_view message, std::string_view incarnation);

// The sum of all messages up to `message`, given the one up to the message before it.
std::string TierSum(std::string_view sum_before, std::string_view message);

// The lease that a message of an inbox names.
struct TierLeaseName {
  std::string_view cache = {};
  std::string_view codec = {};
  std::string_view key = {};
};
std::optional<TierLeaseName> ReadTierLease(const TierKeys& keys, std::string_view lease);

// The fields of a record besides its times and its value.
struct TierRecordHead {
  std::string_view incarnation = {};  // kTierIncarnationBytes.
  uint64_t position = 0;
  std::string_view token = {};  // kTierTokenBytes: the lease that it was loaded with.
};

// `fill` has at most kMaxTierTags tags of at most kMaxTierTagBytes. Times are in whole milliseconds.
std::string EncodeTierRecord(const TierRecordHead& head, const TierFill& fill, absl::Duration ttl,
                             absl::Duration grace);
// nullopt if the bytes are not a record. `left` is limited to the record's TTL.
std::optional<TierRecord> DecodeTierRecord(std::string_view bytes, absl::Duration left, uint64_t position);

// A record without tags is valid if it has this incarnation and a position within these bounds.
struct TierBounds {
  std::string_view incarnation = {};
  uint64_t oldest = 0;  // Positions.
  uint64_t newest = 0;
};
enum class TierValidity { kValid, kTagged, kOther };
// Checks a record as the scripts do, except for its tags. `life` is the time to live of its key. If the record is
// valid, `left` gets the time until its expiry.
TierValidity CheckTierRecord(std::string_view bytes, const TierBounds& bounds, absl::Duration life,
                             absl::Duration& left);

// The version of a record is the first 8 bytes of the token of its lease.
uint64_t TierVersionOf(std::string_view token);
std::string TierVersionBytes(uint64_t version);

// Tokens and incarnations that do not repeat. Not thread-safe.
class TierTokens {
 public:
  TierTokens();
  std::string Token();  // Its version is not 0.
  // The token of a lease ends with the id of its process's inbox, or with zeros if `inbox` is empty.
  std::string LeaseToken(std::string_view inbox);
  // The token of the mark of an update, by whose end the scripts know it.
  std::string MarkToken();
  // The id of an inbox: 12 random hexadecimal digits, and 5c1b. The tokens of older versions have random ends, from
  // which is_orphaned() (redis_tier_scripts.cc) distinguishes an id by its last digits.
  std::string InboxId();
  std::string Incarnation();  // In hexadecimal digits.
  // In [0, 1).
  double RandomFraction() { return std::uniform_real_distribution<double>(0, 1)(random_); }

 private:
  std::string Token(uint64_t end);

  std::mt19937_64 random_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_RECORD_H_

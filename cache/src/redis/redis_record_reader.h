#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_RECORD_READER_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_RECORD_READER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "redis_tier.h"

namespace stockade::cache_internal {

// Runs commands, any number of them. The connection takes only a part of its limit at a time. `options` has all but the
// time-out.
std::vector<absl::StatusOr<RedisReply>> RunAll(RedisTier& tier, std::span<const RedisCommand> commands,
                                               RedisCallOptions options, Instant deadline);

// Whether something is so of most of the last ones: a moving mean over 64. Thread-safe; an update that comes at the
// same time as another one may be lost.
class MovingShare {
 public:
  bool most() const { return share_.load(std::memory_order_relaxed) > kWhole / 2; }
  void Add(bool is_so) {
    const int share = share_.load(std::memory_order_relaxed);
    share_.store(share + ((is_so ? kWhole : 0) - share) / 64, std::memory_order_relaxed);
  }

 private:
  static constexpr int kWhole = 1 << 16;

  std::atomic<int> share_{0};
};

// A record as a transaction has read it, and the state at that moment.
class TierRead {
 public:
  TierRead() = default;
  // The record at `place`, from 0, of a transaction that reads `count` records.
  TierRead(std::shared_ptr<const absl::StatusOr<RedisReply>> reply, size_t place, size_t count)
      : reply_(std::move(reply)), place_(place), count_(count) {}

  // Whether no other record was read with it.
  bool alone() const { return count_ == 1; }
  // Of the transaction. Unknown if there is no reply in time.
  absl::Status status() const { return reply_ != nullptr ? reply_->status() : absl::UnknownError("no reply"); }
  // Whether the transaction has run. The functions below need that.
  bool ok() const { return reply_ != nullptr && reply_->ok() && reply_->value().elements().size() > 2 + 2 * place_; }
  const RedisReply& state() const { return reply_->value().elements()[0]; }
  const RedisReply& life() const { return reply_->value().elements()[1 + 2 * place_]; }  // PTTL
  const RedisReply& record() const { return reply_->value().elements()[2 + 2 * place_]; }

 private:
  std::shared_ptr<const absl::StatusOr<RedisReply>> reply_;
  size_t place_ = 0;
  size_t count_ = 0;
};

// Reads records of one cache, several in one transaction of plain commands: MULTI, the command that reads the state,
// PTTL and GETRANGE of each record, EXEC. That costs Redis and the client less than a script for each record, and less
// than a transaction for each. Many threads that want one record each share transactions. Thread-safe; a read blocks
// until its deadline at the most.
//
// Each transaction is sent once. One with several records reads kPartBytes of each, so that its reply has a bound. A
// record that is longer, and all records if one of them is in a slot that is moving, are read in a transaction each. So
// a record that Redis cannot read yet keeps no other one waiting.
class RecordReader {
 public:
  static constexpr size_t kMostKeys = 64;
  static constexpr size_t kPartBytes = size_t{16} << 10;

  // `read_state` and `max_bytes`, the length of the longest record that is of use, are those of the cache. `tier`
  // outlives the reader.
  RecordReader(RedisTier& tier, RedisCommand read_state, size_t max_bytes);

  // Whether transactions are of use: Redis has not refused one in the last second.
  bool may_read() const { return tier_.clock()->Now().nanoseconds() >= refused_until_.load(std::memory_order_relaxed); }

  // Reads `keys`, the full names of records, as a process of `reign`. The reads are in the order of the keys; what
  // could not be read is not ok().
  std::vector<TierRead> Read(const TierReign& reign, std::span<const std::string> keys, Instant deadline);

 private:
  // So many callers are a crowd, in which throughput depends on what each system call and each switch of threads
  // achieves. Then a transaction takes along the callers that are ready to run. (If it waits longer for more of them,
  // Redis and the callers work in turns, and not at the same time.)
  static constexpr int kCrowd = 8;
  // Times that a caller lets others run before it sleeps. To fall asleep and be woken costs several times as much.
  static constexpr int kYields = 4;

  // What several threads read together. The thread that has opened it sends it.
  struct Batch {
    enum Word : uint32_t { kAwake, kAsleep, kAnswered };

    explicit Batch(uint64_t reign) : reign(reign) {}

    // Blocks until it is answered. False: `deadline` has passed.
    bool Await(Clock& clock, Instant deadline);
    void Answer();

    const uint64_t reign;                                     // Its ordinal.
    std::vector<std::string> keys;                            // Guarded by mutex_ while it is open; then constant.
    std::shared_ptr<const absl::StatusOr<RedisReply>> reply;  // Constant once it is answered. Null: there is none.
    std::atomic<uint32_t> word{kAwake};                       // kAsleep: a caller may sleep on it.
  };

  RedisCommand Transaction(std::span<const std::string> keys) const;
  // Sends transactions, and notes whether Redis replies.
  std::vector<absl::StatusOr<RedisReply>> Run(const TierReign& reign, std::span<const RedisCommand> transactions,
                                              Instant deadline);
  void ReadTogether(const TierReign& reign, std::span<const std::string> keys, std::span<TierRead> reads,
                    Instant deadline);
  TierRead ReadWithOthers(const TierReign& reign, const std::string& key, Instant deadline);
  // Closes the batch and answers it.
  void Send(const TierReign& reign, const std::shared_ptr<Batch>& batch, bool in_crowd, Instant deadline);

  RedisTier& tier_;
  const RedisCommand read_state_;
  const size_t max_bytes_;
  const size_t most_keys_;
  MovingShare long_share_;  // Of the records that were too long for a transaction with others.

  std::atomic<int64_t> refused_until_{Instant::InfinitePast().nanoseconds()};
  std::atomic<int> callers_{0};  // That want one record each.

  Mutex mutex_;
  std::shared_ptr<Batch> open_ STOCKADE_GUARDED_BY(mutex_);  // Takes further keys. Null: there is none.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_RECORD_READER_H_

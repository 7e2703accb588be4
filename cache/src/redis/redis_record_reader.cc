#include "redis_record_reader.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "stockade/base/futex.h"

namespace stockade::cache_internal {
namespace {

// Of the reply to a transaction, besides the bytes of the records.
constexpr size_t kReplyBytesPerKey = 64;

// After Redis has refused a transaction: when it is out of memory, it refuses plain reads in transactions, but no
// script that only reads. Or the user, or a proxy, may run none.
constexpr absl::Duration kPauseAfterRefusal = absl::Seconds(1);

// Whether a key of the command is not where the others are.
bool IsOfMovingSlot(const absl::Status& status) {
  const std::string code = RedisErrorCode(status);
  return code == "ASK" || code == "TRYAGAIN";
}

// Whether a transaction with other records has not read all of it.
bool IsLong(const TierRead& read) { return read.record().text().size() > RecordReader::kPartBytes; }

}  // namespace

std::vector<absl::StatusOr<RedisReply>> RunAll(RedisTier& tier, std::span<const RedisCommand> commands,
                                               RedisCallOptions options, Instant deadline) {
  std::vector<absl::StatusOr<RedisReply>> replies;
  // Other threads use the connection as well, and it refuses commands beyond max_pending_commands.
  const size_t most = std::max<size_t>(tier.options().redis.max_pending_commands / 4, 1);
  replies.reserve(commands.size());
  while (replies.size() < commands.size()) {
    const auto part = commands.subspan(replies.size(), std::min(most, commands.size() - replies.size()));
    options.timeout = deadline - tier.clock()->Now();
    if (part.size() == 1) {  // Run() is cheaper than RunMany().
      replies.push_back(tier.calls().Run(part[0], options));
    } else {
      auto some = tier.calls().RunMany(part, options);
      std::move(some.begin(), some.end(), std::back_inserter(replies));
    }
  }
  return replies;
}

RecordReader::RecordReader(RedisTier& tier, RedisCommand read_state, size_t max_bytes)
    : tier_(tier),
      read_state_(std::move(read_state)),
      max_bytes_(max_bytes),
      most_keys_(std::clamp<size_t>(tier.options().redis.max_reply_bytes / 2 / (kPartBytes + kReplyBytesPerKey), 1,
                                    kMostKeys)) {}

std::vector<TierRead> RecordReader::Read(const TierReign& reign, std::span<const std::string> keys, Instant deadline) {
  std::vector<TierRead> reads(keys.size());
  const bool each_alone = long_share_.most();
  if (!each_alone) {
    if (keys.size() == 1) {
      reads[0] = ReadWithOthers(reign, keys[0], deadline);
    } else {
      ReadTogether(reign, keys, reads, deadline);
    }
  }
  std::vector<size_t> left;
  std::vector<RedisCommand> commands;
  for (size_t n = 0; n < keys.size(); ++n) {
    const TierRead& read = reads[n];
    const bool again = !read.alone() && (read.ok() ? IsLong(read) : IsOfMovingSlot(read.status()));
    if (!each_alone && !again) continue;
    left.push_back(n);
    commands.push_back(Transaction(keys.subspan(n, 1)));
  }
  std::vector<absl::StatusOr<RedisReply>> replies = Run(reign, commands, deadline);
  for (size_t n = 0; n < left.size(); ++n) {
    reads[left[n]] = TierRead(std::make_shared<const absl::StatusOr<RedisReply>>(std::move(replies[n])), 0, 1);
  }
  for (const TierRead& read : reads) {
    if (read.ok()) long_share_.Add(IsLong(read));
  }
  return reads;
}

void RecordReader::ReadTogether(const TierReign& reign, std::span<const std::string> keys, std::span<TierRead> reads,
                                Instant deadline) {
  std::vector<RedisCommand> commands;
  for (size_t begin = 0; begin < keys.size(); begin += most_keys_) {
    commands.push_back(Transaction(keys.subspan(begin, std::min(most_keys_, keys.size() - begin))));
  }
  size_t read = 0;
  for (absl::StatusOr<RedisReply>& reply : Run(reign, commands, deadline)) {
    const auto shared = std::make_shared<const absl::StatusOr<RedisReply>>(std::move(reply));
    const size_t count = std::min(most_keys_, keys.size() - read);
    for (size_t place = 0; place < count; ++place) reads[read++] = TierRead(shared, place, count);
  }
}

TierRead RecordReader::ReadWithOthers(const TierReign& reign, const std::string& key, Instant deadline) {
  const bool in_crowd = callers_.fetch_add(1, std::memory_order_relaxed) + 1 >= kCrowd;
  const absl::Cleanup leave = [this] { callers_.fetch_sub(1, std::memory_order_relaxed); };
  std::shared_ptr<Batch> batch;
  size_t place = 0;
  {
    const MutexLock lock(mutex_);
    if (open_ == nullptr || open_->reign != reign.ordinal) open_ = std::make_shared<Batch>(reign.ordinal);
    batch = open_;
    place = batch->keys.size();
    batch->keys.push_back(key);
    if (batch->keys.size() == most_keys_) open_ = nullptr;
  }
  if (place == 0) {
    Send(reign, batch, in_crowd, deadline);
  } else if (!batch->Await(*tier_.clock(), deadline)) {
    return {};
  }
  return TierRead(batch->reply, place, batch->keys.size());
}

void RecordReader::Send(const TierReign& reign, const std::shared_ptr<Batch>& batch, bool in_crowd, Instant deadline) {
  // Callers that are ready to run add their keys now.
  if (in_crowd) std::this_thread::yield();
  {
    // Nobody may join what is sent already: it may run before an invalidation that the newcomer has to see.
    const MutexLock lock(mutex_);
    if (open_ == batch) open_ = nullptr;
  }
  const absl::Cleanup answer = [&] { batch->Answer(); };  // Also after an exception.
  const RedisCommand commands[] = {Transaction(batch->keys)};
  std::vector<absl::StatusOr<RedisReply>> replies = Run(reign, commands, deadline);
  batch->reply = std::make_shared<const absl::StatusOr<RedisReply>>(std::move(replies[0]));
}

bool RecordReader::Batch::Await(Clock& clock, Instant deadline) {
  for (int yields = kYields;;) {
    uint32_t seen = word.load(std::memory_order_acquire);
    if (seen == kAnswered) return true;
    if (yields-- > 0) {
      std::this_thread::yield();
      continue;
    }
    const Instant now = clock.Now();
    if (now >= deadline) return false;
    if (seen == kAwake && !word.compare_exchange_strong(seen, kAsleep)) continue;
    base_internal::FutexWait(word, kAsleep, base_internal::SteadyAt(deadline, now));
  }
}

void RecordReader::Batch::Answer() {
  if (word.exchange(kAnswered, std::memory_order_release) == kAsleep) base_internal::FutexWake(word, INT_MAX);
}

RedisCommand RecordReader::Transaction(std::span<const std::string> keys) const {
  const size_t last = keys.size() == 1 ? max_bytes_ : std::min(max_bytes_, kPartBytes);
  std::vector<RedisCommand> commands = {read_state_};
  commands.reserve(1 + 2 * keys.size());
  for (const std::string& key : keys) {
    commands.push_back(RedisCommand("PTTL").Key(key));
    commands.push_back(RedisCommand("GETRANGE").Key(key).Arg(0).Arg(last));
  }
  return RedisCommand::Transaction(commands);
}

std::vector<absl::StatusOr<RedisReply>> RecordReader::Run(const TierReign& reign,
                                                          std::span<const RedisCommand> transactions,
                                                          Instant deadline) {
  std::vector<absl::StatusOr<RedisReply>> replies =
      RunAll(tier_, transactions, {.on_server = reign.run_id, .retry = false}, deadline);
  for (const absl::StatusOr<RedisReply>& reply : replies) {
    tier_.RecordReply(reply.status());
    if (RedisErrorCode(reply.status()).empty() || IsOfMovingSlot(reply.status())) continue;
    refused_until_.store((tier_.clock()->Now() + kPauseAfterRefusal).nanoseconds(), std::memory_order_relaxed);
  }
  return replies;
}

}  // namespace stockade::cache_internal

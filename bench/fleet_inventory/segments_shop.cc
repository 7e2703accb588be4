#include "fleet_inventory/segments_shop.h"

#include "measure/require.h"
#include "stockade/base/strings.h"

namespace stockade::bench {
namespace {

using base_internal::Concat;

constexpr int64_t kLockMs = 10'000;

std::string LockOf(const std::string& segment) { return Concat(segment, ":lock"); }

// KEYS: the segment. Returns whether it had a unit.
const RedisScript& TakeScript() {
  static const RedisScript script(
      "if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end redis.call('DECR', KEYS[1]) return 1");
  return script;
}

// KEYS: the lock. ARGV: its owner.
const RedisScript& UnlockScript() {
  static const RedisScript script(
      "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0");
  return script;
}

}  // namespace

SegmentsShop::SegmentsShop(const std::string& sockets, size_t clients)
    : client_(Require(RedisClient::Connect(redis_.url()), "RedisClient")), orders_(sockets, clients) {
  for (size_t i = 0; i < kSegments; ++i) {
    Require(client_->Run(RedisCommand("SET").Key(Concat("{sku}:", i)).Arg(int64_t{1} << 40)).status(), "SET");
  }
}

void SegmentsShop::Take(size_t client, const std::string& request_id) {
  for (size_t i = client;; ++i) {
    const std::string segment = Concat("{sku}:", i % kSegments);
    if (!Lock(segment, request_id)) continue;
    const RedisReply taken = Require(client_->Run(RedisCommand(TakeScript(), {segment})), "a take");
    Unlock(segment, request_id);
    if (taken.integer() != 1) base_internal::Fatal("bench: a segment is sold out");
    return orders_.Insert(client, request_id);
  }
}

void SegmentsShop::Reserve(size_t, const std::string&) { base_internal::Fatal("bench: it has no reservations"); }

void SegmentsShop::Commit(size_t, const std::string&) { base_internal::Fatal("bench: it has no reservations"); }

bool SegmentsShop::Lock(const std::string& segment, const std::string& owner) {
  const RedisCommand command = RedisCommand("SET").Key(LockOf(segment)).Arg(owner).Arg("NX").Arg("PX").Arg(kLockMs);
  return !Require(client_->Run(command), "a lock").is_nil();
}

void SegmentsShop::Unlock(const std::string& segment, const std::string& owner) {
  const std::string lock = LockOf(segment);
  Require(client_->Run(RedisCommand(UnlockScript(), {lock}).Arg(owner)).status(), "an unlock");
}

}  // namespace stockade::bench

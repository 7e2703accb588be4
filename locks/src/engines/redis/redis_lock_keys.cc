#include "redis_lock_keys.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <random>

#include "stockade/base/strings.h"

namespace stockade::locks_internal {
namespace {

bool HasBrace(std::string_view name) { return name.find('{') != std::string_view::npos; }

}  // namespace

std::string PrefixedLockKey(std::string_view before, std::string_view name) {
  return HasBrace(name) ? Concat(before, ":", name) : Concat(before, ":{", name, "}");
}

std::string SuffixedLockKey(std::string_view name, std::string_view after) {
  return HasBrace(name) ? Concat(name, ":", after) : Concat("{", name, "}:", after);
}

std::string NewRedisLockClientId() {
  std::random_device random;
  std::array<uint32_t, 4> words = {};
  for (uint32_t& word : words) word = random();
  words[1] = (words[1] & 0xffff0fffU) | 0x00008000U;  // Version 8.
  words[2] = (words[2] & 0x3fffffffU) | 0x80000000U;  // The variant of RFC 9562.
  char text[37];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%04x%08x", words[0], words[1] >> 16, words[1] & 0xffffU,
                words[2] >> 16, words[2] & 0xffffU, words[3]);
  return text;
}

std::string LockHolder(std::string_view client_id, const HoldKey& hold) {
  return Concat(client_id, ":", hold.owner, hold.kind == LockKind::kWrite ? ":write" : "");
}

std::string LockRecordKey(std::string_view name, std::string_view holder) {
  return SuffixedLockKey(name, Concat("stockade:", holder));
}

std::string LockTokenKey(std::string_view name) { return PrefixedLockKey("redisson_lock_token", name); }

std::string ReadTimeoutsBase(std::string_view name) { return SuffixedLockKey(name, ""); }

std::string FairQueueKey(std::string_view name) { return PrefixedLockKey("redisson_lock_queue", name); }
std::string FairTimesKey(std::string_view name) { return PrefixedLockKey("redisson_lock_timeout", name); }
std::string FairNoteKey(std::string_view name) { return SuffixedLockKey(name, "stockade:head"); }

std::string LockChannel(std::string_view name, LockKind kind) {
  switch (kind) {
    case LockKind::kReentrant: break;
    case LockKind::kFair: return PrefixedLockKey("redisson_lock__channel", name) + ":";
    case LockKind::kRead:
    case LockKind::kWrite: return PrefixedLockKey("redisson_rwlock", name);
  }
  return PrefixedLockKey("redisson_lock__channel", name);
}

}  // namespace stockade::locks_internal

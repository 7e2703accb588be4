#include "redis_lock_scripts.h"

#include "redis_fair_scripts.h"
#include "redis_lock_fragments.h"
#include "redis_rw_scripts.h"

namespace stockade::internal {
namespace {

// The hash of a read-write lock has the field `mode`.
constexpr std::string_view kTryReentrant = R"lua(
local count = 1
if left ~= -2 then
  local was = call('hmget', KEYS[1], ARGV[1], 'mode')
  if was[2] then return {3} end
  if not was[1] then return {0, left} end
  count = tonumber(was[1])
  if count ~= recorded then count = count + 1 end
end
call('hset', KEYS[1], ARGV[1], count)
)lua";

// KEYS  3 the channel.
constexpr std::string_view kReleaseReentrant = R"lua(
local was = call('hmget', KEYS[1], ARGV[1], 'mode')
local count = was[2] and 0 or tonumber(was[1] or 0)
local keep = math.min(count, tonumber(ARGV[2]))
local held = count > 0
if keep > 0 then
  call('hset', KEYS[1], ARGV[1], keep)
elseif held then
  call('del', KEYS[1])
  call(ARGV[5], KEYS[3], '0')
end
)lua";

// KEYS  for each hold the lock and the record;  ARGV  for each the holder, the lease and, of a read hold, what the keys
// of its time-outs begin with, else ''. A key that is no lock any more must not fail the others.
constexpr std::string_view kRenew = R"lua(
local answer = {}
for i = 1, #KEYS / 2 do
  local lock, record = KEYS[2 * i - 1], KEYS[2 * i]
  local holder, lease, timeouts = ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
  local count = redis.pcall('hget', lock, holder)
  local held = type(count) == 'string'
  if held and timeouts ~= '' then
    held = false
    for n = 1, tonumber(count) do
      local left = call('pttl', timeouts .. n)
      held = held or left ~= -2
      if left < lease then call('pexpire', timeouts .. n, lease) end
    end
  end
  if held then
    local left = call('pttl', lock)
    if left < lease then call('pexpire', lock, lease) end
    call('pexpire', record, math.max(left, lease) + 20000)
  end
  answer[i] = held and 1 or 0
end
return answer
)lua";

// KEYS  1 the lock;  ARGV  1 the holder.
constexpr std::string_view kInspect = R"lua(
return {call('pttl', KEYS[1]), tonumber(call('hget', KEYS[1], ARGV[1]) or 0)}
)lua";

// KEYS  1 the lock, 2 the channel;  ARGV  1 the command to publish with.
constexpr std::string_view kForce = R"lua(
if call('hexists', KEYS[1], 'mode') == 1 then return -1 end
local held = call('del', KEYS[1])
if held == 1 then call(ARGV[1], KEYS[2], '0') end
return held
)lua";

}  // namespace

const RedisScript& LockTryScript(LockKind kind) {
  static const RedisScript reentrant = TryScript(true, kTryReentrant);
  switch (kind) {
    case LockKind::kFair: return FairTryScript();
    case LockKind::kRead: return ReadTryScript();
    case LockKind::kWrite: return WriteTryScript();
    case LockKind::kReentrant: break;
  }
  return reentrant;
}

const RedisScript& LockTryWithoutTokenScript() {
  static const RedisScript script = TryScript(false, kTryReentrant);
  return script;
}

const RedisScript& LockReleaseScript(LockKind kind) {
  static const RedisScript reentrant = ReleaseScript(kReleaseReentrant);
  switch (kind) {
    case LockKind::kFair: return FairReleaseScript();
    case LockKind::kRead: return ReadReleaseScript();
    case LockKind::kWrite: return WriteReleaseScript();
    case LockKind::kReentrant: break;
  }
  return reentrant;
}

const RedisScript& LockRenewScript() {
  static const RedisScript script = LockScript(kRenew);
  return script;
}

const RedisScript& LockInspectScript(LockKind kind) {
  static const RedisScript script = LockScript(kInspect);
  return IsReadWrite(kind) ? ReadWriteInspectScript() : script;
}

const RedisScript& LockForceScript(LockKind kind) {
  static const RedisScript script = LockScript(kForce);
  if (kind == LockKind::kFair) return FairForceScript();
  return IsReadWrite(kind) ? ReadWriteForceScript() : script;
}

}  // namespace stockade::internal

#include "redis_lock_scripts.h"

#include "redis_fair_scripts.h"
#include "redis_lock_fragments.h"
#include "redis_rw_scripts.h"

namespace stockade::locks_internal {
namespace {

// The hash of a read-write lock has the field `mode`.
constexpr std::string_view kTryReentrant = R"lua(
local count = 1
if left ~= -2 then
  local was = call('hmget', KEYS[1], ARGV[1], 'mode')
  if was[2] then return {3} end
  if not was[1] then
    local holder = may_be_held()
    if not holder then return {4} end
    return (recorded_kind({holder}, base) or kind_by_waiters(base)) == 0 and {0, left} or {3}
  end
  count = count_of(was[1])
  if count == 0 then return {4} end
  if leave_to_application(KEYS[1], ARGV[1]) then return {6} end
  if count ~= recorded then count = count + 1 end
end
call('hset', KEYS[1], ARGV[1], count)
)lua";

// KEYS  3 the channel. What an application has written into is left to it, and waiters find that out.
constexpr std::string_view kReleaseReentrant = R"lua(
local was = call('hmget', KEYS[1], ARGV[1], 'mode')
local count = was[2] and 0 or count_of(was[1])
local left_to_application = count > 0 and leave_to_application(KEYS[1], ARGV[1])
if left_to_application then count = 0 end
local keep = math.min(count, tonumber(ARGV[2]))
local held = count > 0
if keep > 0 then
  call('hset', KEYS[1], ARGV[1], keep)
elseif held then
  call('del', KEYS[1])
end
if held and keep == 0 or left_to_application then call(ARGV[5], KEYS[3], '0') end
)lua";

// KEYS  for each hold the lock and the record;  ARGV  for each the holder, the lease, for a read or write hold what the
// lock's time-out keys begin with, else '', and the newest step that the lease takes account of.
//
// A hold lives as long as the lease from now on, not longer: that corrects a time to live that became too long when the
// server's clock stepped back. Nothing is shortened if the holder's record is gone, or has a later step, which may have
// set a longer lease. A read-write lock lives as long as its longest reader, and while its writer has it, only the
// writer's renewal shortens it. A key that is not a lock any more must not fail the others; nor must one for which the
// user lacks a right, whose answer is the error.
constexpr std::string_view kRenew = R"lua(
local function prolong(key, lease, exact)
  if exact or call('pttl', key) < lease then return call('pexpire', key, lease) == 1 end
  return true
end
local answer = {}
for i = 1, #KEYS / 2 do
  local lock, record = KEYS[2 * i - 1], KEYS[2 * i]
  local holder, lease, base = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 2]), ARGV[4 * i - 1]
  local count = redis.pcall('hget', lock, holder)
  local held = type(count) == 'string'
  local failed = type(count) == 'table' and not string.find(count.err, 'WRONGTYPE', 1, true) and count.err
  local exact = false
  if held then
    local ran, left_to_application = pcall(leave_to_application, lock, holder)
    if not ran then failed = type(left_to_application) == 'table' and left_to_application.err or left_to_application end
    held = ran and not left_to_application
  end
  if held then
    local newest = string.match(call('get', record) or '', '^(%d+)')
    exact = newest ~= nil and tonumber(newest) <= tonumber(ARGV[4 * i])
  end
  local reads = base ~= '' and string.sub(holder, -6) ~= ':write'
  if held and reads then
    held = oldest_of(count_of(count)) > 1
    for n = oldest_of(count_of(count)), count_of(count) do
      held = prolong(base .. holder .. ':rwlock_timeout:' .. n, lease, exact) or held
    end
  end
  if held then
    local life = lease
    if reads and call('hget', lock, 'mode') ~= 'read' then exact = false end
    if base ~= '' and exact and call('pttl', lock) > lease then
      local longest = readers(lock, base)
      exact = longest ~= nil
      life = math.max(lease, longest or lease)
    end
    prolong(lock, life, exact)
    call('pexpire', record, math.max(life, call('pttl', lock)) + 20000)
  end
  answer[i] = failed or (held and 1 or 0)
end
return answer
)lua";

// KEYS  1 the lock;  ARGV  1 the holder, 2 what the time-out keys and records begin with. Writes nothing.
constexpr std::string_view kInspect = R"lua(
if call('exists', KEYS[1]) == 0 then return {-2} end
if not is_lock() then return {-3} end
local was = call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
local left, count = call('pttl', KEYS[1]), count_of(was[2])
if was[1] then
  local longest, gone = readers(KEYS[1], ARGV[2])
  for _, holder in ipairs(gone) do
    if holder == ARGV[1] then count = 0 end
  end
  if was[1] == 'read' then left = longest end
end
return {left, count + count_of(was[3]), kind_of(KEYS[1], ARGV[2])}
)lua";

// KEYS  1 the lock, 2 its queue, 3 the times of the queue, 4 the channel of a read-write lock;  ARGV  1 the command to
// publish with, 2 what the channels of those who wait for a fair lock begin with, 3 what the time-out keys and records
// begin with.
constexpr std::string_view kForce = R"lua(
if call('exists', KEYS[1]) == 0 then return -1 end
if not is_lock() then return -2 end
local kind = kind_of(KEYS[1], ARGV[3])
local all = call('hgetall', KEYS[1])
call('del', KEYS[1])
if kind < 2 then
  wake_head(KEYS[2], KEYS[3], ARGV[1], ARGV[2])
  keep_queue(KEYS[2], KEYS[3])
  if call('exists', KEYS[2]) == 1 then call(ARGV[1], string.sub(ARGV[2], 1, -2), '0') end
  return kind
end
for i = 1, #all, 2 do
  local count = count_of(all[i + 1])
  for n = oldest_of(count), count do
    call('del', ARGV[3] .. all[i] .. ':rwlock_timeout:' .. n)
  end
end
call(ARGV[1], KEYS[4], '1')
return kind
)lua";

}  // namespace

const RedisScript& LockTryScript(LockKind kind) {
  static const RedisScript& reentrant =
      *new RedisScript(TryScript(true, Concat(kNow, kExclusiveKind, kBaseOfTry, kTryReentrant)));
  switch (kind) {
    case LockKind::kFair: return FairTryScript();
    case LockKind::kRead: return ReadTryScript();
    case LockKind::kWrite: return WriteTryScript();
    case LockKind::kReentrant: break;
  }
  return reentrant;
}

const RedisScript& LockTryWithoutTokenScript() {
  static const RedisScript& script =
      *new RedisScript(TryScript(false, Concat(kNow, kExclusiveKind, kBaseOfTry, kTryReentrant)));
  return script;
}

const RedisScript& LockReleaseScript(LockKind kind) {
  static const RedisScript& reentrant = *new RedisScript(ReleaseScript(kReleaseReentrant));
  switch (kind) {
    case LockKind::kFair: return FairReleaseScript();
    case LockKind::kRead: return ReadReleaseScript();
    case LockKind::kWrite: return WriteReleaseScript();
    case LockKind::kReentrant: break;
  }
  return reentrant;
}

const RedisScript& LockRenewScript() {
  static const RedisScript& script = *new RedisScript(LockScript(kShape, kReaders, kRenew));
  return script;
}

const RedisScript& LockInspectScript() {
  static const RedisScript& script =
      *new RedisScript(LockScript(kShape, kReaders, kNow, kExclusiveKind, kKind, kInspect));
  return script;
}

const RedisScript& LockForceScript() {
  static const RedisScript& script =
      *new RedisScript(LockScript(kShape, kNow, kExclusiveKind, kKind, kWakeHead, kKeepQueue, kForce));
  return script;
}

}  // namespace stockade::locks_internal

#include "redis_fair_scripts.h"

#include "redis_lock_fragments.h"

namespace stockade::locks_internal {
namespace {

// KEYS  4 the queue, 5 its times, 6 the note of a head that did not come;  ARGV  6 '1' to queue, 7 the command to
// publish with, 8 the prefix of the waiters' channels.
//
// Redisson's holders have a UUID of version 4, Stockade's of version 8; the version is the 15th character. Only the
// first hundred waiters before this one are counted: it tries again long before the others reach the head.
constexpr std::string_view kTryFair = R"lua(
local me, queueing = ARGV[1], ARGV[6] == '1'

-- Tells a head whose time is far away that the lock is free, once. How long it has from now on; 0: it did not come.
local function patience(head, score, now)
  local whom = head .. ' ' .. score
  local noted = call('get', KEYS[6])
  if noted then
    local since, before = string.match(noted, '^(%d+) (.*)$')
    if before == whom then return math.max(since + 3000 - now, 0) end
  end
  call('set', KEYS[6], now .. ' ' .. whom, 'px', 10000)
  call(ARGV[7], ARGV[8] .. head, '0')
  return 3000
end

-- Whose turn it is, without the dead, and how long that may yet take.
local function first(now)
  while true do
    local head = call('lindex', KEYS[4], 0)
    if not head or head == me then return head, 0 end
    local score = call('zscore', KEYS[5], head)
    local wait = tonumber(score or 0) - now
    if wait > 3000 and left == -2 then wait = patience(head, score, now) end
    if wait > 0 then return head, wait end
    call('lpop', KEYS[4])
    call('zrem', KEYS[5], head)
  end
end

local count, holds = 1, false
if left ~= -2 then
  local was = call('hmget', KEYS[1], me, 'mode')
  if was[2] then return {3} end
  if not was[1] then
    local holder = may_be_held()
    if not holder then return {4} end
    if recorded_kind({holder}, base) == 0 then return {3} end
  end
  if was[1] then
    holds = true
    count = count_of(was[1])
    if count == 0 then return {4} end
    if leave_to_application(KEYS[1], me) then return {6} end
    if count ~= recorded then count = count + 1 end
  end
end
local waiters = holds and {} or call('lrange', KEYS[4], 0, 99)
if not holds and (left ~= -2 or #waiters > 0) then
  local now = now_ms()
  local queued, alive_until = false, now + 3000
  for _, waiter in ipairs(waiters) do
    if waiter == me then
      queued = true
      break
    end
    if string.sub(waiter, 15, 15) ~= '8' then alive_until = alive_until + 300000 end
  end
  if not queued and #waiters == 100 then queued = call('zscore', KEYS[5], me) end
  if queueing and queued then call('zadd', KEYS[5], alive_until, me) end
  local head, wait = first(now)
  local my_turn = not head or head == me
  if left ~= -2 or not my_turn then
    if queueing and not queued then
      call('rpush', KEYS[4], me)
      call('zadd', KEYS[5], alive_until, me)
    end
    keep_queue(KEYS[4], KEYS[5])
    if left ~= -2 then wait = left == -1 and 750 or left end
    return {0, math.min(math.max(wait, my_turn and 1 or 100), 750)}
  end
  if head then
    call('lpop', KEYS[4])
    call('zrem', KEYS[5], me)
  end
  -- Redisson's waiters have counted on my 3 s. Stockade's, who count anew at each look, have not: one lowered would be
  -- in the past once Redisson has taken off its own 300 s, and dropped.
  local later = call('zrangebyscore', KEYS[5], '(' .. string.format('%.0f', now + 3000), '+inf', 'withscores')
  for i = 1, #later, 2 do
    if string.sub(later[i], 15, 15) ~= '8' then
      call('zadd', KEYS[5], math.max(later[i + 1] - 3000, now + 3000), later[i])
    end
  end
end
if holds or #waiters > 0 then keep_queue(KEYS[4], KEYS[5]) end
call('hset', KEYS[1], me, count)
)lua";

// KEYS  3 the queue, 4 its times;  ARGV  6 what the waiters' channels begin with, 7 '1' to leave the queue.
constexpr std::string_view kReleaseFair = R"lua(
local was = call('hmget', KEYS[1], ARGV[1], 'mode')
local count = was[2] and 0 or count_of(was[1])
local left_to_application = count > 0 and leave_to_application(KEYS[1], ARGV[1])
if left_to_application then count = 0 end
local keep = math.min(count, tonumber(ARGV[2]))
local held = count > 0
if ARGV[7] == '1' then
  call('lrem', KEYS[3], 0, ARGV[1])
  call('zrem', KEYS[4], ARGV[1])
end
if keep > 0 then
  call('hset', KEYS[1], ARGV[1], keep)
elseif held then
  call('del', KEYS[1])
end
if keep == 0 and (held or left_to_application or call('exists', KEYS[1]) == 0) then
  wake_head(KEYS[3], KEYS[4], ARGV[5], ARGV[6])
end
keep_queue(KEYS[3], KEYS[4])
)lua";

}  // namespace

const RedisScript& FairTryScript() {
  static const RedisScript& script =
      *new RedisScript(TryScript(true, Concat(kNow, kExclusiveKind, kBaseOfTry, kKeepQueue, kTryFair), kFairMark));
  return script;
}

const RedisScript& FairReleaseScript() {
  static const RedisScript& script =
      *new RedisScript(ReleaseScript(Concat(kNow, kWakeHead, kKeepQueue, kReleaseFair), kFairMark));
  return script;
}

}  // namespace stockade::locks_internal

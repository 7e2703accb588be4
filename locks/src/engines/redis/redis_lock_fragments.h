#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_FRAGMENTS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_FRAGMENTS_H_

#include <string>
#include <string_view>

#include "stockade/base/strings.h"
#include "stockade/redis/redis_script.h"

namespace stockade::locks_internal {

// What the scripts of all kinds begin and end with. Numbers go to Redis as they are, by "%.17g", which writes all that
// are below 2^53 in digits. All scripts have
//   KEYS  1 the lock, 2 the holder's record;  ARGV  1 the holder.

// The shape of a lock. A field of its hash is `mode`, which only read-write locks have, or a holder: "<UUID>:<number>",
// and for a write hold ":write" behind it; Redisson's transactions put their id there. The value of a holder is its
// count, of `mode` "read" or "write". `is_lock()`: whether all fields of KEYS[1] have that shape and one is a holder;
// an application's own hash does not. It stops at the first field that has not. O(fields).
//
// `leave_to_application(lock, mine)`: an application may write a field of its own into the hash of a lock that is held.
// If it has, this removes `mine`, the caller's field, which is there, and nothing else. Then the time to live goes,
// too, which a lock has set, unless another holder is among the first 10,000 fields. Returns whether it has. PERSIST
// comes first: if the user may not run it, nothing has changed. O(fields).
//
// `may_be_held()`: the first field that ends as a holder does and has a count, whatever it begins with. Tries that only
// wait ask this, because clients in other languages may name themselves in other ways. It looks at the first fields
// only; nil if none of them is one.
//
// `no_record()`: the error of a step whose holder's record is something else.
//
// `count_of(value)` is 0 for anything but a count. A script looks at the time-out keys of the newest 10,000 holds of a
// count only, from `oldest_of(count)` on, so that no value in a hash keeps the server busy for more than some
// milliseconds.
inline constexpr std::string_view kShape = R"lua(
local function is_holder(field)
  local rest = string.match(field, '^%x+%-%x+%-%x+%-%x+%-%x+:%-?%d+(.*)$')
  return rest == '' or rest ~= nil and string.sub(rest, 1, 1) == ':'
end
local function count_of(value)
  local count = value and string.match(value, '^%d+$') and tonumber(value)
  return count and count >= 1 and count < 2^31 and count or 0
end
local function survey(lock, mine)
  local cursor, seen, foreign, others = '0', 0, false, false
  repeat
    local step = call('hscan', lock, cursor, 'count', 100)
    cursor = step[1]
    for i = 1, #step[2], 2 do
      local field, value = step[2][i], step[2][i + 1]
      if field == 'mode' then
        foreign = foreign or value ~= 'read' and value ~= 'write'
      elseif is_holder(field) and count_of(value) > 0 then
        others = others or field ~= mine
      else
        foreign = true
      end
    end
    seen = seen + #step[2] / 2
  until cursor == '0' or foreign and (mine == nil or others or seen >= 10000)
  return foreign, others
end
local function is_lock()
  if call('type', KEYS[1])['ok'] ~= 'hash' then return false end
  local foreign, holders = survey(KEYS[1], nil)
  return not foreign and holders
end
local function leave_to_application(lock, mine)
  local foreign, others = survey(lock, mine)
  if not foreign then return false end
  if not others then call('persist', lock) end
  call('hdel', lock, mine)
  return true
end
local function may_be_held()
  local first = call('hscan', KEYS[1], '0', 'count', 100)[2]
  for i = 1, #first, 2 do
    if string.match(first[i], ':%-?%d+$') or string.match(first[i], ':%-?%d+:') then
      if count_of(first[i + 1]) > 0 then return first[i] end
    end
  end
  return nil
end
local function no_record()
  return redis.error_reply('WRONGTYPE ' .. KEYS[2] .. ' holds data that is not the record of a lock\'s holder')
end
local function oldest_of(count)
  return math.max(1, count - 9999)
end
)lua";

// With kShape before it, for read-write locks. `readers(lock, base)`: what the reader with the most time left has left,
// in ms, and -2 if nobody reads; and a list of the readers whose time-out keys are gone. nil if it is not a lock.
// `base` is what all time-out keys of the lock begin with. A reader with more holds than a script looks at counts as
// there for as long as the lock is. `drop(gone)` removes readers. O(holds for reading).
inline constexpr std::string_view kReaders = R"lua(
local function readers(lock, base)
  local longest, gone = -2, {}
  local all = call('hgetall', lock)
  for i = 1, #all, 2 do
    local holder = all[i]
    if holder ~= 'mode' then
      if not is_holder(holder) then return nil end
      if string.sub(holder, -6) ~= ':write' then
        local left, count = -2, count_of(all[i + 1])
        if oldest_of(count) > 1 then left = call('pttl', lock) end
        for n = oldest_of(count), count do
          left = math.max(left, call('pttl', base .. holder .. ':rwlock_timeout:' .. n))
        end
        if left == -2 then gone[#gone + 1] = holder end
        longest = math.max(longest, left)
      end
    end
  end
  return longest, gone
end
local function drop(gone)
  for _, holder in ipairs(gone) do call('hdel', KEYS[1], holder) end
end
)lua";

// For tries: KEYS 3 the token's key;  ARGV  2 the lease in ms, 3 the sequence, 4 the token's retention in ms, or '', 5
// the lease and 20 s.
// Sets `left`, the remaining life of the lock, and `recorded`, the count that this try led to if it has run before. A
// holder that has this count already is not counted again. If the lock is free, the hold that the try acquired has
// ended, so a copy of the try that arrives now is refused.
// {5}: the newest token is so large that adding 1 is not exact in a double, which is Lua's number. {6}: an application
// has written into the lock's key, and the hold that the try re-enters has been removed.
inline constexpr std::string_view kReadRecordAndToken = R"lua(
local known = call('mget', KEYS[2], KEYS[3])
local record, newest_token = known[1], known[2]
if newest_token and (tonumber(newest_token) or 0) >= 2^53 - 1 then return {5} end
)lua";
inline constexpr std::string_view kReadRecord = R"lua(
local record = call('get', KEYS[2])
)lua";
// Before and after the part of a try that writes. The user may lack the right to one of its commands, and what ran
// before it is not undone. Without a time to live, a lock that was free would stay for ever.
inline constexpr std::string_view kBeginWriting = R"lua(
local function write()
)lua";
inline constexpr std::string_view kEndWriting = R"lua(
end
local ran, answer = pcall(write)
if ran then return answer end
if left == -2 then redis.pcall('del', KEYS[1]) end
return type(answer) == 'table' and answer or redis.error_reply(answer)
)lua";
inline constexpr std::string_view kBeginTry = R"lua(
local lease = tonumber(ARGV[2])
local recorded
if record then
  local sequence, count, release = string.match(record, '^(%d+) (%d+) ?(%a?)')
  if not sequence then return no_record() end
  local behind = tonumber(sequence) - tonumber(ARGV[3])
  if behind > 0 or behind == 0 and release ~= '' then return {2} end
  if behind == 0 then recorded = tonumber(count) end
end
local left = call('pttl', KEYS[1])
if recorded and left == -2 then return {2} end
)lua";

// Once the hold is in the hash: `count` is with it, `left` what the lock had to live before. A re-entry takes nothing
// off.
inline constexpr std::string_view kGrant = R"lua(
local life = left + 20000
if left < lease then
  call('pexpire', KEYS[1], ARGV[2])
  life = ARGV[5]
end
call('set', KEYS[2], ARGV[3] .. ' ' .. count .. mark, 'px', life)
)lua";
// Never smaller than the clock, so that it grows over an emptied server, and where its key has expired; nor than the
// last argument, LockTry::least_token.
inline constexpr std::string_view kAnswerWithToken = R"lua(
local time = call('time')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local number, least = tonumber(token), math.max((tonumber(newest_token) or 0) + 1, tonumber(ARGV[#ARGV]))
if least > number then
  number = least
  token = number
end
if ARGV[4] == '' then
  call('set', KEYS[3], token)
else
  call('set', KEYS[3], token, 'px', ARGV[4])
end
return {1, count, number}
)lua";
inline constexpr std::string_view kAnswerWithoutToken = R"lua(
return {1, count, 0}
)lua";

// For releases: ARGV  2 the count to keep, 3 the sequence, 4 '1' if the record must outlive the hold, to refuse steps
// that are on their way, 5 the command to publish with. The record is deleted first and written again at the end. So a
// release passes even when Redis is out of memory, which refuses only the first write of a script, and no deletion. The
// mark stays as it is while the owner holds: a step that gives up a try of another kind, or that releases what was lost
// before, does not change what is held.
inline constexpr std::string_view kBeginRelease = R"lua(
local record = call('get', KEYS[2])
if record then
  local sequence, release = string.match(record, '^(%d+) %d+ ?(%a?)')
  if not sequence then return no_record() end
  local behind = tonumber(sequence) - tonumber(ARGV[3])
  if behind > 0 then return 2 end
  if behind == 0 and release ~= '' then return release == 'h' and 1 or release == 'n' and 0 or 3 end
  mark = string.match(record, '%*?$')
end
call('del', KEYS[2])
)lua";
// `held`: whether there was a hold; `keep`: what is left of it.
inline constexpr std::string_view kEndRelease = R"lua(
if keep > 0 then
  local left = call('pttl', KEYS[1])
  call('set', KEYS[2], ARGV[3] .. ' ' .. keep .. ' h' .. mark, 'px', left + 20000)
elseif held and ARGV[4] == '0' then
  call('del', KEYS[2])
else
  local kept = not held and record and mark or ''
  local life = not held and record and math.max(call('pttl', KEYS[1]), 0) or 0
  call('set', KEYS[2], ARGV[3] .. (held and ' 0 h' or record and ' 0 n' or ' 0 f') .. kept, 'px', life + 20000)
end
if held then return 1 end
return record and 0 or 3
)lua";

// Behind the record of a holder of a fair lock, whose hash looks like a reentrant one's.
inline constexpr std::string_view kFairMark = "*";

inline constexpr std::string_view kNow = R"lua(
local function now_ms()
  local time = call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
)lua";

// With kNow before it. What a lock without `mode` is held as, a LockKind. `base` is what all time-out keys and records
// of the lock begin with. `recorded_kind(holders, base)`: by the holders' records; nil for a holder of Redisson's,
// which has none. `kind_by_waiters(base)`: such a lock is fair if somebody in its queue is alive.
inline constexpr std::string_view kExclusiveKind = R"lua(
local function recorded_kind(holders, base)
  for _, holder in ipairs(holders) do
    local record = call('get', base .. 'stockade:' .. holder)
    if record then return string.sub(record, -1) == '*' and 1 or 0 end
  end
  return nil
end
local function kind_by_waiters(base)
  local times = 'redisson_lock_timeout:' .. string.sub(base, 1, -2)
  return #call('zrangebyscore', times, '(' .. string.format('%.0f', now_ms()), '+inf', 'limit', 0, 1)
end
)lua";

// With kExclusiveKind before it. What the lock is held as. O(fields).
inline constexpr std::string_view kKind = R"lua(
local function kind_of(lock, base)
  local mode = call('hget', lock, 'mode')
  if mode then return mode == 'read' and 2 or 3 end
  return recorded_kind(call('hkeys', lock), base) or kind_by_waiters(base)
end
)lua";

// With kExclusiveKind before it, for tries: what their `base` is.
inline constexpr std::string_view kBaseOfTry = R"lua(
local base = string.sub(KEYS[2], 1, -#ARGV[1] - #'stockade:' - 1)
)lua";

// With kNow before it. Redisson's queues have no time to live, and stay for ever if all who wait die. So each script
// that leaves a queue behind lets it live for as long as its last waiter has left, and 5 minutes, Redisson's
// fairLockWaitTimeout, for one of Redisson's that joins later.
inline constexpr std::string_view kKeepQueue = R"lua(
local function keep_queue(queue, times)
  local last = call('lindex', queue, -1)
  if not last then return end
  local left = math.floor(tonumber(call('zscore', times, last) or 0) - now_ms())
  local life = math.min(math.max(left, 0), 1e12) + 300000
  call('pexpire', queue, life)
  call('pexpire', times, life)
end
)lua";

// With kNow before it. Notifies the first waiter that is alive; without a queue, a waiter that wants the lock as
// reentrant, which listens on the channel that all waiters' channels begin with.
inline constexpr std::string_view kWakeHead = R"lua(
local function wake_head(queue, times, publish, channels)
  while true do
    local head = call('lindex', queue, 0)
    if not head then
      call(publish, string.sub(channels, 1, -2), '0')
      return
    end
    if tonumber(call('zscore', times, head) or 0) > now_ms() then
      call(publish, channels .. head, '0')
      return
    end
    call('lpop', queue)
    call('zrem', times, head)
  end
end
)lua";

template <typename... Pieces>
RedisScript LockScript(const Pieces&... pieces) {
  return RedisScript(Concat("local call = redis.call\n", pieces...));
}

// A try whose own part is `body`, with kShape before it.
inline RedisScript TryScript(bool token, std::string_view body, std::string_view mark = "") {
  return LockScript(kShape, "local mark = '", mark, "'\n", token ? kReadRecordAndToken : kReadRecord, kBeginTry,
                    kBeginWriting, body, kGrant, token ? kAnswerWithToken : kAnswerWithoutToken, kEndWriting);
}

// A release whose own part is `body`, with kShape before it.
inline RedisScript ReleaseScript(std::string_view body, std::string_view mark = "") {
  return LockScript(kShape, "local mark = '", mark, "'\n", kBeginRelease, body, kEndRelease);
}

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_FRAGMENTS_H_

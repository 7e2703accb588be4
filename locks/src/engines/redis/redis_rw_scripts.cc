#include "redis_rw_scripts.h"

#include "redis_lock_fragments.h"

namespace stockade::locks_internal {
namespace {

// ARGV  6 what the time-out keys begin with. Before the lock itself has lapsed, a reader's own hold may have.
constexpr std::string_view kTryRead = R"lua(
local timeouts = ARGV[6] .. ARGV[1] .. ':rwlock_timeout:'
local count = 1
if left ~= -2 then
  local was = call('hmget', KEYS[1], 'mode', ARGV[1], ARGV[1] .. ':write')
  if not was[1] then return {3} end
  if was[1] ~= 'read' and not was[3] then return was[1] == 'write' and may_be_held() and {0, left} or {4} end
  if not was[2] and not is_lock() then return {4} end
  if was[2] and leave_to_application(KEYS[1], ARGV[1]) then return {6} end
  local alive = oldest_of(count_of(was[2])) > 1
  for n = oldest_of(count_of(was[2])), count_of(was[2]) do
    alive = alive or call('exists', timeouts .. n) == 1
  end
  if recorded and not alive then return {2} end
  if alive then count = tonumber(was[2]) end
  if alive and count ~= recorded then count = count + 1 end
  call('hset', KEYS[1], ARGV[1], count)
else
  call('hset', KEYS[1], 'mode', 'read', ARGV[1], 1)
end
call('set', timeouts .. count, '1', 'px', ARGV[2])
)lua";

// ARGV  6 what the time-out keys begin with.
constexpr std::string_view kTryWrite = R"lua(
local count = 1
if left ~= -2 then
  local was = call('hmget', KEYS[1], 'mode', ARGV[1])
  if not was[1] then return {3} end
  if was[1] == 'read' then
    if not is_lock() then return {4} end
    local longest, gone = readers(KEYS[1], ARGV[6])
    drop(gone)
    if longest ~= -2 then return {0, longest} end
    call('del', KEYS[1])
    left = -2
  elseif not was[2] then
    return was[1] == 'write' and may_be_held() and {0, left} or {4}
  else
    count = count_of(was[2])
    if count == 0 then return {4} end
    if leave_to_application(KEYS[1], ARGV[1]) then return {6} end
    if count ~= recorded then count = count + 1 end
  end
end
call('hset', KEYS[1], 'mode', 'write', ARGV[1], count)
)lua";

// KEYS  3 the channel;  ARGV  6 what the time-out keys begin with. What is kept lives as long as the longest hold had.
// PTTL is 0 in the last millisecond, which PEXPIRE would take for the end.
constexpr std::string_view kReleaseRead = R"lua(
local timeouts = ARGV[6] .. ARGV[1] .. ':rwlock_timeout:'
local was = call('hmget', KEYS[1], 'mode', ARGV[1])
local count = was[1] and count_of(was[2]) or 0
local left_to_application = count > 0 and leave_to_application(KEYS[1], ARGV[1])
local keep = left_to_application and 0 or math.min(count, tonumber(ARGV[2]))
local longest = oldest_of(count) > 1 and call('pttl', KEYS[1]) or -2
for n = oldest_of(count), count do
  longest = math.max(longest, call('pttl', timeouts .. n))
  if n > keep then call('del', timeouts .. n) end
end
local held = longest ~= -2 and not left_to_application
if not held then keep = 0 end
if left_to_application then
  call(ARGV[5], KEYS[3], '0')
elseif keep > 0 then
  call('hset', KEYS[1], ARGV[1], keep)
  call('set', timeouts .. keep, '1', 'px', math.max(longest, 1))
elseif count > 0 then
  call('hdel', KEYS[1], ARGV[1])
  if was[1] == 'read' then
    local others, gone = readers(KEYS[1], ARGV[6])
    if others and others ~= -2 then
      drop(gone)
      call('pexpire', KEYS[1], math.max(others, 1))
    elseif others then
      call('del', KEYS[1])
      call(ARGV[5], KEYS[3], '0')
    end
  end
end
)lua";

// As kReleaseRead. If the writer goes on reading, other readers may enter and are notified; Redisson lets them wait.
constexpr std::string_view kReleaseWrite = R"lua(
local was = call('hmget', KEYS[1], 'mode', ARGV[1])
local count = was[1] == 'write' and count_of(was[2]) or 0
local left_to_application = count > 0 and leave_to_application(KEYS[1], ARGV[1])
if left_to_application then count = 0 end
local keep = math.min(count, tonumber(ARGV[2]))
local held = count > 0
if left_to_application then
  call(ARGV[5], KEYS[3], '1')
elseif keep > 0 then
  call('hset', KEYS[1], ARGV[1], keep)
elseif held then
  call('hdel', KEYS[1], ARGV[1])
  local longest, gone = readers(KEYS[1], ARGV[6])
  if longest and longest ~= -2 then
    drop(gone)
    call('hset', KEYS[1], 'mode', 'read')
    call('pexpire', KEYS[1], math.max(longest, 1))
  elseif longest then
    call('del', KEYS[1])
  end
  call(ARGV[5], KEYS[3], '1')
end
)lua";

}  // namespace

const RedisScript& ReadTryScript() {
  static const RedisScript& script = *new RedisScript(TryScript(true, kTryRead));
  return script;
}

const RedisScript& WriteTryScript() {
  static const RedisScript& script = *new RedisScript(TryScript(true, Concat(kReaders, kTryWrite)));
  return script;
}

const RedisScript& ReadReleaseScript() {
  static const RedisScript& script = *new RedisScript(ReleaseScript(Concat(kReaders, kReleaseRead)));
  return script;
}

const RedisScript& WriteReleaseScript() {
  static const RedisScript& script = *new RedisScript(ReleaseScript(Concat(kReaders, kReleaseWrite)));
  return script;
}

}  // namespace stockade::locks_internal

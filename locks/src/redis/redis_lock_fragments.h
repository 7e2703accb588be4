#ifndef STOCKADE_LOCKS_REDIS_LOCK_FRAGMENTS_H_
#define STOCKADE_LOCKS_REDIS_LOCK_FRAGMENTS_H_

#include <string>
#include <string_view>

#include "stockade/base/strings.h"
#include "stockade/redis/redis_script.h"

namespace stockade::internal {

// What the scripts of all kinds begin and end with. Numbers go to Redis as they are, by "%.17g", which writes all that
// are below 2^53 in digits. All scripts have
//   KEYS  1 the lock, 2 the holder's record;  ARGV  1 the holder.

// For tries: KEYS 3 the token's key;  ARGV  2 the lease in ms, 3 the sequence, 4 the token's retention in ms, or '',
// 5 the lease and 20 s.
// Sets `left`, what the lock has to live, and `recorded`, the count that this try led to if it has run before: who is
// found to have that is not counted again. What it got has ended where the lock is free: a copy of it that comes now is
// nobody's.
inline constexpr std::string_view kReadRecordAndToken = R"lua(
local known = call('mget', KEYS[2], KEYS[3])
local record, newest_token = known[1], known[2]
)lua";
inline constexpr std::string_view kReadRecord = R"lua(
local record = call('get', KEYS[2])
)lua";
inline constexpr std::string_view kBeginTry = R"lua(
local lease = tonumber(ARGV[2])
local recorded
if record then
  local sequence, count, release = string.match(record, '^(%d+) (%d+) ?(%a?)$')
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
call('set', KEYS[2], ARGV[3] .. ' ' .. count, 'px', life)
)lua";
// Never smaller than the clock, so that it grows over an emptied server, and where its key has expired.
inline constexpr std::string_view kAnswerWithToken = R"lua(
local time = call('time')
local token = time[1] .. string.sub('00000' .. time[2], -6)
local number, newest = tonumber(token), tonumber(newest_token) or 0
if newest >= number then
  number = newest + 1
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

// For releases: ARGV  2 the count to keep, 3 the sequence, 4 '1' where the record must outlive the hold, to refuse
// steps that are on their way, 5 the command to publish with.
inline constexpr std::string_view kBeginRelease = R"lua(
local record = call('get', KEYS[2])
if record then
  local sequence, release = string.match(record, '^(%d+) %d+ ?(%a?)$')
  local behind = tonumber(sequence) - tonumber(ARGV[3])
  if behind > 0 then return 2 end
  if behind == 0 and release ~= '' then return release == 'h' and 1 or release == 'n' and 0 or 3 end
end
)lua";
// `held`: whether there was a hold; `keep`: what is left of it.
inline constexpr std::string_view kEndRelease = R"lua(
if keep > 0 then
  local left = call('pttl', KEYS[1])
  call('set', KEYS[2], ARGV[3] .. ' ' .. keep .. ' h', 'px', left + 20000)
elseif held and ARGV[4] == '0' then
  call('del', KEYS[2])
else
  call('set', KEYS[2], ARGV[3] .. (held and ' 0 h' or record and ' 0 n' or ' 0 f'), 'px', 20000)
end
if held then return 1 end
return record and 0 or 3
)lua";

template <typename... Pieces>
RedisScript LockScript(const Pieces&... pieces) {
  return RedisScript(Concat("local call = redis.call\n", pieces...));
}

// A try whose own part is `body`.
inline RedisScript TryScript(bool token, std::string_view body) {
  return LockScript(token ? kReadRecordAndToken : kReadRecord, kBeginTry, body, kGrant,
                    token ? kAnswerWithToken : kAnswerWithoutToken);
}

// A release whose own part is `body`.
inline RedisScript ReleaseScript(std::string_view body) { return LockScript(kBeginRelease, body, kEndRelease); }

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_REDIS_LOCK_FRAGMENTS_H_

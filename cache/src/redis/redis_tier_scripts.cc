#include "redis_tier_scripts.h"

#include <algorithm>
#include <string>

#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

// Reads the state, KEYS[1]. A state of another type counts as lost. Positions have 40 bits (TierReign::kPositionBits);
// Lua's numbers are exact below 2^53.
constexpr std::string_view kReadState = R"lua(
local call = redis.call
local wrong_type = false
local function read_state(...)
  local fields = redis.pcall('hmget', KEYS[1], ...)
  if not fields.err then return fields end
  if not string.find(fields.err, 'WRONGTYPE', 1, true) then return call('hmget', KEYS[1], ...) end
  wrong_type = true
  return {}
end
local function position(text)
  local number = tonumber(text or '')
  return number and number >= 1 and number < 2^40 and number % 1 == 0 and number or nil
end
)lua";

// For scripts that write the state. `life` is how long the state and the journal outlive their last use, in
// milliseconds. An expired state is harmless: the next script begins a new reign.
constexpr std::string_view kState = R"lua(
-- Limits foreign values, because Redis refuses times to live that are too long.
local function span(text)
  local ms = tonumber(text or '') or 0
  return ms > 0 and math.floor(math.min(ms, 366 * 86400000)) or 0
end
local function has(list, word) return string.find(' ' .. list .. ' ', ' ' .. word .. ' ', 1, true) ~= nil end
local function touch(max_ttl)
  local life = math.max(604800000, 3 * span(max_ttl))
  for n = 1, 2 do
    if call('pttl', KEYS[n]) < life / 2 then call('pexpire', KEYS[n], life) end
  end
end
local function last_sum(sums)
  local at, sum = string.match(sums, '^ (%d+)=(%x+) ')
  return tonumber(at), sum or ''
end
)lua";

// Reads leases. A value that is not a lease counts as absent. In `number`, whose bytes are `number_bytes`, a lease has
// its position, and the mark of an update the fencing token, which may exceed Lua's exact numbers.
constexpr std::string_view kLeases = R"lua(
local function read_lease(key)
  local text = redis.pcall('get', key)
  if type(text) ~= 'string' or #text ~= 49 or string.byte(text) ~= 76 then return nil end
  local _, incarnation, token, number_bytes, granted = struct.unpack('>Bc16c16c8I8', text)
  return {incarnation = incarnation, token = token, number_bytes = number_bytes,
          position = struct.unpack('>I8', number_bytes), granted = granted}
end
local function is_mark(token) return string.sub(token, 9) == 'upd mark' end
local function now_ms()
  local time = call('time')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local function set_lease(key, incarnation, token, number_bytes, ms)
  call('set', key, 'L' .. incarnation .. token .. number_bytes .. struct.pack('>I8', now_ms()), 'px', ms)
end
)lua";

// The processes that wait for a lease: the ids of at most 128 inboxes. When the lease ends, each inbox gets a message
// that names it, and the process asks again. If anything fails here, the process polls.
constexpr std::string_view kWaiters = R"lua(
local function inboxes(key)
  local ids = redis.pcall('getrange', key, 0, 128 * 16 - 1)
  return type(ids) == 'string' and ids or ''
end
local function add_waiter(key, id, ms)
  local ids = inboxes(key)
  if not string.find(ids, id, 1, true) then ids = ids .. id end
  if #ids > 128 * 16 or redis.pcall('set', key, ids, 'px', ms).err then return 0 end
  return 1
end
local function waits(key, id) return id ~= '' and string.find(inboxes(key), id, 1, true) end
-- Whether the lease's token ends with the id of an inbox, which has the digits 5c1b at its end, and no process
-- subscribes to that inbox. Tokens of older versions have random ends, and others end with zeros.
local function is_orphaned(lease, token, probe)
  local owner = string.sub(token, 9, 16)
  if probe == '' or string.sub(owner, 7) ~= '\92\27' then return false end
  local id = string.gsub(owner, '.', function(byte) return string.format('%02x', string.byte(byte)) end)
  return redis.pcall(probe, string.match(lease, '^sc1:{[^}]*}:') .. 'i:' .. id, '') == 0
end
local function wake(key, lease, publish)
  local ids, inbox = inboxes(key), string.match(lease, '^sc1:{[^}]*}:') .. 'i:'
  if ids == '' then return end
  call('del', key)
  if publish == '' then return end
  for at = 1, #ids, 16 do redis.pcall(publish, inbox .. string.sub(ids, at, at + 15), lease) end
end
)lua";

// Reads records. KEYS 1 is the state.
//
// A record is valid if it is of the present incarnation, and its position is not below the positions of the cache's
// last invalidation of all keys, of the codec's registration, and of the last invalidation of each of its tags. A value
// that is not a record counts as absent. So does a record whose time to live exceeds the one that it was stored with,
// because the server's clock was set back.
constexpr std::string_view kRecords = R"lua(
local function parse(text, rest)
  if #text < 65 or string.byte(text) ~= 1 then return nil end
  local _, _, incarnation, position, version, grace, ttl, _, length, count = struct.unpack('>BBc16I8c16I8I8I4I2B', text)
  if length > #text and rest then text = rest(length) end
  if length < 65 or length > #text then return nil end
  local tags, at = {}, 66
  for n = 1, count do
    local size = at <= length and string.byte(text, at)
    if not size or at + size > length then return nil end
    tags[n] = string.sub(text, at + 1, at + size)
    at = at + 1 + size
  end
  return {incarnation = incarnation, position = position, version = version, grace = grace, ttl = ttl, tags = tags}
end
local function read_record(key)
  local text = redis.pcall('getrange', key, 0, 4095)
  if type(text) ~= 'string' then return nil, true end
  local record = parse(text, function(length) return call('getrange', key, 0, length - 1) end)
  if record and #text < 4096 then record.whole = text end
  return record, #text > 0
end
local function current(record, cache, all, registered, newest)
  local position, tags = record.position, record.tags
  if record.incarnation ~= ARGV[1] or position > newest or position < (tonumber(registered) or 2^53)
      or all and position < (tonumber(all) or 2^53) then
    return false
  end
  if #tags == 0 then return true end
  local fields = {}
  for n, tag in ipairs(tags) do fields[n] = 't:' .. cache .. ':' .. tag end
  for _, at in ipairs(call('hmget', KEYS[1], unpack(fields))) do
    if at and (tonumber(at) or 2^53) > position then return false end
  end
  return true
end
)lua";

// KEYS  1 state, 2 journal.
// ARGV  1 run id of this server or '', 2 incarnation of the new reign, 3 incarnations that are over, 4 max_ttl
//       and 5 max_staleness in milliseconds.
// Answers {incarnation, sequence, incarnations before it, 1 if a key of another type was deleted}.
//
// The script deletes the state first: after a write that frees memory, Redis does not refuse the other writes of a
// script when it is out of memory. The field `h` never exists. Scripts delete it if they have nothing else to delete.
constexpr std::string_view kAdopt = R"lua(
local state = read_state('i', 'q', 'w', 'o', 'T', 'B')
local incarnation, sequence, older = state[1], position(state[2]), state[4] or ''
local max_ttl = math.max(span(state[5]), tonumber(ARGV[4]))
local trust = math.max(span(state[6]), tonumber(ARGV[5]))
if not incarnation or #incarnation ~= 16 or not sequence or has(ARGV[3], incarnation)
    or ARGV[1] ~= '' and state[3] ~= ARGV[1] then
  if incarnation and #incarnation == 16 then older = string.sub(incarnation .. ' ' .. older, 1, 17 * 8 - 1) end
  incarnation, sequence = ARGV[2], 1
  call('del', KEYS[1], KEYS[2])
  call('hset', KEYS[1], 'i', incarnation, 'q', 1, 'w', ARGV[1], 'o', older, 'T', max_ttl, 'B', trust)
elseif tonumber(state[5] or '') ~= max_ttl or tonumber(state[6] or '') ~= trust then
  call('hdel', KEYS[1], 'h')
  call('hset', KEYS[1], 'T', max_ttl, 'B', trust)
end
touch(max_ttl)
return {incarnation, sequence, older, wrong_type and 1 or 0}
)lua";

// KEYS  1 state.  ARGV  1 incarnation, 2 cache, 3 codec.  Answers {'K'}.
//
// Records of the codec from before its registration are not valid. So a codec can be dropped and registered again,
// although invalidations in between did not delete its records. The script drops the oldest codec if there are 8.
constexpr std::string_view kOpen = R"lua(
local list, field = 'c:' .. ARGV[2], 'c:' .. ARGV[2] .. ':' .. ARGV[3]
local state = read_state('i', 'q', field, list, 'k')
if state[1] ~= ARGV[1] or not position(state[2]) then return {'A'} end
if state[3] and has(state[4] or '', ARGV[3]) then return {'K'} end
call('hdel', KEYS[1], 'h')
local codecs = {}
for codec in string.gmatch(state[4] or '', '%S+') do
  if codec ~= ARGV[3] then codecs[#codecs + 1] = codec end
end
while #codecs >= 8 do call('hdel', KEYS[1], list .. ':' .. table.remove(codecs, 1)) end
codecs[#codecs + 1] = ARGV[3]
call('hset', KEYS[1], field, state[2], list, table.concat(codecs, ' '))
if not has(state[5] or '', ARGV[2]) then
  call('hset', KEYS[1], 'k', state[5] and state[5] .. ' ' .. ARGV[2] or ARGV[2])
end
return {'K'}
)lua";

// KEYS  1 state, 2 journal.
// ARGV  1 incarnation, 2 the last applied position, 3 the most bytes of entries, 4 the position of the caller's last
//       message, 5 the sum at that position, or ''.
// Answers {code, sequence, entries, sum at the sequence, or ''}. The code is 'K': the entries follow the applied
// position; 'M': the messages were right, and the entries follow the last message; or 'G': the journal no longer has
// the entry after the applied position, or the caller wants no bytes. If entries are missing, the answer has at least
// one, and the last one may exceed the limit. A large entry, of an older version, is replaced by an invalidation of the
// memory of its cache.
//
// Reading entries takes most of the time of a large fleet's heartbeats. The sums make it unnecessary. A server that
// accepts no writes refuses hdel. It changes nothing here, so Redis does not replicate it.
constexpr std::string_view kSync = R"lua(
local function small(fields)
  local size, cache = 0, ''
  for n, text in ipairs(fields) do
    size = size + #text
    if n % 2 == 1 and text == 'c' then cache = fields[n + 1] end
  end
  if size <= 2000 then return fields, size end
  return {'c', #cache <= 64 and cache or '', 'k', 'm'}, 0
end
local state = read_state('i', 'q', 'T', 'm')
local sequence, sums = position(state[2]), state[4] or ''
if state[1] ~= ARGV[1] or not sequence then return {'A'} end
call('hdel', KEYS[1], 'h')
touch(state[3])
local at, sum = last_sum(sums)
if at ~= sequence then sum = '' end
local code, applied = 'K', tonumber(ARGV[2])
if sequence == applied then return {'K', sequence, {}, sum} end
if sequence < applied then return {'G', sequence, {}, sum} end
if string.find(sums, ' ' .. ARGV[4] .. '=' .. ARGV[5] .. ' ', 1, true) then
  code, applied = 'M', tonumber(ARGV[4])
  if sequence == applied then return {'M', sequence, {}, sum} end
end
local entries, bytes, limit, from = {}, 0, tonumber(ARGV[3]), string.format('%.0f-0', applied + 1)
if limit <= 0 then return {'G', sequence, {}, sum} end
repeat
  local read = redis.pcall('xrange', KEYS[2], from, '+', 'count', 64)
  if read.err then
    call('del', KEYS[2])
    return {'G', sequence, {}, sum}
  end
  for _, entry in ipairs(read) do
    if bytes >= limit then break end
    local fields, size = small(entry[2])
    entries[#entries + 1] = {entry[1], fields}
    bytes = bytes + size + 1000  -- That a client needs for an entry.
  end
  if #read > 0 then from = '(' .. read[#read][1] end
until #read < 64 or bytes >= limit
return {code, sequence, entries, sum}
)lua";

// KEYS  1 state, 2 record, 3 lease, 4 waiters.
// ARGV  1 incarnation, 2 cache, 3 codec, 4 token, 5 lease in milliseconds, 6 the known version or '',
//       7 the id of the caller's inbox, or '' if it is not to be woken, 8 command that publishes and whose reply counts
//       all subscribers, or ''.
// Answers {'R'}: the codec is not registered;
//   {'H', sequence, time left, record};
//   {'G', position of the lease, time left, expired record or nil};
//   {'B', sequence, time left, expired record or nil, life of the lease, age of the load, 1 if its end is published}.
constexpr std::string_view kAsk = R"lua(
local state = read_state('i', 'q', 'a:' .. ARGV[2], 'c:' .. ARGV[2] .. ':' .. ARGV[3])
local sequence = position(state[2])
if state[1] ~= ARGV[1] or not sequence then return {'A'} end
if not state[4] then return {'R'} end
local record, there = read_record(KEYS[2])
local left
if record and current(record, ARGV[2], state[3], state[4], sequence) then
  local life = call('pttl', KEYS[2])
  if life >= 0 and life <= record.ttl + record.grace then left = life - record.grace end
end
if there and not left then call('del', KEYS[2]) end
if left and left > 0 and string.sub(record.version, 1, 8) ~= ARGV[6] then
  return {'H', sequence, left, record.whole or call('get', KEYS[2])}
end
)lua";

// The rest of ask, after kLeases, which a hit does not need.
//
// If a caller asks again and the process that loads has no subscription, that process was probably killed. The script
// then shortens the lease, to more than the time between two renewals, so that a process that has only lost its
// subscription keeps it. It does not shorten a lease that is longer than the caller's: a process with such options
// renews it too rarely.
constexpr std::string_view kAskForLease = R"lua(
local expired = left and left <= 0 and (record.whole or call('get', KEYS[2])) or false
local lease = read_lease(KEYS[3])
if lease and lease.incarnation == ARGV[1] then
  if lease.token == ARGV[4] then return {'G', lease.position, left or 0, expired} end
  local life, age = call('pttl', KEYS[3]), now_ms() - lease.granted
  if age < 0 then
    -- The server's clock was set back, and the lease would last for as much longer. It begins again.
    life, age = math.min(life, tonumber(ARGV[5])), 0
    set_lease(KEYS[3], ARGV[1], lease.token, lease.number_bytes, ARGV[5])
  end
  if life >= 0 then
    local short = math.floor(0.4 * tonumber(ARGV[5]))
    if life > short and life <= tonumber(ARGV[5]) and waits(KEYS[4], ARGV[7])
        and is_orphaned(KEYS[3], lease.token, ARGV[8]) and redis.pcall('pexpire', KEYS[3], short) == 1 then
      life = short
    end
    local woken = ARGV[7] ~= '' and add_waiter(KEYS[4], ARGV[7], life + tonumber(ARGV[5])) or 0
    return {'B', sequence, left or 0, expired, life, age, woken}
  end
end
set_lease(KEYS[3], ARGV[1], ARGV[4], struct.pack('>I8', sequence), ARGV[5])
return {'G', sequence, left or 0, expired}
)lua";

// KEYS  1 state, 2 record, 3 lease, 4 waiters.
// ARGV  1 incarnation, 2 cache, 3 codec, 4 token, 5 life in milliseconds, 6 record, 7 command that publishes, or ''.
// Answers {'K', position}, {'U', position}: the server has no memory for it, or {'X'}: refused.
//
// A repeat finds its own record and no lease. It refuses the record if it was invalidated since.
constexpr std::string_view kFill = R"lua(
local state = read_state('i', 'q', 'a:' .. ARGV[2], 'c:' .. ARGV[2] .. ':' .. ARGV[3])
local sequence = position(state[2])
if state[1] ~= ARGV[1] or not sequence then return {'A'} end
local record, lease = parse(ARGV[6]), read_lease(KEYS[3])
local mine = lease and lease.incarnation == ARGV[1] and lease.token == ARGV[4]
local held = mine and lease or read_record(KEYS[2])
if not mine and (not held or held.incarnation ~= ARGV[1] or held.version ~= ARGV[4]) then return {'X'} end
if not state[4] or not record or record.position ~= held.position
    or not current(record, ARGV[2], state[3], state[4], sequence) then
  if mine then
    call('del', KEYS[3])
    wake(KEYS[4], KEYS[3], ARGV[7])
  end
  return {'X'}
end
if not mine then return {'K', held.position} end
local stored = not redis.pcall('set', KEYS[2], ARGV[6], 'px', ARGV[5]).err
if not stored then call('del', KEYS[2]) end
call('del', KEYS[3])
wake(KEYS[4], KEYS[3], ARGV[7])
return stored and {'K', sequence} or {'U', held.position}
)lua";

// KEYS  1 record, 2 lease, 3 waiters.
// ARGV  1 token, 2 '1' to delete the record as well, 3 command that publishes, or ''.
// Answers 1 if the lease existed, or else 0.
constexpr std::string_view kEnd = R"lua(
local lease = read_lease(KEYS[2])
if not lease or lease.token ~= ARGV[1] then return 0 end
call('del', KEYS[2])
if ARGV[2] == '1' then call('del', KEYS[1]) end
wake(KEYS[3], KEYS[2], ARGV[3])
return 1
)lua";

// KEYS  1 state, and leases.  ARGV  1 incarnation, 2 milliseconds, and the token of each lease.
// Answers 1 for each lease that existed, 0 for each other.
constexpr std::string_view kExtend = R"lua(
local present, extended = read_state('i')[1] == ARGV[1], {}
for n = 2, #KEYS do
  local lease = present and read_lease(KEYS[n])
  local mine = lease and lease.incarnation == ARGV[1] and lease.token == ARGV[n + 1]
  extended[n - 1] = mine and call('pexpire', KEYS[n], ARGV[2]) or 0
end
return extended
)lua";

// KEYS  1 state, 2 journal; for a key: the record, the lease and the waiters of each registered codec, in the order of
//       the list.
// ARGV  1 incarnation, 2 operation, 3 length of the journal, 4 cache, 5 kind ('k', 't', 'a', or 'm': all that
//       processes have in memory), 6 key or tag, 7 the list of codecs of the keys, 8 '' or, for a repeat, a position
//       from before the operation, 9 token of the lease to grant, or '', 10 its milliseconds, 11 the number
//       of its key in KEYS, 12 command that publishes, or '', 13 token of the mark to set or to remove, or '', 14 its
//       fencing token in 8 bytes if it is to be set, or ''.
// Answers {'R', list of codecs} if other codecs are registered; {'W'} if there is a mark of a larger fencing token; or
// {'K', position, 1 if the lease is granted or the mark was there for each codec, 1 if tags were dropped, max_staleness
// in milliseconds}.
//
// Marks of other calls stay, and then no lease is granted. A mark that is to be set replaces them.
//
// The script deletes first, so that the values are gone even if the server is out of memory; it does not refuse the
// writes that follow. No record has a tag of more than 255 bytes, so the state has none. Only foreign changes of the
// state can remove all codecs. Then all records of the cache become void.
constexpr std::string_view kInvalidate = R"lua(
-- Of two numbers in 8 bytes.
local function is_above(a, b)
  local a_high, a_low = struct.unpack('>I4I4', a)
  local b_high, b_low = struct.unpack('>I4I4', b)
  return a_high > b_high or a_high == b_high and a_low > b_low
end
local state = read_state('i', 'q', 'T', 'k', 'c:' .. ARGV[4], 'm', 'b', 'B')
local sequence, bound = position(state[2]), span(state[8])
if state[1] ~= ARGV[1] or not sequence then return {'A'} end
if ARGV[5] == 'k' and (state[5] or '') ~= ARGV[7] then return {'R', state[5] or ''} end
if ARGV[8] ~= '' then
  local entries = redis.pcall('xrevrange', KEYS[2], '+', string.format('%.0f-0', tonumber(ARGV[8]) + 1), 'count', 1000)
  for _, entry in ipairs(entries) do
    if entry[2][2] == ARGV[2] then
      local lease = ARGV[9] ~= '' and read_lease(KEYS[tonumber(ARGV[11])])
      return {'K', tonumber(string.match(entry[1], '^%d+')), lease and lease.token == ARGV[9] and 1 or 0, 0, bound}
    end
  end
end
local marks, stood = {}, #KEYS > 2
for n = 4, #KEYS, 3 do
  local lease = read_lease(KEYS[n])
  local mark = lease and lease.incarnation == ARGV[1] and is_mark(lease.token)
  local mine = mark and lease.token == ARGV[13]
  if mark and ARGV[14] ~= '' and is_above(lease.number_bytes, ARGV[14]) then return {'W'} end
  stood = stood and mine
  marks[n] = mark and not mine and ARGV[14] == ''
end
local gone = {}
for n = 4, #KEYS, 3 do
  gone[#gone + 1] = KEYS[n - 1]
  if not marks[n] then
    wake(KEYS[n + 1], KEYS[n], ARGV[12])
    gone[#gone + 1] = KEYS[n]
    gone[#gone + 1] = KEYS[n + 1]
  end
end
if #gone > 0 then call('del', unpack(gone)) else call('hdel', KEYS[1], 'h') end
sequence = sequence + 1
local message = table.concat({ARGV[1], string.format('%.0f', sequence), ARGV[5], ARGV[4], ARGV[6]}, ' ')
local sums = state[6] or ' '
local _, sum = last_sum(sums)
sum = string.sub(redis.sha1hex(sum .. ' ' .. message), 1, 20)
-- This may cut the oldest sum, which then matches none.
call('hset', KEYS[1], 'q', sequence, 'm', string.format(' %.0f=%s', sequence, sum) .. string.sub(sums, 1, 1000))
local tag_bytes = tonumber(state[7] or '') or 0
if ARGV[5] == 't' and #ARGV[6] <= 255 and call('hset', KEYS[1], 't:' .. ARGV[4] .. ':' .. ARGV[6], sequence) == 1 then
  tag_bytes = tag_bytes + #ARGV[6]
  call('hset', KEYS[1], 'b', tag_bytes)
end
if ARGV[5] == 'a' or ARGV[5] == 'k' and #KEYS == 2 then call('hset', KEYS[1], 'a:' .. ARGV[4], sequence) end
local function append()
  return redis.pcall('xadd', KEYS[2], 'maxlen', '~', ARGV[3], string.format('%.0f-0', sequence),
                     'o', ARGV[2], 'c', ARGV[4], 'k', ARGV[5], 't', ARGV[6])
end
local added = append()
if type(added) == 'table' and added.err then
  call('del', KEYS[2])
  append()
end
local granted, dropped = stood and ARGV[13] ~= '' and 1 or 0, 0
if ARGV[9] ~= '' and not marks[tonumber(ARGV[11])] then
  set_lease(KEYS[tonumber(ARGV[11])], ARGV[1], ARGV[9], struct.pack('>I8', sequence), ARGV[10])
  granted = 1
end
if ARGV[14] ~= '' then
  for n = 4, #KEYS, 3 do set_lease(KEYS[n], ARGV[1], ARGV[13], ARGV[14], ARGV[10]) end
end
if ARGV[5] == 't' and (tag_bytes > 10000000 or call('hlen', KEYS[1]) > 100000) then
  local fields, caches = {'i', 'q', 'm', 'w', 'o', 'T', 'B', 'k'}, {}
  for cache in string.gmatch(state[4] or '', '%S+') do
    caches[#caches + 1] = cache
    fields[#fields + 1] = 'c:' .. cache
    for codec in string.gmatch(call('hget', KEYS[1], 'c:' .. cache) or '', '%S+') do
      fields[#fields + 1] = 'c:' .. cache .. ':' .. codec
    end
  end
  local kept = {}
  for n, field in ipairs(fields) do kept[n] = call('hget', KEYS[1], field) end
  call('unlink', KEYS[1])
  for n, field in ipairs(fields) do
    if kept[n] then call('hset', KEYS[1], field, kept[n]) end
  end
  for _, cache in ipairs(caches) do call('hset', KEYS[1], 'a:' .. cache, sequence) end
  dropped = 1
end
touch(state[3])
if ARGV[12] ~= '' then
  -- The user may lack the right, or the server the command: then the other processes read the journal.
  redis.pcall(ARGV[12], string.sub(KEYS[1], 1, -2) .. 'c', message)
end
return {'K', sequence, granted, dropped, bound}
)lua";

constexpr std::string_view kCall = "local call = redis.call";

template <const std::string_view&... kParts>
const RedisScript& Script() {
  static const RedisScript& script = *new RedisScript(Concat(kParts...));
  return script;
}

}  // namespace

const RedisScript& TierAdoptScript() { return Script<kReadState, kState, kAdopt>(); }
const RedisScript& TierOpenScript() { return Script<kReadState, kState, kOpen>(); }
const RedisScript& TierSyncScript() { return Script<kReadState, kState, kSync>(); }
const RedisScript& TierAskScript() { return Script<kReadState, kRecords, kAsk, kLeases, kWaiters, kAskForLease>(); }
const RedisScript& TierFillScript() { return Script<kReadState, kLeases, kWaiters, kRecords, kFill>(); }
const RedisScript& TierEndScript() { return Script<kCall, kLeases, kWaiters, kEnd>(); }
const RedisScript& TierExtendScript() { return Script<kReadState, kLeases, kExtend>(); }
const RedisScript& TierInvalidateScript() { return Script<kReadState, kState, kLeases, kWaiters, kInvalidate>(); }

std::span<const RedisReply> PartsOf(const absl::StatusOr<RedisReply>& reply) {
  return reply.ok() ? reply->elements() : std::span<const RedisReply>();
}

std::string_view CodeOf(std::span<const RedisReply> parts) {
  return parts.empty() ? std::string_view() : parts[0].text();
}

uint64_t NumberAt(std::span<const RedisReply> parts, size_t at) {
  return at < parts.size() ? static_cast<uint64_t>(std::max<int64_t>(parts[at].integer(), 0)) : 0;
}

}  // namespace stockade::cache_internal

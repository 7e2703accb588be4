-- Invalidates in the caches that share a second level in Redis, from any language. docs/FLEET_CACHE_WIRE.md describes
-- the keys.
--
--   redis-cli --eval fleet_cache_invalidate.lua 'sc1:{shop}:s' 'sc1:{shop}:j' , products k air-force-one
--   redis-cli --eval fleet_cache_invalidate.lua 'sc1:{shop}:s' 'sc1:{shop}:j' , products t brand:nike
--   redis-cli --eval fleet_cache_invalidate.lua 'sc1:{shop}:s' 'sc1:{shop}:j' , products a
--
-- KEYS  1 state, 2 journal.
-- ARGV  1 cache, 2 kind: k (a key), t (a tag) or a (all), 3 the encoded key or the tag, 4 'empty' if the key or the tag
--       is meant to be empty.
-- Returns the position of the invalidation, or 0 if there is no state: then everything is void already, or the prefix
-- is mistyped. An error if the cache is unknown: then the name is mistyped, or nothing of the cache is in Redis.
--
-- Send it again if the reply was lost: an invalidation that runs twice costs one more load, and nothing else.
local call, cache, kind, text = redis.call, ARGV[1] or '', ARGV[2], ARGV[3] or ''
local base = string.match(KEYS[1] or '', '^(sc1:{[^{}]+}:)s$')
if not base or KEYS[2] ~= base .. 'j' then
  return redis.error_reply('ERR the keys are not sc1:{<prefix>}:s and sc1:{<prefix>}:j')
end
if kind ~= 'k' and kind ~= 't' and kind ~= 'a' then return redis.error_reply('ERR the kind is not k, t or a') end
if kind ~= 'a' and text == '' and ARGV[4] ~= 'empty' then
  return redis.error_reply("ERR the key or the tag is empty; if that is meant, the next argument must be 'empty'")
end
local state = redis.pcall('hmget', KEYS[1], 'i', 'q', 'c:' .. cache, 'm', 'b', 'k')
if state.err and string.find(state.err, 'WRONGTYPE', 1, true) then return 0 end
if state.err then return state end
local sequence = tonumber(state[2] or '')
if not state[1] or not sequence then return 0 end
local known = state[6] or ''
if known ~= '' and (string.find(cache, ' ', 1, true)
    or not string.find(' ' .. known .. ' ', ' ' .. cache .. ' ', 1, true)) then
  return redis.error_reply("ERR no cache '" .. cache .. "' was opened in this reign, so nothing of it is in Redis; "
                           .. 'the known ones: ' .. string.sub(known, 1, 1000))
end

-- What is too long for the journal is in no record. All that the processes have in memory of the cache goes instead.
if kind ~= 'a' and #text > 1024 then kind, text = 'm', '' end

-- The values and the leases of all registered codecs go first: after that Redis does not refuse the rest for want of
-- memory. The field h does not exist.
call('hdel', KEYS[1], 'h')
local waiting = {}
if kind == 'k' then
  for codec in string.gmatch(state[3] or '', '%S+') do
    local entry = cache .. ':' .. codec .. ':' .. text
    local inboxes = redis.pcall('getrange', base .. 'w:' .. entry, 0, 128 * 16 - 1)
    if type(inboxes) == 'string' and inboxes ~= '' then waiting[base .. 'l:' .. entry] = inboxes end
    call('del', base .. 'v:' .. entry, base .. 'l:' .. entry, base .. 'w:' .. entry)
  end
end

sequence = sequence + 1
local message = table.concat({state[1], string.format('%.0f', sequence), kind, cache, text}, ' ')
local sums = state[4] or ' '
local sum = string.sub(redis.sha1hex((string.match(sums, '^ %d+=(%x+) ') or '') .. ' ' .. message), 1, 20)
call('hset', KEYS[1], 'q', sequence, 'm', string.format(' %.0f=%s', sequence, sum) .. string.sub(sums, 1, 1000))
local tag_bytes = tonumber(state[5] or '') or 0
if kind == 't' and #text <= 255 and call('hset', KEYS[1], 't:' .. cache .. ':' .. text, sequence) == 1 then
  tag_bytes = tag_bytes + #text
  call('hset', KEYS[1], 'b', tag_bytes)
end
-- A cache without codecs has lost the list of them, so its records are not found.
if kind == 'a' or kind == 'k' and not string.find(state[3] or '', '%S') then
  call('hset', KEYS[1], 'a:' .. cache, sequence)
end
call('xadd', KEYS[2], 'maxlen', '~', 10000, string.format('%.0f-0', sequence),
     'o', 'external', 'c', cache, 'k', kind, 't', text)

-- Too many tags become one invalidation of all in each cache. Otherwise the state would grow for ever.
if kind == 't' and (tag_bytes > 10000000 or call('hlen', KEYS[1]) > 100000) then
  local kept, life = {}, call('pttl', KEYS[1])
  local function keep(field) kept[field] = call('hget', KEYS[1], field) or nil end
  for _, field in ipairs({'i', 'q', 'm', 'w', 'o', 'T', 'B', 'k'}) do keep(field) end
  for name in string.gmatch(kept.k or '', '%S+') do
    kept['a:' .. name] = sequence
    keep('c:' .. name)
    for codec in string.gmatch(kept['c:' .. name] or '', '%S+') do keep('c:' .. name .. ':' .. codec) end
  end
  call('unlink', KEYS[1])
  for field, value in pairs(kept) do call('hset', KEYS[1], field, value) end
  if life > 0 then call('pexpire', KEYS[1], life) end
end

-- Without the messages, the processes find out by polling. SPUBLISH is for a cluster of Redis 7.
local function publish(channel, message)
  local heard = redis.pcall('spublish', channel, message)
  if type(heard) ~= 'number' or heard == 0 then redis.pcall('publish', channel, message) end
end
publish(base .. 'c', message)
for lease, inboxes in pairs(waiting) do
  for at = 1, #inboxes, 16 do publish(base .. 'i:' .. string.sub(inboxes, at, at + 15), lease) end
end

if call('pttl', KEYS[2]) < 0 then call('pexpire', KEYS[2], math.max(call('pttl', KEYS[1]), 604800000)) end
return sequence

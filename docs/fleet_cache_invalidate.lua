-- Invalidates in the caches that share a second level in Redis, from any language. docs/FLEET_CACHE_WIRE.md describes
-- the keys.
--
--   redis-cli --eval fleet_cache_invalidate.lua 'sc1:{shop}:s' 'sc1:{shop}:j' , products k air-force-one
--   redis-cli --eval fleet_cache_invalidate.lua 'sc1:{shop}:s' 'sc1:{shop}:j' , products t brand:nike
--   redis-cli --eval fleet_cache_invalidate.lua 'sc1:{shop}:s' 'sc1:{shop}:j' , products a
--
-- KEYS  1 state, 2 journal.
-- ARGV  1 cache, 2 kind: k (a key), t (a tag) or a (all), 3 the encoded key or the tag.
-- Returns the position of the invalidation, or 0 if the state is lost: then everything is void already.
--
-- Send it again if the reply was lost: an invalidation that runs twice costs one more load, and nothing else.
local call, cache, kind, text = redis.call, ARGV[1], ARGV[2], ARGV[3] or ''
if kind ~= 'k' and kind ~= 't' and kind ~= 'a' then return redis.error_reply('ERR the kind is not k, t or a') end
local state = call('hmget', KEYS[1], 'i', 'q', 'c:' .. cache, 'm')
local sequence = tonumber(state[2] or '')
if not state[1] or not sequence then return 0 end

-- The values and the leases of all registered codecs go first: after that Redis does not refuse the rest for want of
-- memory. The field h does not exist.
call('hdel', KEYS[1], 'h')
local base, waiting = string.sub(KEYS[1], 1, -2), {}
if kind == 'k' then
  for codec in string.gmatch(state[3] or '', '%S+') do
    local entry = cache .. ':' .. codec .. ':' .. text
    local inboxes = redis.pcall('get', base .. 'w:' .. entry)
    if type(inboxes) == 'string' then waiting[base .. 'l:' .. entry] = inboxes end
    call('del', base .. 'v:' .. entry, base .. 'l:' .. entry, base .. 'w:' .. entry)
  end
end

sequence = sequence + 1
local message = table.concat({state[1], string.format('%.0f', sequence), kind, cache, text}, ' ')
local sums = state[4] or ' '
local sum = string.sub(redis.sha1hex((string.match(sums, '^ %d+=(%x+) ') or '') .. ' ' .. message), 1, 20)
call('hset', KEYS[1], 'q', sequence, 'm', string.format(' %.0f=%s', sequence, sum) .. string.sub(sums, 1, 1000))
if kind == 't' then call('hset', KEYS[1], 't:' .. cache .. ':' .. text, sequence) end
if kind == 'a' then call('hset', KEYS[1], 'a:' .. cache, sequence) end
call('xadd', KEYS[2], 'maxlen', '~', 10000, string.format('%.0f-0', sequence),
     'o', 'external', 'c', cache, 'k', kind, 't', text)

-- Too many tags become one invalidation of all in each cache. Otherwise the state would grow for ever.
if kind == 't' and call('hlen', KEYS[1]) > 100000 then
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

-- Empties a user's projection, so that a rebuild remakes it from the facts. Its version keeps rising, and every earlier SQL read is
-- refused.
-- KEYS[1] {u}:b  KEYS[2] {u}:on, which stays unless its type is wrong  KEYS[3...] the other keys of the projection
-- ARGV[1] seconds to live until it is rebuilt
-- Returns the version (us)
local function isHash(key)
  local kind = redis.call('TYPE', key)
  return (kind.ok or kind) == 'hash'
end

local n, rm
if isHash(KEYS[1]) then
  local v = redis.call('HMGET', KEYS[1], 'n', 'rm')
  n, rm = tonumber(v[1] or ''), tonumber(v[2] or '')
end
local time = now()
-- A stamp of the future would refuse every add until that time: it counts as broken too.
if not rm or rm > time + 60000000 then rm = 0 end
local version = string.format('%.0f', math.max(time, (n or 0) + 1))
-- What stays is a document that is being built, with the version and the fence that the rebuild goes on from.
redis.call('DEL', KEYS[1], unpack(KEYS, 3))
if not isHash(KEYS[2]) then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[1], 'st', '0', 'n', version, 'rm', string.format('%.0f', math.max(time, rm + 1)))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return version

-- Drops the keys of a user, unless they have come back meanwhile: their document has a later day or is being built, or a node has a
-- subscription of theirs.
-- KEYS[1] {u}:b  KEYS[2] {u}:on  KEYS[3...] the other keys
-- ARGV[1] the last day of activity at which the keys are dropped; -1 = whatever day the document has
-- Returns how many keys were dropped
local last = tonumber(ARGV[1])
-- With -1, or where the document is missing or of the wrong type, and so says nothing about a visit, SQL alone has decided.
local kind = redis.call('TYPE', KEYS[1])
if last >= 0 and (kind.ok or kind) == 'hash' then
  local d, st, rm = unpack(redis.call('HMGET', KEYS[1], 'd', 'st', 'rm'))
  if d and tonumber(d) and tonumber(d) > last then return 0 end
  if st == '0' and rm and tonumber(rm) and tonumber(rm) > now() - 60000000 then return 0 end
  kind = redis.call('TYPE', KEYS[2])
  if (kind.ok or kind) == 'hash' and #nodes(KEYS[2], {}) > 0 then return 0 end
end
return redis.call('DEL', unpack(KEYS))

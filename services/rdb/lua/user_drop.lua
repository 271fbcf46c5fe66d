-- Drops what is kept of a user, unless he was here meanwhile: his document says so, or it is being made, or a node watches for him.
-- KEYS[1] {u}:b  KEYS[2] {u}:on  KEYS[3...] the other keys
-- ARGV[1] the last day of activity with which they go; -1 = whatever the document says
-- Returns how many keys went
local last = tonumber(ARGV[1])
local kind = redis.call('TYPE', KEYS[1])
if last >= 0 and (kind.ok or kind) == 'hash' then
  local d, st, rm = unpack(redis.call('HMGET', KEYS[1], 'd', 'st', 'rm'))
  if d and tonumber(d) and tonumber(d) > last then return 0 end
  if st == '0' and rm and tonumber(rm) and tonumber(rm) > now() - 60000000 then return 0 end
  kind = redis.call('TYPE', KEYS[2])
  if (kind.ok or kind) == 'hash' and #nodes(KEYS[2], {}) > 0 then return 0 end
end
return redis.call('DEL', unpack(KEYS))

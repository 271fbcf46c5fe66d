-- Drops a key that would never expire, if it is of the kind that its name says.
-- The walk found the key a moment ago: each condition is checked again, because the key may have got its document, its expiry
-- or another type since.
-- KEYS[1] the key  KEYS[2] {u}:b, of an orphan
-- ARGV[1] orphan, a part of a projection without its document; copy, lease or family, without an expiry  ARGV[2] the mark of a family
-- Returns 1, or 0 if it stays
if ARGV[1] == 'orphan' then
  if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
  return redis.call('DEL', KEYS[1])
end
local kind = redis.call('TYPE', KEYS[1])
kind = kind.ok or kind
-- A key that looks like ours by its name may be another program's: it goes only if its content is ours too.
if redis.call('PTTL', KEYS[1]) ~= -1 then return 0 end
if ARGV[1] == 'copy' and not (kind == 'string' and redis.call('GETRANGE', KEYS[1], 0, 15):match('^%d+$')) then return 0 end
if ARGV[1] == 'family' and not (kind == 'zset' and redis.call('ZSCORE', KEYS[1], ARGV[2])) then return 0 end
if ARGV[1] == 'lease' and not (kind == 'hash' and #nodes(KEYS[1], {}) == 0) then return 0 end
return redis.call('DEL', KEYS[1])

-- Begins a rebuild of a view: it is made, or opened below its floor, and has no floor (building) BEFORE its facts are read from
-- SQL.
-- A view is a ZSET: item -> when it happened (us); '!r' -> -(stamp of birth or of the last removal); '!f' -> -(floor) - 1; '!e'
-- -> -(epoch).
-- KEYS[1] the view
-- ARGV[1] seconds to live  ARGV[2] epoch
-- Returns the stamp (us) to read SQL under
local rm, time = redis.call('ZSCORE', KEYS[1], '!r'), now()
local epoch = redis.call('ZSCORE', KEYS[1], '!e')
if not (rm and epoch) or tonumber(epoch) ~= -tonumber(ARGV[2]) then
  redis.call('DEL', KEYS[1])
  -- The new stamp is later than that of the last removal, so that reads from before the removal stay refused.
  rm = math.min(-time, tonumber(rm or 0) - 1)
  redis.call('ZADD', KEYS[1], string.format('%.0f', rm), '!r', -tonumber(ARGV[2]), '!e')
else
  redis.call('ZREM', KEYS[1], '!f')
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return string.format('%.0f', math.max(time, 1 - tonumber(rm)))

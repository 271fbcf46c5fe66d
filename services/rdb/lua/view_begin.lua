-- Begins a rebuild of a view: it is made, or opened below its floor, and has no floor (building) BEFORE its facts are read from SQL.
-- A view is a ZSET: item -> when it happened (us); '!r' -> -(stamp of birth or of the last removal); '!f' -> -(floor) - 1.
-- KEYS[1] the view
-- ARGV[1] seconds to live
-- Returns the stamp (us) to read SQL under
local rm, time = redis.call('ZSCORE', KEYS[1], '!r'), now()
if not rm then
  redis.call('DEL', KEYS[1])
  rm = -time
  redis.call('ZADD', KEYS[1], rm, '!r')
else
  redis.call('ZREM', KEYS[1], '!f')
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
return string.format('%.0f', math.max(time, 1 - tonumber(rm)))

-- Begins a rebuild of a list of replays: a missing list is made, marked as building, BEFORE its facts are read from SQL.
-- KEYS[1] {u}:b  KEYS[2] {u}:r
-- ARGV none
-- Returns the stamp (us) to read SQL under, '0' when there is no document
local rm, time = tonumber(redis.call('HGET', KEYS[1], 'rm') or nil), now()
if not rm then return '0' end
if not listed(KEYS[2]) then
  redis.call('DEL', KEYS[2])
  redis.call('ZADD', KEYS[2], 0, '#' .. NOWHERE)
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[2], left) end
  rm = math.max(time, rm + 1)
  redis.call('HSET', KEYS[1], 'rm', string.format('%.0f', rm)) -- earlier reads have missed this list
end
return string.format('%.0f', math.max(time, rm + 1))

-- Takes a stamp for one user, by the clock of their own master.
-- KEYS[1] {u}:b
-- ARGV none
-- Returns the stamp (us), '0' when there is no document
local rm = redis.call('HGET', KEYS[1], 'rm')
if not rm then return '0' end
return string.format('%.0f', math.max(now(), tonumber(rm) + 1))

-- Takes a stamp for one view, by the clock of its own master.
-- KEYS[1] the view
-- ARGV none
-- Returns the stamp (us), '0' when there is no view
local rm = redis.call('ZSCORE', KEYS[1], '!r')
if not rm then return '0' end
return string.format('%.0f', math.max(now(), 1 - tonumber(rm)))

-- Cuts a list of replays down to the listed length.
-- KEYS[1] {u}:r
-- ARGV none
-- Returns how many entries were cut
local l = listed(KEYS[1])
if not l or l.mark ~= '!' then return 0 end
local over = redis.call('ZCARD', KEYS[1]) - 1 - KEEP
cutReplays(KEYS[1], l, over)
return math.max(over, 0)

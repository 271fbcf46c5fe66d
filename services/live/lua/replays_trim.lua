-- Cuts a list of replays down to the listed length.
-- KEYS[1] {u}:r
-- ARGV none
-- Returns how many entries were cut
local l = listed(KEYS[1])
if not l or l.mark ~= '!' then return 0 end
return trimReplays(KEYS[1], l, 0)

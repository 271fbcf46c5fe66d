-- Moves the reader's "seen up to" forward.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] post id, 13 letters
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
if ARGV[1] <= d.T then return { 2 } end
d.T = ARGV[1]
return save(KEYS[1], KEYS[2], KEYS[3], d)

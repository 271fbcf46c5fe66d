-- Removes posts that have become too old from a reader's count.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] post id, 13 letters: posts up to it are too old
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
if ARGV[1] <= d.fx then return { 2 } end
-- fx is kept even if no post leaves the count: it is how the document knows up to which day it has aged.
d.fx = ARGV[1]
redis.call('HSET', KEYS[1], 'fx', d.fx)
if recount(KEYS[2], d) == d.fc then return { 2 } end
return save(KEYS[1], KEYS[2], KEYS[3], d)

-- Removes one deleted post from a reader's inbox.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] the entry without its flag
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
-- The fence comes first, even if the post is not here: a push that read it as not deleted may still be on its way.
fence(KEYS[1], d)
local removed = redis.call('ZREM', KEYS[2], ARGV[1] .. '+', ARGV[1] .. '-') > 0
if not removed and not (ARGV[1]:sub(1, 13) > mark(d) and countedInSQL(KEYS[1], d)) then return unchanged(KEYS[2], d) end
return save(KEYS[1], KEYS[2], KEYS[3], d)

-- Removes everything of one author from a reader's projections: their posts in the inbox, their entries in registered lists, and those
-- in the document.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on  KEYS[4...] registered lists
-- ARGV[1] the author's 5 letters  ARGV[2] their 4 bytes
-- Returns {status, n, short, nodes...}
local drops = {} -- of the registered lists, in their order: the functions that remove an author, see RegisterList
-- The lists' functions end here.
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
-- The fence comes first, even if nothing of the author is here: an add that read the old follow may still be on its way.
fence(KEYS[1], d)
for k, drop in ipairs(drops) do drop(KEYS[3 + k], ARGV[1]) end
local removed = unname(KEYS[1], 'F', ARGV[2]) and 1 or 0
if unname(KEYS[1], 'L', ARGV[2]) then removed = removed + 1 end
for _, entry in ipairs(redis.call('ZRANGE', KEYS[2], 1, -1)) do
  if entry:sub(14, 18) == ARGV[1] then removed = removed + redis.call('ZREM', KEYS[2], entry) end
end
-- An entry of the author may have been trimmed while it still counted: only a refill can tell.
local doubt = d.ft > mark(d)
if removed == 0 and not doubt and not countedInSQL(KEYS[1], d) then return unchanged(KEYS[2], d) end
return save(KEYS[1], KEYS[2], KEYS[3], d, doubt)

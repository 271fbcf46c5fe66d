-- Merges a SQL read for this one reader: an author's newest posts after a follow, or one post again after RETRY, and the
-- authors that the document must name.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] stamp of the SQL read (us)  ARGV[2] 1 = the follow may be new: refuse older reads; 2 = the same, and no post of the author
-- counts any more
-- ARGV[3] authors, as F has them
-- ARGV[4] hosts, as L has them  ARGV[5...] entries
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
-- Something was removed after the read of SQL, perhaps this author: the caller reads again.
if tonumber(ARGV[1]) <= d.rm then return { 3 } end
if ARGV[2] ~= '0' then fence(KEYS[1], d) end
local added, ft = name(KEYS[1], 'F', ARGV[3]) and 1 or 0, d.ft
if name(KEYS[1], 'L', ARGV[4]) then added = added + 1 end
added = added + add(KEYS[2], d, 5)
-- A trimmed post may be the author's and may still count: only a refill can tell.
local doubt = ARGV[2] == '2' and d.ft > mark(d)
-- What nodes count in SQL may have changed although the inbox did not: a post below the floor counts (d.beyond), or the follow has
-- changed and a node has counted by the former one. Both need a new version.
local moved = d.beyond or ARGV[2] ~= '0' and countedInSQL(KEYS[1], d)
if added == 0 and d.ft == ft and not moved and not doubt then return unchanged(KEYS[2], d) end
trim(KEYS[2], d, SLACK)
return save(KEYS[1], KEYS[2], KEYS[3], d, doubt)

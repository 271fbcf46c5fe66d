-- Notes an author in a reader's document whose posts are pulled from now on.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] stamp of the SQL read behind it (us)  ARGV[2] the author, as F has him
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
if tonumber(ARGV[1]) <= d.rm then return { 3 } end
local named = pull(KEYS[1], ARGV[2])
if not named then return { named == nil and 0 or 2 } end
return save(KEYS[1], KEYS[2], KEYS[3], d)

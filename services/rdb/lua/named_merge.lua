-- Names an author in a reader's document.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] stamp of the SQL read behind it (us)  ARGV[2] the field  ARGV[3] the author, in the field's format
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
if tonumber(ARGV[1]) <= d.rm then return { 3 } end
local named = name(KEYS[1], ARGV[2], ARGV[3])
if not named then return { named == nil and 0 or 2 } end
return save(KEYS[1], KEYS[2], KEYS[3], d)

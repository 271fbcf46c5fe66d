-- Pushes one post into one reader's inbox.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV[1] stamp of the SQL read behind it (us)  ARGV[2] entry
-- Returns {status, n, short, nodes...}
local d, entry = open(KEYS[1], KEYS[2]), ARGV[2]
if not d then return { 0 } end
if tonumber(ARGV[1]) <= d.rm then return { 3 } end
local counts, id = entry:sub(19) == '+', entry:sub(1, 13)
-- The same post with the other flag means that the follow has changed: the caller reads it again. A counting entry whose ID is
-- above fq has no such twin, because fq is at or above every entry that does not count.
if not counts or id <= d.fq then
  if redis.call('ZSCORE', KEYS[2], entry:sub(1, 18) .. (counts and '-' or '+')) then return { 3 } end
end
-- Below the floor nothing is listed. A counting entry raises ft, so that the count says "or more"; if it is within what
-- ft covers already, the state changes only where nodes count trimmed posts in SQL.
if id <= d.floor then
  if not counts or id <= d.ft and not trimmed(d, entry) then return { 2 } end
  if id > d.ft then d.ft = id end
else
  if redis.call('ZADD', KEYS[2], 0, entry) == 0 then return { 2 } end
  if not counts and id > d.fq then d.fq = id end
  -- The common case, a new post above the mark: the count moves by one, without a look at the other entries.
  if not trim(KEYS[2], d, SLACK) and counts and id > mark(d) then return counted(KEYS[1], KEYS[3], d) end
end
return save(KEYS[1], KEYS[2], KEYS[3], d)

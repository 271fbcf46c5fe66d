-- Ends a rebuild: merges SQL's answers into the inbox and the document, and marks them good.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on  KEYS[4] {u}:c  KEYS[5] {u}:m, which exists only while this runs
-- KEYS[6...] registered lists
-- ARGV[1] stamp of rebuild_begin  ARGV[2] seen up to  ARGV[3] newest id that SQL has below the entries, or ZERO
-- ARGV[4] newest counting id at or below it, or ZERO  ARGV[5] day of activity  ARGV[6] seconds to live
-- ARGV[7] 1 = a visit; 0 = none: a document that has a day keeps it, and its lifetime
-- ARGV[8] authors whose posts are pulled, as F has them  ARGV[9] hosts, as L has them
-- ARGV[10] the last step of this build before this script, or ''  ARGV[11...] entries
-- Returns {status, n, short, nodes...}
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
-- Three ways in which the facts may be incomplete by now. Each refuses, and the caller begins the rebuild again.
if tonumber(ARGV[1]) <= d.rm then return { 3 } end
if not noted(KEYS[1], ARGV[10]) then return { 3 } end -- a part is missing
if tonumber(redis.call('HGET', KEYS[1], 'Ck') or nil) ~= redis.call('HLEN', KEYS[4]) then return { 3 } end -- states were lost
-- Nothing is replaced: what was pushed since the stamp stays, positions only move forward, and named authors are
-- joined.
if ARGV[2] > d.T then d.T = ARGV[2] end
name(KEYS[1], 'F', ARGV[8])
name(KEYS[1], 'L', ARGV[9])
fill(KEYS[2], KEYS[5], d, 11)
-- SQL has older posts than were read: the inbox ends where the read did.
if ARGV[3] > d.floor then
  redis.call('ZREMRANGEBYLEX', KEYS[2], '-', '[' .. ARGV[3] .. '~')
  redis.call('ZADD', KEYS[2], 0, '!' .. ARGV[3])
  d.floor = ARGV[3]
end
if ARGV[4] > d.ft then d.ft = ARGV[4] end
trim(KEYS[2], d, SLACK)
-- Only now does a reader trust the document.
d.st = '1'
redis.call('HDEL', KEYS[1], 'bp')
-- Day and lifetime belong together: with a later day alone, readers would trust the document after fan-out has stopped pushing to it.
local left = ARGV[7] == '0' and redis.call('HGET', KEYS[1], 'd') ~= '0' and redis.call('TTL', KEYS[1]) or -1
if left < 1 then
  left = ARGV[6]
  redis.call('HSET', KEYS[1], 'd', ARGV[5])
  redis.call('EXPIRE', KEYS[1], left)
end
redis.call('EXPIRE', KEYS[2], left)
redis.call('EXPIRE', KEYS[4], left)
for k = 6, #KEYS do redis.call('EXPIRE', KEYS[k], left) end
return save(KEYS[1], KEYS[2], KEYS[3], d)

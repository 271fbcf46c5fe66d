-- Records that the user was active today, and extends the lifetime of their keys.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:c  KEYS[4...] registered lists
-- ARGV[1] day  ARGV[2] seconds to live
-- Returns 1, or 0 when there is no document
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
-- The keys of a projection expire together: a part that outlived the document would be an orphan for the cleaner.
redis.call('HSET', KEYS[1], 'd', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('EXPIRE', KEYS[3], ARGV[2])
for k = 4, #KEYS do redis.call('EXPIRE', KEYS[k], ARGV[2]) end
return 1

-- Adds one item to a view, or moves it to a later time.
-- KEYS[1] the view
-- ARGV[1] stamp of the SQL read behind it (us)  ARGV[2] item  ARGV[3] when it happened (us)
-- ARGV[4] how many to keep  ARGV[5] seconds to live
-- Returns {status, n, short}
local rm = tonumber(redis.call('ZSCORE', KEYS[1], '!r') or nil)
if not rm then return { 0 } end
if tonumber(ARGV[1]) <= -rm then return { 3 } end
redis.call('EXPIRE', KEYS[1], ARGV[5])
local floor = viewFloor(KEYS[1])
if floor and tonumber(ARGV[3]) <= floor then return { 2 } end
if redis.call('ZADD', KEYS[1], 'GT', 'CH', ARGV[3], '=' .. ARGV[2]) == 0 then return { 2 } end
if floor then trimView(KEYS[1], floor, ARGV[4]) end
return { 1, '0', 0 }

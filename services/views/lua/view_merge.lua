-- Ends a rebuild of a view: merges SQL's answers and marks the view good.
-- KEYS[1] the view
-- ARGV[1] stamp of view_begin  ARGV[2] time of the newest item that SQL has below these (us), -1 for none
-- ARGV[3] how many to keep  ARGV[4...] pairs: item, when it happened (us)
-- Returns {status, n, short}
local rm = tonumber(redis.call('ZSCORE', KEYS[1], '!r') or nil)
if not rm then return { 0 } end
if tonumber(ARGV[1]) <= -rm then return { 3 } end
for k = 4, #ARGV, 2 do redis.call('ZADD', KEYS[1], 'GT', ARGV[k + 1], '=' .. ARGV[k]) end
local floor = math.max(tonumber(ARGV[2]), viewFloor(KEYS[1]) or -1)
if floor >= 0 then redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, string.format('%.0f', floor)) end
redis.call('ZADD', KEYS[1], string.format('%.0f', -1 - floor), '!f')
trimView(KEYS[1], floor, ARGV[3])
return { 1, '0', 0 }

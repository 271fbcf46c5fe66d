-- Removes one item from a view. Every removal fences: earlier reads are refused from now on.
-- KEYS[1] the view
-- ARGV[1] item  ARGV[2] how many to keep
-- Returns {status, n, short}; short = 1 asks for a refill
local rm = tonumber(redis.call('ZSCORE', KEYS[1], '!r') or nil)
if not rm then return { 0 } end
redis.call('ZADD', KEYS[1], string.format('%.0f', math.min(-now(), rm - 1)), '!r')
redis.call('ZREM', KEYS[1], '=' .. ARGV[1])
local floor = viewFloor(KEYS[1])
local short = floor and floor >= 0 and redis.call('ZCARD', KEYS[1]) - MARKS < tonumber(ARGV[2])
return { 1, '0', short and 1 or 0 }

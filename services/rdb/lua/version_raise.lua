-- Raises the version of a document above a fallback version that was made up without Redis, so that devices accept its exact
-- state.
-- KEYS[1] {u}:b  KEYS[2] {u}:on
-- ARGV[1] the version to exceed
-- Returns {status, n, 0, nodes...}
local n = tonumber(redis.call('HGET', KEYS[1], 'n'))
-- A document is born with a version of at least its time, so one that is missing now will be above a version of the past. One second is
-- added for a replica that takes over with a slower clock.
if not n then return { now() > tonumber(ARGV[1]) + 1000000 and 2 or 0 } end
if n > tonumber(ARGV[1]) then return { 2 } end
local raised = string.format('%.0f', math.max(now(), tonumber(ARGV[1]) + 1))
redis.call('HSET', KEYS[1], 'n', raised)
return nodes(KEYS[2], { 1, raised, 0 })

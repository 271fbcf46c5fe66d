-- Writes versioned fields, values that begin with their version and ";": the newer version of each wins.
-- KEYS[1] {u}:b  KEYS[2] {u}:on
-- ARGV[1] step of a rebuild, or ''  ARGV[2...] pairs: field, value
-- Returns {status, n, 0, nodes...}
local n = tonumber(redis.call('HGET', KEYS[1], 'n'))
if not n then return { 0 } end
-- A field that is missing or unborn is older than every version.
local function version(value) return tonumber(value and value:match('^(%d+);') or -1) end
local changed = false
for k = 2, #ARGV, 2 do
  if version(ARGV[k + 1]) > version(redis.call('HGET', KEYS[1], ARGV[k])) then
    redis.call('HSET', KEYS[1], ARGV[k], ARGV[k + 1])
    changed = true
  end
end
note(KEYS[1], ARGV[1])
if not changed then return { 2 } end
n = string.format('%.0f', math.max(now(), n + 1))
redis.call('HSET', KEYS[1], 'n', n)
return nodes(KEYS[2], { 1, n, 0 })

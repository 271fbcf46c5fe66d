-- Writes absolute notification counts; for each category the newer version wins.
-- KEYS[1] {u}:b  KEYS[2] {u}:on
-- ARGV[1...] triples: category, value "ver;older;day;c0,...,c7", place of the newest (13 letters)
-- Returns {status, n, 0, nodes...}
local n = redis.call('HGET', KEYS[1], 'n')
if not n then return { 0 } end
local changed = false
for k = 1, #ARGV, 3 do
  local had = redis.call('HGET', KEYS[1], 'N' .. ARGV[k])
  local version = function(value) return tonumber((value:match('^%d+'))) or -1 end
  if not had or version(ARGV[k + 1]) > version(had) then
    redis.call('HSET', KEYS[1], 'N' .. ARGV[k], ARGV[k + 1], 'H' .. ARGV[k], ARGV[k + 2])
    changed = true
  end
end
if not changed then return { 2 } end
n = string.format('%.0f', math.max(now(), tonumber(n) + 1))
redis.call('HSET', KEYS[1], 'n', n)
return nodes(KEYS[2], { 1, n, 0 })

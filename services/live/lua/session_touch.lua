-- Extends a live board session and makes it the session of its slot, unless a later one has it: names sort by creation.
-- KEYS[1] {u}:s, a HASH: slot -> end (ms) ';' session
-- ARGV[1] slot  ARGV[2] session  ARGV[3] its end (ms)  ARGV[4] how many slots to keep
-- Returns 1, or 0 if a later one has the slot
local time, ends = now() / 1000, {}
local held = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if held:gsub('^%d+;', '') > ARGV[2] and (tonumber(held:match('^%d+')) or 0) > time then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3] .. ';' .. ARGV[2])
if redis.call('HLEN', KEYS[1]) > tonumber(ARGV[4]) then
  local slots = redis.call('HGETALL', KEYS[1])
  for k = 1, #slots, 2 do
    if slots[k] ~= ARGV[1] then ends[#ends + 1] = { tonumber(slots[k + 1]:match('^%d+')) or 0, slots[k] } end
  end
  table.sort(ends, function(a, b) return a[1] < b[1] end)
  local over = #ends + 1 - tonumber(ARGV[4])
  for k, slot in ipairs(ends) do
    if k <= over or slot[1] <= time then redis.call('HDEL', KEYS[1], slot[2]) end
  end
end
local left = tonumber(ARGV[3]) - time
if left > redis.call('PTTL', KEYS[1]) then redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.max(left, 1))) end
return 1

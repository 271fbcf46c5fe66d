-- Merges replays into a list: all that SQL has for it, which ends a rebuild of the list, or the replays of one show or host.
-- KEYS[1] {u}:b  KEYS[2] {u}:r
-- ARGV[1] stamp of the SQL read behind it (us)  ARGV[2] 1 = it ends a rebuild  ARGV[3] position of the newest replay that SQL has below
-- these, or NOWHERE  ARGV[4...] replays
-- Returns {status, '0', 0}
local rm, l = tonumber(redis.call('HGET', KEYS[1], 'rm') or nil), listed(KEYS[2])
if not rm or not l then return { 0 } end
if tonumber(ARGV[1]) <= rm then return { 3 } end
local added = 0
for k = 4, #ARGV do
  if ARGV[k]:sub(1, 22) > l.floor then added = added + redis.call('ZADD', KEYS[2], 0, ARGV[k]) end
end
if ARGV[2] == '1' then
  -- The new mark is written before entries below it are removed: an empty key would be deleted and lose its expiry.
  local old, floor = l.mark .. l.floor, ARGV[3] > l.floor and ARGV[3] or l.floor
  redis.call('ZADD', KEYS[2], 0, '!' .. floor)
  if old ~= '!' .. floor then redis.call('ZREM', KEYS[2], old) end
  if floor > l.floor then redis.call('ZREMRANGEBYLEX', KEYS[2], '[0', '[' .. floor .. '~') end
  l.mark, l.floor = '!', floor
elseif added == 0 then
  return { 2 }
end
trimReplays(KEYS[2], l, SLACK)
return { 1, '0', 0 }

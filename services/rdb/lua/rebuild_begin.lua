-- Begins a rebuild: what is missing is made, marked as building, BEFORE its facts are read from SQL.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:c  KEYS[4...] registered lists
-- ARGV[1] 1 = refill: remove the floor of the inbox, and keep the lists  ARGV[2] epoch
-- ARGV[3] the first day that is not idle: if the document's day is earlier, the floor is removed too; -1 = nobody visits: without a
-- document there is nothing to do
-- ARGV[4...] triples: field, value at birth ('': it is born with the field before it; '?': it may be absent), pattern of a whole value
-- What is born again takes back what a build has written: a new rm, or an empty bp, refuses the end of that build.
-- Returns the stamp (us) to read SQL under; '0' if nobody visits and there is no document
local NUMBER, ID = '^%d+$', '^[0-7]' .. ('[0-9A-HJKMNP-TV-Z]'):rep(12) .. '$'

if ARGV[3] == '-1' and redis.call('EXISTS', KEYS[1]) == 0 then return '0' end
local rm, n, epoch, F, L, day = unpack(redis.call('HMGET', KEYS[1], 'rm', 'n', 'e', 'F', 'L', 'd'))
local time = now()
day = day and day:match(NUMBER) or '0'
local reopen = ARGV[1] == '1' or tonumber(day) < tonumber(ARGV[3])
rm = tonumber(rm) or 0
if epoch ~= ARGV[2] or not whole(KEYS[1], { 'rm', 'n', 'st', 'd', 'T', 'fc', 'fq', 'ft' }, NUMBER, NUMBER, '^[01]$', NUMBER, ID, '^%d+%+?$', ID, ID) or not F or #F % 12 ~= 0 or not L or #L % 12 ~= 0 then
  -- All keys lack what was skipped while the document was away, or lost with an epoch. The version goes on; the new rm refuses
  -- earlier reads. Day and lifetime stay those of the last visit.
  local left = redis.call('TTL', KEYS[1])
  redis.call('DEL', unpack(KEYS))
  rm, n = math.max(time, rm + 1), math.max(time, (tonumber(n) or 0) + 1)
  redis.call('HSET', KEYS[1], 'st', '0', 'e', ARGV[2], 'rm', string.format('%.0f', rm), 'n', string.format('%.0f', n),
    'T', '0', 'fc', '0', 'fq', '0', 'ft', '0', 'd', day, 'F', '', 'L', '')
  if left > 0 then redis.call('EXPIRE', KEYS[1], left) end
end
local born -- whether the versioned field before this one exists
for k = 4, #ARGV, 3 do
  local value, birth = redis.call('HGET', KEYS[1], ARGV[k]), ARGV[k + 1]
  local known = value and value:match(ARGV[k + 2])
  if birth == '?' then
    if value and not known and redis.call('HSET', KEYS[1], 'st', '0', 'bp', '') then redis.call('HDEL', KEYS[1], ARGV[k]) end
  elseif birth ~= '' then
    if not known and value ~= birth then redis.call('HSET', KEYS[1], 'st', '0', 'bp', '', ARGV[k], birth) end
    born = known
  elseif born and not known or value and not born then -- one without the other: neither is known
    redis.call('HSET', KEYS[1], 'st', '0', 'bp', '', ARGV[k - 3], ARGV[k - 2])
    redis.call('HDEL', KEYS[1], ARGV[k])
  end
end
local list = redis.call('HGET', KEYS[1], 'R')
if not (whole(KEYS[1], { 'Cu', 'Cm', 'Ck', 'Cv' }, NUMBER, NUMBER, NUMBER, NUMBER) and list and #list % 8 == 0) or tonumber(redis.call('HGET', KEYS[1], 'Ck')) ~= redis.call('HLEN', KEYS[3]) then
  redis.call('DEL', KEYS[3]) -- the sums belong to the states that were lost
  redis.call('HSET', KEYS[1], 'st', '0', 'bp', '', 'Cu', '0', 'Cm', '0', 'Ck', '0', 'R', '', 'Cv', string.format('%.0f', time % 8388607 + 1))
end
if ARGV[1] ~= '1' and KEYS[4] then redis.call('DEL', unpack(KEYS, 4)) end -- not everything was pushed to an idle user
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not first or not first:match('^!' .. ID:sub(2)) then -- the mark, and a whole floor
  redis.call('DEL', KEYS[2], unpack(KEYS, 4))
  redis.call('ZADD', KEYS[2], 0, '!' .. ZERO)
  rm = math.max(time, rm + 1)
  -- removals have skipped this user
  redis.call('HSET', KEYS[1], 'st', '0', 'rm', string.format('%.0f', rm), 'fq', '0', 'ft', '0', 'F', '', 'L', '')
elseif reopen and first ~= '!' .. ZERO then
  redis.call('ZREM', KEYS[2], first)
  redis.call('ZADD', KEYS[2], 0, '!' .. ZERO)
  redis.call('HSET', KEYS[1], 'st', '0', 'ft', '0')
end
return string.format('%.0f', math.max(time, rm + 1)) -- later than every removal so far, also if the clock was set back

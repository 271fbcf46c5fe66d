-- Begins a rebuild: what is missing is made, marked as building, BEFORE its facts are read from SQL.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:c  KEYS[4...] registered lists
-- ARGV[1] 1 = refill: open the inbox below its floor again, and leave the lists  ARGV[2] epoch
-- ARGV[3...] triples: field, value at birth, pattern of a whole value ('': it is born with the field before it; '?': it may be absent)
-- What is born again takes back what a build has written: a new rm, or an empty bp, refuses the end of that build.
-- Returns the stamp (us) to read SQL under
local NUMBER, ID = '^%d+$', '^[0-7]' .. ('[0-9A-HJKMNP-TV-Z]'):rep(12) .. '$'

local function whole(fields, ...) -- whether fields are there and have their forms; '0' stands for any field at its birth
  local values = redis.call('HMGET', KEYS[1], unpack(fields))
  for k, form in ipairs({ ... }) do
    if not (values[k] and (values[k] == '0' or values[k]:match(form))) then return false end
  end
  return true
end

local rm, n, epoch, F, L = unpack(redis.call('HMGET', KEYS[1], 'rm', 'n', 'e', 'F', 'L'))
local time = now()
rm = tonumber(rm) or 0
if epoch ~= ARGV[2] or not whole({ 'rm', 'n', 'st', 'd', 'T', 'fc', 'fq', 'ft' }, NUMBER, NUMBER, '^[01]$', NUMBER, ID, '^%d+%+?$', ID, ID) or not F or #F % 12 ~= 0 or not L or #L % 12 ~= 0 then
  -- All keys lack what was skipped while the document was away, or lost with an epoch. The version goes on; the new rm refuses earlier reads.
  redis.call('DEL', unpack(KEYS))
  rm, n = math.max(time, rm + 1), math.max(time, (tonumber(n) or 0) + 1)
  redis.call('HSET', KEYS[1], 'st', '0', 'e', ARGV[2], 'rm', string.format('%.0f', rm), 'n', string.format('%.0f', n),
    'T', '0', 'fc', '0', 'fq', '0', 'ft', '0', 'd', '0', 'F', '', 'L', '')
end
local born -- whether the versioned field before this one exists
for k = 3, #ARGV, 3 do
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
if not (whole({ 'Cu', 'Cm', 'Ck', 'Cv' }, NUMBER, NUMBER, NUMBER, NUMBER) and list and #list % 8 == 0) or tonumber(redis.call('HGET', KEYS[1], 'Ck')) ~= redis.call('HLEN', KEYS[3]) then
  redis.call('DEL', KEYS[3]) -- the sums belong to the states that were lost
  redis.call('HSET', KEYS[1], 'st', '0', 'bp', '', 'Cu', '0', 'Cm', '0', 'Ck', '0', 'R', '', 'Cv', string.format('%.0f', time % 8388607 + 1))
end
if ARGV[1] ~= '1' and KEYS[4] then redis.call('DEL', unpack(KEYS, 4)) end -- not everything was pushed to an idle user
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if not first or first:sub(1, 1) ~= '!' then
  redis.call('DEL', KEYS[2], unpack(KEYS, 4))
  redis.call('ZADD', KEYS[2], 0, '!' .. ZERO)
  rm = math.max(time, rm + 1)
  -- removals have skipped this user
  redis.call('HSET', KEYS[1], 'st', '0', 'rm', string.format('%.0f', rm), 'fq', '0', 'ft', '0', 'F', '', 'L', '')
elseif ARGV[1] == '1' and first ~= '!' .. ZERO then
  redis.call('ZREM', KEYS[2], first)
  redis.call('ZADD', KEYS[2], 0, '!' .. ZERO)
  redis.call('HSET', KEYS[1], 'st', '0', 'ft', '0')
end
return string.format('%.0f', math.max(time, rm + 1)) -- later than every removal so far, also if the clock was set back

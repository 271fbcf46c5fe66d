-- Helpers that change an inbox; they stand after lib.lua and before every script.

-- Adds the entries from ARGV[first] on and says how many are new: each replaces its twin with the other flag, which a fresh inbox cannot have; what lies below the floor is only remembered as trimmed.
local function add(i, d, first, fresh)
  local members, twins, added = {}, {}, 0
  for k = first, #ARGV do
    local entry = ARGV[k]
    local id, counts = entry:sub(1, 13), entry:byte(19) == 43 -- '+'
    if id <= d.floor then
      if counts and id > d.ft then d.ft = id end
    else
      if not counts and id > d.fq then d.fq = id end
      if not fresh then twins[#twins + 1] = entry:sub(1, 18) .. (counts and '-' or '+') end
      members[#members + 1] = 0
      members[#members + 1] = entry
    end
  end
  for k = 1, #members, 200 do -- so many at a time: each call has its price, and Lua's stack its end
    local last = math.min(k + 199, #members)
    if not fresh then redis.call('ZREM', i, unpack(twins, (k + 1) / 2, last / 2)) end
    added = added + redis.call('ZADD', i, unpack(members, k, last))
  end
  return added
end

-- Cuts the oldest entries, so many; the newest id cut is the floor, the newest that counted is ft.
local function cut(i, d, many)
  local gone = redis.call('ZRANGE', i, 1, many)
  for _, e in ipairs(gone) do if e:sub(19) == '+' and e:sub(1, 13) > d.ft then d.ft = e:sub(1, 13) end end
  d.floor = gone[#gone]:sub(1, 13)
  redis.call('ZREMRANGEBYRANK', i, 0, #gone)
  redis.call('ZADD', i, 0, '!' .. d.floor)
end

-- Cuts the inbox when it is over KEEP + 2 * SLACK, down to KEEP + SLACK, and says whether it did.
local function trim(i, d)
  local over = redis.call('ZCARD', i) - 1 - KEEP - 2 * SLACK
  if over > 0 then cut(i, d, over + SLACK) end
  return over > 0
end

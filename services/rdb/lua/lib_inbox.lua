-- Helpers that change an inbox; they stand after lib.lua and before every script.

-- Adds one entry, replacing its twin with the other flag, which a fresh inbox cannot have; what lies below the floor is only remembered as trimmed.
local function add(i, d, entry, fresh)
  local id, flag = entry:sub(1, 13), entry:sub(19)
  if id <= d.floor then
    if flag == '+' and id > d.ft then d.ft = id end
    return 0
  end
  if flag == '-' and id > d.fq then d.fq = id end
  if not fresh then redis.call('ZREM', i, entry:sub(1, 18) .. (flag == '+' and '-' or '+')) end
  return redis.call('ZADD', i, 0, entry)
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

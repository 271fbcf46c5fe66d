-- Helpers that stand before every script. A document d is the table that open() answers; save() writes it back.
-- Statuses that scripts answer first: 0 the view is not there, 1 applied, 2 nothing to change, 3 RETRY (the caller's SQL read is too old).
local ZERO, KEEP, SLACK = '0000000000000', 300, 16

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The nodes that hold a lease on this user's presence, i.e. those to be told.
local function nodes(on, answer)
  local leases = redis.call('HGETALL', on)
  local nowMs = #leases > 0 and now() / 1000 or 0
  for k = 1, #leases, 2 do
    if tonumber(leases[k + 1]) > nowMs then answer[#answer + 1] = leases[k] end
  end
  return answer
end

-- Reads the feed's half of the document. A field or an inbox that is lost makes the document say so (st = 0), so that its next reader rebuilds it.
local function open(b, i)
  local v = redis.call('HMGET', b, 'rm', 'n', 'T', 'fc', 'fq', 'ft', 'st')
  local first = redis.call('ZRANGE', i, 0, 0)[1]
  local whole = first and first:sub(1, 1) == '!' and tonumber(v[1]) and tonumber(v[2])
  for k = 3, 7 do whole = whole and v[k] end
  if not whole then
    if v[7] == '1' then redis.call('HSET', b, 'st', '0') end
    return nil
  end
  return { rm = tonumber(v[1]), n = tonumber(v[2]), T = v[3], fc = v[4], fq = v[5], ft = v[6], st = v[7], floor = first:sub(2) }
end

-- Every removal fences: an add whose SQL read began before it is refused from now on.
local function fence(b, d)
  d.rm = math.max(now(), d.rm + 1)
  redis.call('HSET', b, 'rm', string.format('%.0f', d.rm))
end

-- Adds one entry, replacing its twin with the other flag; what lies below the floor is only remembered as trimmed.
local function add(i, d, entry)
  local id, flag = entry:sub(1, 13), entry:sub(19)
  if id <= d.floor then
    if flag == '+' and id > d.ft then d.ft = id end
    return 0
  end
  if flag == '-' and id > d.fq then d.fq = id end
  redis.call('ZREM', i, entry:sub(1, 18) .. (flag == '+' and '-' or '+'))
  return redis.call('ZADD', i, 0, entry)
end

-- Cuts the inbox when it is over KEEP + 2 * SLACK, down to KEEP + SLACK; the newest id cut is the floor, the newest that counted is ft.
local function trim(i, d)
  local over = redis.call('ZCARD', i) - 1 - KEEP - 2 * SLACK
  if over <= 0 then return end
  local gone = redis.call('ZRANGE', i, 1, over + SLACK)
  for _, e in ipairs(gone) do
    if e:sub(19) == '+' and e:sub(1, 13) > d.ft then d.ft = e:sub(1, 13) end
  end
  d.floor = gone[#gone]:sub(1, 13)
  redis.call('ZREMRANGEBYRANK', i, 0, #gone)
  redis.call('ZADD', i, 0, '!' .. d.floor)
end

-- The one count: entries above T that count, from the list itself, so that count and list cannot part.
local function recount(i, d)
  local count = redis.call('ZLEXCOUNT', i, '(' .. d.T .. '~', '+')
  if d.fq > d.T then
    for _, e in ipairs(redis.call('ZRANGEBYLEX', i, '(' .. d.T .. '~', '[' .. d.fq .. '~')) do
      if e:sub(19) == '-' then count = count - 1 end
    end
  end
  if count > KEEP then return KEEP .. '+' end
  return count .. (d.ft > d.T and '+' or '')
end

-- Writes the feed's half back with the next version and answers {1, n, short, nodes...}; short = 1 asks for a refill.
local function save(b, i, on, d, refill)
  d.n = math.max(now(), d.n + 1)
  local n = string.format('%.0f', d.n)
  redis.call('HSET', b, 'n', n, 'T', d.T, 'fc', recount(i, d), 'fq', d.fq, 'ft', d.ft, 'st', d.st)
  local short = d.floor > ZERO and (refill or redis.call('ZCARD', i) - 1 < KEEP)
  return nodes(on, { 1, n, short and 1 or 0 })
end

-- Helpers that change an inbox and its half of the document; they stand after lib.lua and before every script.

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

-- The one count: entries above T that count, from the list itself, so that count and list cannot part.
local function recount(i, d)
  local count = redis.call('ZLEXCOUNT', i, '(' .. d.T .. '~', '+')
  if d.fq > d.T then
    for _, e in ipairs(redis.call('ZRANGEBYLEX', i, '(' .. d.T .. '~', '[' .. d.fq .. '~')) do if e:sub(19) == '-' then count = count - 1 end end
  end
  if count > KEEP then return KEEP .. '+' end
  return count .. (d.ft > d.T and '+' or '')
end

-- The next version, as it is written.
local function version(d)
  d.n = math.max(now(), d.n + 1)
  return string.format('%.0f', d.n)
end

-- Writes the feed's half back with the next version and answers {1, n, short, nodes...}; short = 1 asks for a refill.
local function save(b, i, on, d, refill)
  local n = version(d)
  redis.call('HSET', b, 'n', n, 'T', short(d.T), 'fc', recount(i, d), 'fq', short(d.fq), 'ft', short(d.ft), 'st', d.st)
  local lacks = d.floor > ZERO and (refill or redis.call('ZCARD', i) - 1 < KEEP)
  return nodes(on, { 1, n, lacks and 1 or 0 })
end

-- Saves after one more entry that counts, above T and with nothing cut: what a recount would find, without a look at all
-- entries. Only the count has changed, and an inbox that has grown lacks nothing that it did not lack before.
local function counted(b, on, d)
  local count, more = d.fc:match('^(%d+)(%+?)$')
  count = count + 1
  if count > KEEP then count, more = KEEP, '+' end
  local n = version(d)
  redis.call('HSET', b, 'n', n, 'fc', string.format('%d', count) .. more)
  return nodes(on, { 1, n, 0 })
end

-- Cuts a view when it holds KEEP items and 2 * SLACK more, down to KEEP and SLACK more; the time of the newest cut is the floor.
local function viewTrim(v, keep)
  local over = redis.call('ZCARD', v) - 3 - keep - 2 * SLACK
  if over <= 0 then return end
  local last = over + SLACK + 2 -- the three marks come first
  local floor = redis.call('ZRANGE', v, last, last, 'WITHSCORES')[2]
  redis.call('ZREMRANGEBYRANK', v, 3, last)
  redis.call('ZADD', v, string.format('%.0f', -1 - tonumber(floor)), '!f')
end

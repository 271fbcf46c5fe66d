-- Helpers that count an inbox and write its half of the document; they stand after lib_inbox.lua and before every script.

-- The one count: entries above the mark that count, from the list itself, so that count and list cannot part.
local function recount(i, d)
  local seen = mark(d)
  local count = redis.call('ZLEXCOUNT', i, '(' .. seen .. '~', '+')
  if d.fq > seen then
    for _, e in ipairs(redis.call('ZRANGEBYLEX', i, '(' .. seen .. '~', '[' .. d.fq .. '~')) do if e:sub(19) == '-' then count = count - 1 end end
  end
  if count > KEEP then return KEEP .. '+' end
  return count .. (d.ft > seen and '+' or '')
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

-- Saves after one more entry that counts, above the mark and with nothing cut: what a recount would find, without a look at all
-- entries. Only the count has changed, and an inbox that has grown lacks nothing that it did not lack before.
local function counted(b, on, d)
  local count, more = d.fc:match('^(%d+)(%+?)$')
  count = count + 1
  if count > KEEP then count, more = KEEP, '+' end
  local n = version(d)
  redis.call('HSET', b, 'n', n, 'fc', string.format('%d', count) .. more)
  return nodes(on, { 1, n, 0 })
end

-- Whether a post may be among those that count and were trimmed: nodes go on counting them in SQL, once for each version, so
-- that a change of them is a new version although the inbox does not hold them.
local function trimmed(d, entry)
  local id = entry:sub(1, 13)
  return id > mark(d) and id <= d.ft and id <= d.floor
end

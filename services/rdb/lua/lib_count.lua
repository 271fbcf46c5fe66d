-- Helpers that count an inbox and write its half of the document. They stand after lib_inbox.lua and before every script.

-- The only count: the counting entries above the mark, from the list itself, so that count and list cannot disagree.
local function recount(i, d)
  local seen = mark(d)
  -- '~' sorts after all letters of authors: the range begins after every entry of the post at the mark.
  local count = redis.call('ZLEXCOUNT', i, '(' .. seen .. '~', '+')
  -- Entries that do not count are rare above the mark, and none is above fq: only that range is read.
  if d.fq > seen then
    for _, e in ipairs(redis.call('ZRANGEBYLEX', i, '(' .. seen .. '~', '[' .. d.fq .. '~')) do if e:sub(19) == '-' then count = count - 1 end end
  end
  if count > KEEP then return KEEP .. '+' end
  return count .. (d.ft > seen and '+' or '')
end

-- The next version, as text.
local function version(d)
  d.n = math.max(now(), d.n + 1)
  return string.format('%.0f', d.n)
end

-- Whether posts exist below the floor, and there is room for them.
local function lacks(i, d) return d.floor > ZERO and redis.call('ZCARD', i) - 1 < KEEP end

-- Answers that nothing changed, as {2, '0', short}: a removal that is repeated still asks for the refill that its first run did not
-- reach, because it died.
local function unchanged(i, d) return { 2, '0', lacks(i, d) and 1 or 0 } end

-- Writes the feed's half back with the next version and answers {1, n, short, nodes...}; short = 1 asks for a refill.
local function save(b, i, on, d, refill)
  local n = version(d)
  redis.call('HSET', b, 'n', n, 'T', short(d.T), 'fc', recount(i, d), 'fq', short(d.fq), 'ft', short(d.ft), 'st', d.st)
  return nodes(on, { 1, n, (refill and d.floor > ZERO or lacks(i, d)) and 1 or 0 })
end

-- Saves after one more counting entry above the mark, with nothing trimmed. The result is that of a recount, without reading
-- all entries. Only the count has changed, and a larger inbox lacks nothing that it did not lack before.
local function counted(b, on, d)
  local count, more = d.fc:match('^(%d+)(%+?)$')
  count = count + 1
  if count > KEEP then count, more = KEEP, '+' end
  local n = version(d)
  redis.call('HSET', b, 'n', n, 'fc', string.format('%d', count) .. more)
  return nodes(on, { 1, n, 0 })
end

-- Whether a post may be among the trimmed posts that count. Nodes count those in SQL, once for each version: a change among
-- them therefore needs a new version, although the inbox does not hold them.
local function trimmed(d, entry)
  local id = entry:sub(1, 13)
  return id > mark(d) and id <= d.ft and id <= d.floor
end

-- Whether a count may include posts after the mark that the inbox does not hold. Nodes count all posts in SQL, also those on their way
-- into the inbox, if counting posts were trimmed (fc ends in '+'), or if the nodes do not hold all posts of a pulled author.
local function countedInSQL(b, d) return d.fc:sub(-1) == '+' or redis.call('HSTRLEN', b, 'F') > 0 end

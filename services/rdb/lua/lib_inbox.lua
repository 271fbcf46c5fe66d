-- Helpers that change an inbox; they stand after lib_document.lua and before every script.

-- The entries from ARGV[first] on that belong above the floor. Entries below it are only recorded as trimmed.
local function above(d, first)
  local entries = {}
  for k = first, #ARGV do
    local entry = ARGV[k]
    local id, counts = entry:sub(1, 13), entry:byte(19) == 43 -- '+'
    if id <= d.floor then
      if counts and id > d.ft then d.ft = id end
      d.beyond = d.beyond or counts and id > mark(d)
    else
      if not counts and id > d.fq then d.fq = id end
      entries[#entries + 1] = entry
    end
  end
  return entries
end

-- Adds the entries from ARGV[first] on, each in place of its twin with the other flag, and returns how many are new.
local function add(i, d, first)
  local new = 0
  for _, entry in ipairs(above(d, first)) do
    redis.call('ZREM', i, entry:sub(1, 18) .. (entry:byte(19) == 43 and '-' or '+'))
    new = new + redis.call('ZADD', i, 0, entry)
  end
  return new
end

-- Adds many entries, from ARGV[first] on, through a set: ZADD on a long listpack scans all of it for each member.
local function fill(i, set, d, first)
  local had, entries, twins = {}, {}, {}
  for _, e in ipairs(redis.call('ZRANGE', i, 1, -1)) do had[e:sub(1, 18)] = e end
  for _, entry in ipairs(above(d, first)) do
    local twin = had[entry:sub(1, 18)]
    if twin ~= entry then twins[#twins + 1], entries[#entries + 1] = twin, entry end
  end
  if #twins > 0 then redis.call('ZREM', i, unpack(twins)) end
  redis.call('DEL', set) -- left by something else
  for k = 1, #entries, 100 do redis.call('SADD', set, unpack(entries, k, math.min(k + 99, #entries))) end
  redis.call('ZUNIONSTORE', i, 2, i, set, 'WEIGHTS', 0, 0) -- restores the order too if something else had changed the scores
  redis.call('DEL', set)
end

-- Cuts that many of the oldest entries. The newest ID cut becomes the floor, the newest counting one ft.
local function cut(i, d, many)
  local gone = redis.call('ZRANGE', i, 1, many) -- rank 0 is the sentinel: it goes too, and comes back with the new floor
  for _, e in ipairs(gone) do if e:sub(19) == '+' and e:sub(1, 13) > d.ft then d.ft = e:sub(1, 13) end end
  d.floor = gone[#gone]:sub(1, 13)
  redis.call('ZREMRANGEBYRANK', i, 0, #gone)
  redis.call('ZADD', i, 0, '!' .. d.floor)
end

-- Cuts the inbox when it is over KEEP + 2 * SLACK, down to KEEP + SLACK, so that many adds need one cut; reports whether it did.
local function trim(i, d)
  local over = redis.call('ZCARD', i) - 1 - KEEP - 2 * SLACK
  if over > 0 then cut(i, d, over + SLACK) end
  return over > 0
end

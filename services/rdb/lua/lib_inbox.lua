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

-- Cuts the inbox as trimList does, and returns how many entries it cut, nil if none. The newest counting one becomes ft.
local function trim(i, d, slack)
  local floor, cut = trimList(i, 1, '!', d.floor, KEEP, slack)
  if not floor then return nil end
  d.floor = floor
  for _, e in ipairs(cut) do if e:sub(19) == '+' and e:sub(1, 13) > d.ft then d.ft = e:sub(1, 13) end end
  return #cut
end

-- Helpers for states of conversations; they stand after lib.lua and before the scripts about these.
-- A state is "last,base,k,version,mentions,way version,flags"; flags: l left, m muted, i inside, r counted when read. If messages
-- leave by age ",aged,leaves" follows: the day as of which they have left, and the day on which the next does, or 0.
local STATE = '^' .. ('(%-?%d+),'):rep(6) .. '(%l*),?(%d*),?(%d*)$' -- a negative number is counted, and reported

-- Parses a state; nil if the text is not one.
local function parse(text)
  local last, base, k, version, mentions, way, flags, aged, leaves = text:match(STATE)
  return last and { last = tonumber(last), base = tonumber(base), k = tonumber(k), version = tonumber(version), mentions = tonumber(mentions), way = tonumber(way), flags = flags, aged = tonumber(aged) or 0, leaves = tonumber(leaves) or 0 }
end

local function flagged(f, flag) return f.flags:find(flag, 1, true) end

-- Reports whether the user's own part of state a is newer than that of b: by version, then by day, then by last sequence.
local function newer(a, b)
  if a.version ~= b.version then return a.version > b.version end
  if a.aged ~= b.aged then return a.aged > b.aged end
  return a.aged > 0 and a.last > b.last
end

-- Merges two states, and returns the result in parts and as text. It has the greater last sequence, the newer of the users' own parts,
-- and the way of counting with the newer version of the way.
local function merged(old, new, oldText, newText)
  local own, way, last = newer(new, old) and new or old, new.way > old.way and new or old, math.max(old.last, new.last)
  if own == old and way == old and (last == old.last or old.aged == 0) then -- a message of somebody else, or nothing new
    if last == old.last then return old, oldText end
    old.last = last
    return old, newText:match('^%-?%d+') .. oldText:match(',.*')
  end
  local flags = own.flags:gsub('r', '') .. (flagged(way, 'r') and 'r' or '')
  local leaves = own.leaves
  if own.aged > 0 and leaves == 0 and last > own.last then leaves = own.aged + 1 end -- unknown here: the next day computes it
  local f = { last = last, base = own.base, k = own.k, version = own.version, mentions = own.mentions, way = way.way, flags = flags, aged = own.aged, leaves = leaves }
  local text = string.format('%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%s', f.last, f.base, f.k, f.version, f.mentions, f.way, f.flags)
  if f.aged > 0 then text = text .. string.format(',%.0f,%.0f', f.aged, f.leaves) end
  return f, text
end

-- A state's share of the sums of unread and of mentions, and its position if it is counted when read.
local function adds(f)
  if flagged(f, 'l') or flagged(f, 'i') then return 0, 0, nil end
  if flagged(f, 'm') then return f.mentions, f.mentions, nil end
  if flagged(f, 'r') then return 0, f.mentions, f.base - f.k end
  return f.last - f.base + f.k, f.mentions, nil
end

local function big(x)
  return string.char(math.floor(x / 16777216) % 256, math.floor(x / 65536) % 256, math.floor(x / 256) % 256, x % 256)
end

-- The packed list with a conversation at a position, or without the conversation.
local function withPosition(list, id, position)
  local name, at = big(id), 0
  repeat at = list:find(name, at + 1, true) until not at or at % 8 == 1 -- the bytes may also occur inside another entry
  local entry = position and name .. big(position) or ''
  if not at then return list .. entry end
  return list:sub(1, at - 1) .. entry .. list:sub(at + 8)
end


-- Helpers for states of conversations; they stand after lib.lua and before the scripts about these.
-- A state is kept as "head,base,k,version,mentions,way version,flags"; the flags are l left, m muted, i inside, r counted when somebody reads.

local STATE = '^' .. ('(%-?%d+),'):rep(6) .. '(%l*)$' -- what is below nought is counted, and told of

-- A state in parts, nil for a text that is none.
local function parse(text)
  local head, base, k, version, mentions, way, flags = text:match(STATE)
  return head and { head = tonumber(head), base = tonumber(base), k = tonumber(k), version = tonumber(version), mentions = tonumber(mentions), way = tonumber(way), flags = flags }
end

local function flagged(f, flag) return f.flags:find(flag, 1, true) end

-- The newer of each half, in parts and as text: the head only grows, the user's own part goes by its version, the way of counting by its own.
local function merged(old, new, oldText, newText)
  local own, way, head = new.version > old.version and new or old, new.way > old.way and new or old, math.max(old.head, new.head)
  if own == old and way == old then -- a message of somebody else, or nothing new
    if head == old.head then return old, oldText end
    old.head = head
    return old, newText:match('^%-?%d+') .. oldText:match(',.*')
  end
  local flags = own.flags:gsub('r', '') .. (flagged(way, 'r') and 'r' or '')
  local f = { head = head, base = own.base, k = own.k, version = own.version, mentions = own.mentions, way = way.way, flags = flags }
  return f, string.format('%.0f,%.0f,%.0f,%.0f,%.0f,%.0f,%s', f.head, f.base, f.k, f.version, f.mentions, f.way, f.flags)
end

-- What a state adds to the sums of unread and of mentions, and its place where it is counted when somebody reads.
local function adds(f)
  if flagged(f, 'l') or flagged(f, 'i') then return 0, 0, nil end
  if flagged(f, 'm') then return f.mentions, f.mentions, nil end
  if flagged(f, 'r') then return 0, f.mentions, f.base - f.k end
  return f.head - f.base + f.k, f.mentions, nil
end

local function big(x)
  return string.char(math.floor(x / 16777216) % 256, math.floor(x / 65536) % 256, math.floor(x / 256) % 256, x % 256)
end

-- The packed list with a conversation at a place, or without it.
local function placed(list, id, place)
  local name, at = big(id), 0
  repeat at = list:find(name, at + 1, true) until not at or at % 8 == 1
  local entry = place and name .. big(place) or ''
  if not at then return list .. entry end
  return list:sub(1, at - 1) .. entry .. list:sub(at + 8)
end


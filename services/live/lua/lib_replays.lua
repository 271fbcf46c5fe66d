-- Helpers for a reader's list of replays; they stand after lib_capped_list.lua and before the scripts that change it, and before the
-- document's inbox_drop.lua, see rdb.RegisterList. It is a capped list with all scores 0. A member is a replay: its position, which is
-- when it ended (9 letters, ms) and its show (13), and its host (5). The letter before the floor is '#' while the list is being built,
-- then '!'.
local NOWHERE, KEEP = ('0'):rep(22), 300

-- The list's mark and floor, nil if there is no list.
local function listed(r)
  local first = redis.call('ZRANGE', r, 0, 0)[1]
  if not first or not first:match('^[!#]' .. ('%w'):rep(22) .. '$') then return nil end
  return { mark = first:sub(1, 1), floor = first:sub(2) }
end

-- Cuts the list as trimList does, and returns how many entries it cut.
local function trimReplays(r, l, slack)
  local _, cut = trimList(r, 1, l.mark, l.floor, KEEP, slack)
  return cut and #cut or 0
end

-- Removes a host's replays. If the list then has room for older replays, its next reader rebuilds it.
local function dropHost(r, host)
  local l, gone = listed(r), {}
  if not l then return end
  for _, member in ipairs(redis.call('ZRANGE', r, 1, -1)) do if member:sub(23) == host then gone[#gone + 1] = member end end
  if #gone == 0 then return end
  redis.call('ZREM', r, unpack(gone))
  if l.floor > NOWHERE and redis.call('ZCARD', r) - 1 < KEEP then redis.call('DEL', r) end
end

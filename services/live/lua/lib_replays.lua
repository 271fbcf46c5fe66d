-- Helpers for a reader's list of replays; they stand after lib.lua and before the scripts that change it, and before the document's
-- inbox_drop.lua, see rdb.RegisterList. It is a ZSET with all scores 0. A member is a replay: its position, which is when it ended (9
-- letters, ms) and its show (13), and its host (5). The first member is the mark and the floor. The floor is the position of the newest
-- replay that the list has lost or never had. The mark is '#' while the list is being built, then '!'.
local NOWHERE, KEEP, SLACK = ('0'):rep(22), 300, 16

-- The list's mark and floor, nil if there is no list.
local function listed(r)
  local first = redis.call('ZRANGE', r, 0, 0)[1]
  if not first or not first:match('^[!#]' .. ('%w'):rep(22) .. '$') then return nil end
  return { mark = first:sub(1, 1), floor = first:sub(2) }
end

-- Gives the list another mark or floor. The new mark is written before entries below it are removed: an empty key would be
-- deleted and lose its expiry.
local function remark(r, l, mark, floor)
  redis.call('ZADD', r, 0, mark .. floor)
  if mark .. floor ~= l.mark .. l.floor then redis.call('ZREM', r, l.mark .. l.floor) end
  if floor > l.floor then redis.call('ZREMRANGEBYLEX', r, '[0', '[' .. floor .. '~') end
  l.mark, l.floor = mark, floor
end

-- Cuts that many of the oldest entries: the newest of them becomes the floor.
local function cutReplays(r, l, many)
  if many > 0 then remark(r, l, l.mark, redis.call('ZRANGE', r, many, many)[1]:sub(1, 22)) end
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

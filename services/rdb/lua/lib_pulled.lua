-- Helpers for F, the followed authors whose posts are pulled; they stand after lib.lua and before every script. F is 12 bytes for
-- each, in no order: author (4), followed since (8).

-- Puts authors into F, each instead of what it has of him, and says whether that changed anything.
local function pull(b, d, entries)
  if entries == '' then return false end
  local list, place = {}, {}
  for _, part in ipairs({ d.F, entries }) do
    for k = 1, #part, 12 do
      local author = part:sub(k, k + 3)
      place[author] = place[author] or #list + 1
      list[place[author]] = part:sub(k, k + 11)
    end
  end
  local packed = table.concat(list)
  if packed == d.F then return false end
  d.F = packed
  redis.call('HSET', b, 'F', packed)
  return true
end

-- Takes an author out of F and says whether he was there.
local function unpull(b, d, author)
  local at = 0
  repeat at = d.F:find(author, at + 1, true) until not at or at % 12 == 1
  if not at then return false end
  d.F = d.F:sub(1, at - 1) .. d.F:sub(at + 12)
  redis.call('HSET', b, 'F', d.F)
  return true
end

-- Helpers for the lists of followed authors that a document names: F, whose posts are pulled, and L, who host shows. They stand after
-- lib.lua and before every script. A list has 12 bytes for each author, in no order: the author (4), and since when they are followed
-- (8), with the first bit set for a host whose shows do not count.

-- The offset of an author's entry in a list, or nil if the author is not in it.
local function positionOf(list, author)
  local at = 0
  repeat at = list:find(author, at + 1, true) until not at or at % 12 == 1
  return at
end

-- Joins two lists: for an author in both, the entry of the second wins.
local function joined(list, entries)
  -- One author is the common case, and needs no table of all.
  if #entries == 12 then
    local at = positionOf(list, entries:sub(1, 4))
    return at and list:sub(1, at - 1) .. entries .. list:sub(at + 12) or list .. entries
  end
  local all, of = {}, {}
  for _, part in ipairs({ list, entries }) do
    for k = 1, #part, 12 do
      local author = part:sub(k, k + 3)
      of[author] = of[author] or #all + 1
      all[of[author]] = part:sub(k, k + 11)
    end
  end
  return table.concat(all)
end

-- Puts authors into a list, each instead of their earlier entry, and reports whether that changed anything; nil: the list is
-- lost.
local function name(b, field, entries)
  if entries == '' then return false end
  local list = redis.call('HGET', b, field)
  if not list then
    redis.call('HSET', b, 'st', '0')
    return nil
  end
  local new = list == '' and entries or list ~= entries and joined(list, entries) or list
  if new == list then return false end
  redis.call('HSET', b, field, new)
  return true
end

-- Removes an author from a list and reports whether they were in it.
local function unname(b, field, author)
  local list = redis.call('HGET', b, field)
  local at = list and positionOf(list, author)
  if not at then return false end
  redis.call('HSET', b, field, list:sub(1, at - 1) .. list:sub(at + 12))
  return true
end

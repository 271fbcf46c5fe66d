-- Helpers for a capped list: a ZSET with the newest entries of something, the oldest first. They stand after lib.lua and before the
-- parts that use them, see redis.CappedListPart. Marks come before the entries. One mark holds the floor: the position of the newest
-- entry that the list has lost or never had, so that the list is complete above its floor. A script that adds entries
-- leaves out those that are not above the floor.
-- The type of the floor tells the form of a list. If it is a text, all scores are 0, and an entry begins with its position. The list has
-- one mark: a letter that sorts before all entries, and the floor. If the floor is a number, the score of an entry is its position, and the
-- score of the mark is -1 - floor, so that no floor is -1.

-- SLACK is how many entries more than it keeps a list may have after a cut. It has at most twice as many more before the next one.
local SLACK = 16

-- Cuts a list with more than keep + 2 * slack entries down to keep + slack, so that many adds need one cut. The newest entry cut becomes
-- the floor, which never falls. Entries at one position are cut one by one: some may stay at the floor. keep is at least 1, because an
-- empty key would be deleted and lose its expiry. Returns the floor, and if it is a text the entries cut; nil if nothing was cut.
local function trimList(list, marks, mark, floor, keep, slack)
  local many = redis.call('ZCARD', list) - marks - keep - slack
  if many <= slack then return nil end
  local isText, last = type(floor) == 'string', marks + many - 1
  local cut = isText and redis.call('ZRANGE', list, marks, last) or redis.call('ZRANGE', list, last, last, 'WITHSCORES')
  local newest = isText and cut[many]:sub(1, #floor) or tonumber(cut[2])
  if newest > floor then floor = newest end
  if isText then
    redis.call('ZREMRANGEBYRANK', list, 0, last) -- the mark goes too, and comes back with the new floor
    redis.call('ZADD', list, 0, mark .. floor)
  else
    redis.call('ZREMRANGEBYRANK', list, marks, last)
    redis.call('ZADD', list, string.format('%.0f', -1 - floor), mark)
  end
  return floor, cut
end

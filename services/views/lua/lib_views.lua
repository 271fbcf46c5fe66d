-- Helpers for views; they stand after the engine's lib.lua and before the scripts that add to one.
local SLACK = 16

-- Cuts a view when it holds over KEEP + 2 * SLACK items, down to KEEP + SLACK; the time of the newest item cut becomes the
-- floor.
local function viewTrim(v, keep)
  local over = redis.call('ZCARD', v) - 3 - keep - 2 * SLACK
  if over <= 0 then return end
  local last = over + SLACK + 2 -- the three marks come first
  local floor = redis.call('ZRANGE', v, last, last, 'WITHSCORES')[2]
  redis.call('ZREMRANGEBYRANK', v, 3, last)
  redis.call('ZADD', v, string.format('%.0f', -1 - tonumber(floor)), '!f')
end

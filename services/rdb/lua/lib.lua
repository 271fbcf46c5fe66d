-- Helpers that stand before every script.
-- now(): Redis' own time in microseconds since 1970, a number below 2^53.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

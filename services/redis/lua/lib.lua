-- Helpers that stand before every script.
-- Statuses that scripts answer first: 0 the projection is not there, 1 applied, 2 nothing to change, 3 RETRY (the caller's SQL
-- read is too old).

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- The nodes that hold a lease on this user's presence: the caller notifies them.
local function nodes(on, answer)
  local leases = redis.call('HGETALL', on)
  local nowMs = #leases > 0 and now() / 1000 or 0
  for k = 1, #leases, 2 do
    if (tonumber(leases[k + 1]) or 0) > nowMs then answer[#answer + 1] = leases[k] end
  end
  return answer
end

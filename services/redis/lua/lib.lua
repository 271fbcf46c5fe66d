-- Helpers that stand before every script.
-- Statuses that scripts answer first: 0 the projection is not there, 1 applied, 2 nothing to change, 3 RETRY (the caller's SQL
-- read is too old).

-- Redis' time in microseconds. A script must not use a caller's clock: stamps of all callers are compared.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

-- Adds to an answer the nodes that hold a lease on this user's presence: the caller notifies them.
local function nodes(on, answer)
  local leases = redis.call('HGETALL', on)
  local nowMs = #leases > 0 and now() / 1000 or 0
  for k = 1, #leases, 2 do
    if (tonumber(leases[k + 1]) or 0) > nowMs then answer[#answer + 1] = leases[k] end
  end
  return answer
end

-- The steps of a chain are several calls in one pipeline, of which any may be lost. Each gets its step, "chain;number" ('' in a
-- call that is in no chain), and notes it in the hash after its last write, but only after the step before it: the field bp is
-- the step up to which nothing of a chain is missing.
local function note(hash, step)
  local chain, number = step:match('^(.*;)(%d+)$')
  if chain and (number == '1' or redis.call('HGET', hash, 'bp') == chain .. (number - 1)) then redis.call('HSET', hash, 'bp', step) end
end
-- Whether a step was noted: then no step up to it is missing. Without a chain there is nothing to miss.
local function noted(hash, step) return step == '' or redis.call('HGET', hash, 'bp') == step end

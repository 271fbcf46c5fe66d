-- Computes when the next message leaves a user's counts because of its age.
-- KEYS[1] {u}:b  KEYS[2] {u}:c  ARGV none
-- Returns {status}
-- A document without Cx is missing, or belongs to a node whose messages do not age.
if not redis.call('HGET', KEYS[1], 'Cx') then return { 0 } end
local leaves = 0
for _, text in ipairs(redis.call('HVALS', KEYS[2])) do
  local state = parse(text)
  if state and state.leaves > 0 and (leaves == 0 or state.leaves < leaves) then leaves = state.leaves end
end
redis.call('HSET', KEYS[1], 'Cx', string.format('%.0f', leaves))
return { 2 }

-- Cuts an inbox down to the entries that are listed.
-- KEYS[1] {u}:b  KEYS[2] {u}:i  KEYS[3] {u}:on
-- ARGV none
-- Returns {status, n, entries cut, nodes...}; n is '0' if the visible state stays the same
local d = open(KEYS[1], KEYS[2])
if not d then return { 0 } end
-- A projection that is being built is left alone: its rebuild trims it.
local many = d.st == '1' and trim(KEYS[2], d, 0)
if not many then return { 2 } end
-- What readers see stays the same, so the version does too and nobody is notified.
if recount(KEYS[2], d) == d.fc then
  redis.call('HSET', KEYS[1], 'ft', short(d.ft))
  return { 1, '0', many }
end
local answer = save(KEYS[1], KEYS[2], KEYS[3], d)
answer[3] = many
return answer

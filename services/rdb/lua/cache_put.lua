-- Caches a copy of a fact unless Redis has a newer one; the first 16 characters of a value are its version.
-- KEYS[1] the copy
-- ARGV[1] value  ARGV[2] seconds to live
-- Returns 1 when written, else 0
local had = redis.call('GET', KEYS[1])
-- Equal versions write too: the copy may be of another epoch, and its expiry begins anew.
if had and had:sub(1, 16) > ARGV[1]:sub(1, 16) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1

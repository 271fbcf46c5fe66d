-- Marks a document as lost if it is older than the version that readers saw: it is rebuilt with a newer version.
-- KEYS[1] {u}:b
-- ARGV[1] the version that readers saw
-- Returns {status, n, 0}
local n = tonumber(redis.call('HGET', KEYS[1], 'n'))
if not n then return { 0 } end
if n >= tonumber(ARGV[1]) then return { 2 } end
-- No epoch is empty, so every reader takes the document for lost. The rebuild then counts on from the version that was
-- shown.
redis.call('HSET', KEYS[1], 'e', '', 'n', ARGV[1])
return { 1, ARGV[1], 0 }

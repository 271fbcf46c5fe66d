-- Writes a user's own states in conversations into their document: the newer of each wins, and the sums move by what that changes. The
-- version of the list (Cv) moves with every change that the list shows, also of what no sum counts: a message in a muted conversation,
-- or one's own. It is a counter of 23 bits with an arbitrary first value, so that it takes 5 bytes.
-- KEYS[1] {u}:b  KEYS[2] {u}:c  KEYS[3] {u}:on
-- ARGV[1] step of a rebuild, or ''  ARGV[2...] pairs: conversation, state
-- Returns {status, n, 1 = a count fell below zero; a sum that did is set to zero, nodes...}
local n, unread, mentions, kept, list, st, known, version = unpack(redis.call('HMGET', KEYS[1], 'n', 'Cu', 'Cm', 'Ck', 'R', 'st', 'Cx', 'Cv'))
n = tonumber(n)
if not n then return { 0 } end
-- The sums are right only for the states that are there. Ck, their number, finds states that were lost.
if not (tonumber(unread) and tonumber(mentions) and tonumber(version) and list) or tonumber(kept) ~= redis.call('HLEN', KEYS[2]) then
  if st == '1' then redis.call('HSET', KEYS[1], 'st', '0') end -- states were lost: their part of the sums is unknown
  return { 0 }
end
local sum, mentioned, packed, count, below, listed = tonumber(unread), tonumber(mentions), list, tonumber(kept), 0, false
local leaves = tonumber(known) or 0 -- a day too early is corrected on that day; a day too late would never be noticed
for k = 2, #ARGV, 2 do
  local new, text = parse(ARGV[k + 1]), redis.call('HGET', KEYS[2], ARGV[k])
  local unread0, mentions0, position0, changed = 0, 0, nil, ARGV[k + 1]
  if text then
    local old = parse(text)
    if not old then -- something else broke it: the state is unknown, and the rebuild must replace all states
      redis.call('HSET', KEYS[1], 'st', '0', 'Ck', '')
      return { 0 }
    end
    unread0, mentions0, position0 = adds(old)
    local last0, version0, base0, left0 = old.last, old.version, old.base, flagged(old, 'l')
    new, changed = merged(old, new, text, changed)
    listed = listed or (new.last > last0 or new.version > version0 or new.base ~= base0) and not (left0 and flagged(new, 'l'))
  else
    count = count + 1
    listed = listed or not flagged(new, 'l')
  end
  local unread1, mentions1, position1 = adds(new)
  sum, mentioned = sum + unread1 - unread0, mentioned + mentions1 - mentions0
  if position0 ~= position1 then packed = withPosition(packed, tonumber(ARGV[k]), position1) end
  if new.leaves > 0 and (leaves == 0 or new.leaves < leaves) then leaves = new.leaves end
  if unread1 < 0 or mentions1 < 0 then below = 1 end
  if changed ~= text then redis.call('HSET', KEYS[2], ARGV[k], changed) end
end
if count > tonumber(kept) then
  redis.call('HSET', KEYS[1], 'Ck', string.format('%.0f', count))
  local left = redis.call('PTTL', KEYS[1]) -- a new hash has no expiry yet: it takes that of the document
  if left > 0 then redis.call('PEXPIRE', KEYS[2], left) end
end
if known and tonumber(known) ~= leaves then redis.call('HSET', KEYS[1], 'Cx', string.format('%.0f', leaves)) end
-- Counts cannot fall below zero unless something else wrote here. Zero is shown, and the caller reports it.
if sum < 0 or mentioned < 0 then below = 1 end
sum, mentioned = string.format('%.0f', math.max(sum, 0)), string.format('%.0f', math.max(mentioned, 0))
local same = not listed and below == 0 and sum == unread and mentioned == mentions and packed == list and (tonumber(known) or 0) == leaves
if not same then
  n = string.format('%.0f', math.max(now(), n + 1))
  redis.call('HSET', KEYS[1], 'n', n, 'Cu', sum, 'Cm', mentioned, 'R', packed)
  if listed then redis.call('HSET', KEYS[1], 'Cv', string.format('%.0f', tonumber(version) % 8388607 + 1)) end
end
-- The step is noted after all writes, also when nothing changed: the rebuild asks only whether this call came through.
note(KEYS[1], ARGV[1])
if same then return { 2 } end
return nodes(KEYS[3], { 1, n, below })

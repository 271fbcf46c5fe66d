-- Helpers that stand after the engine's lib.lua and before every script that changes the feed's half of the document. A document
-- d is the table that open() answers; save() writes it back.
local ZERO, KEEP = '0000000000000', 300

-- The document stores the ID before all others as '0', so that a user without posts needs little memory.
local function long(id) return id == '0' and ZERO or id end
local function short(id) return id == ZERO and '0' or id end

-- Whether fields are there and have their forms; '0' stands for any field at its birth.
local function whole(b, fields, ...)
  local values = redis.call('HMGET', b, unpack(fields))
  for k, form in ipairs({ ... }) do
    if not (values[k] and (values[k] == '0' or values[k]:match(form))) then return false end
  end
  return true
end

-- Reads the feed's half of the document, but for F and L, which may be long and which few scripts look at. A field or an inbox that is
-- lost makes the document say so (st = 0), so that its next reader rebuilds it. Then, and without a document, open() returns nil, and
-- the script answers Missing: the rebuild reads the fact that the script was about to write. An inbox whose mark has no floor of the
-- right length is lost too: entries would be compared with a part of an ID, and a cut would write that part again.
local function open(b, i)
  local v = redis.call('HMGET', b, 'rm', 'n', 'T', 'fc', 'fq', 'ft', 'st', 'fx')
  local first = redis.call('ZRANGE', i, 0, 0)[1]
  local whole = first and #first == 1 + #ZERO and first:sub(1, 1) == '!' and tonumber(v[1]) and tonumber(v[2])
  for k = 3, 7 do whole = whole and v[k] end
  if not whole then
    if v[7] == '1' then redis.call('HSET', b, 'st', '0') end
    return nil
  end
  return { rm = tonumber(v[1]), n = tonumber(v[2]), T = long(v[3]), fc = v[4], fq = long(v[5]), ft = long(v[6]), st = v[7], fx = long(v[8] or '0'), floor = first:sub(2) }
end

-- Posts up to here do not count: they were seen, or are too old.
local function mark(d) return d.fx > d.T and d.fx or d.T end

-- Every removal fences: an add whose SQL read began before the removal is refused from now on.
local function fence(b, d)
  d.rm = math.max(now(), d.rm + 1)
  redis.call('HSET', b, 'rm', string.format('%.0f', d.rm))
end


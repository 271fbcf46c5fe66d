-- Helpers for views; they stand after lib_capped_list.lua and before the scripts that add or remove items. A view is a capped list in
-- the order of its scores, see view_begin.lua.
local MARKS = 3 -- '!r', '!e' and '!f'

-- The floor of a view: the time of the newest item that it has lost or never had, -1 without one; nil while the view is being built.
local function viewFloor(v)
  local score = redis.call('ZSCORE', v, '!f')
  return score and -1 - tonumber(score) or nil
end

-- Cuts a view that holds too many items.
local function trimView(v, floor, keep) trimList(v, MARKS, '!f', floor, tonumber(keep), SLACK) end

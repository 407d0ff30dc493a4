-- Slots of one group, ordered by time; all of them can be shifted at once.

-- Maximum number of slots that are moved one by one before all are shifted at once.
local MAX_SINGLE_MOVES = 64

local function slot_time(state, ticket)
  local relative = redis.call('ZSCORE', state.keys.line, ticket)
  return relative and tonumber(relative) + state.moved
end

-- Time and ticket of the first (0) or last (-1) slot.
local function slot_at(state, index)
  local slot = redis.call('ZRANGE', state.keys.line, index, index, 'WITHSCORES')
  return slot[2] and tonumber(slot[2]) + state.moved, slot[1]
end

local function put(state, ticket, at)
  redis.call('ZADD', state.keys.line, whole(at - state.moved), ticket)
end

-- Moves a slot to a later time and keeps its position: the slots behind it stay at least an interval apart. Only slots
-- that are too close are moved, since each of their owners comes back in vain. If there are too many, all are shifted.
local function postpone(state, ticket, at, interval)
  local rank = redis.call('ZRANK', state.keys.line, ticket)
  redis.call('ZREM', state.keys.line, ticket)
  local followers = redis.call('ZRANGE', state.keys.line, rank, rank + MAX_SINGLE_MOVES, 'WITHSCORES')
  local moves, behind = {}, at + interval
  for number = 1, #followers, 2 do
    if tonumber(followers[number + 1]) + state.moved >= behind then
      break
    end
    moves[#moves + 1] = { followers[number], behind }
    behind = behind + interval
  end
  if #moves <= MAX_SINGLE_MOVES then
    for _, move in ipairs(moves) do
      put(state, move[1], move[2])
    end
  else
    state.moved = state.moved + math.max(0, at + interval - (tonumber(followers[2]) + state.moved))
  end
  put(state, ticket, at)
end

-- Shifts the slots so that those from now on are at this time or later.
local function delay_until(state, time)
  local from = whole(now - state.moved)
  local following = redis.call('ZRANGEBYSCORE', state.keys.line, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if following[2] then
    state.moved = state.moved + math.max(0, time - (tonumber(following[2]) + state.moved))
  end
end

-- Who waits in one group, by the time of their slots; the whole line can be moved at once.

-- How many followers are moved one by one before all are moved at once.
local MOVED_ONE_BY_ONE = 64

local function slot_of(lane, ticket)
  local mark = redis.call('ZSCORE', lane.keys.line, ticket)
  return mark and tonumber(mark) + lane.moved
end

-- The time of the first or the last slot, and whose it is.
local function slot_at(lane, index)
  local slot = redis.call('ZRANGE', lane.keys.line, index, index, 'WITHSCORES')
  return slot[2] and tonumber(slot[2]) + lane.moved, slot[1]
end

local function put(lane, ticket, at)
  redis.call('ZADD', lane.keys.line, whole(at - lane.moved), ticket)
end

-- Gives this one a later slot without losing its place: who comes after it is at least so far behind. Only those
-- move who must, since each of them will come back for nothing. When that does not end soon, all move.
local function put_off(lane, ticket, at, room)
  local rank = redis.call('ZRANK', lane.keys.line, ticket)
  redis.call('ZREM', lane.keys.line, ticket)
  local followers = redis.call('ZRANGE', lane.keys.line, rank, rank + MOVED_ONE_BY_ONE, 'WITHSCORES')
  local moves, behind = {}, at + room
  for number = 1, #followers, 2 do
    if tonumber(followers[number + 1]) + lane.moved >= behind then
      break
    end
    moves[#moves + 1] = { followers[number], behind }
    behind = behind + room
  end
  if #moves <= MOVED_ONE_BY_ONE then
    for _, move in ipairs(moves) do
      put(lane, move[1], move[2])
    end
  else
    lane.moved = lane.moved + math.max(0, at + room - (tonumber(followers[2]) + lane.moved))
  end
  put(lane, ticket, at)
end

-- Moves the line so that whoever was to come from now on comes at this time or later.
local function none_before(lane, time)
  local from = whole(now - lane.moved)
  local following = redis.call('ZRANGEBYSCORE', lane.keys.line, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if following[2] then
    lane.moved = lane.moved + math.max(0, time - (tonumber(following[2]) + lane.moved))
  end
end

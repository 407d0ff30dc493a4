-- What is stored of the gate: its life, the groups it keeps in mind, and the lane of one group.
--
--   life     hash    born: when this life began; seen: the last time that was noted; shift: see below
--   groups   zset    every group by when it can be forgotten, less the shift
--   lane     hash    what is known of one group
--   flight   zset    its requests in flight, by their start
--   leases   zset    the same, by the end of their leases
--   line     zset    who waits, by the time of their slots, less what the line was moved by

local POLICY = {
  'lease', 'grace', 'first', 'most', 'failures', 'cool_down', 'longest_open', 'first_guess', 'idle', 'grudge',
  'most_groups', 'longest_line', 'spare',
}
-- A clock that goes back by no more than this is taken to stand still, which no gap notices.
local WOBBLE = 1000
-- How many groups a call forgets beside its own: more than one, so that forgetting outruns remembering.
local AT_ONCE = 16

local now = read_clock(ARGV[1])
local policy = {}
for number, name in ipairs(POLICY) do
  policy[name] = tonumber(ARGV[2 + number])
end
-- The arguments of the call itself come after those of all calls.
local function argument(number)
  return ARGV[2 + #POLICY + number]
end

local function later(a, b)
  if a and b then
    return math.max(a, b)
  end
  return a or b
end

local life = {}

local function read_life()
  local stored = redis.call('HMGET', KEYS[1], 'born', 'seen', 'shift')
  life.born, life.seen, life.shift = tonumber(stored[1]), tonumber(stored[2]) or now, tonumber(stored[3]) or 0
  local changed = not stored[2] or now - life.seen >= WOBBLE
  if not life.born then
    -- Emptied without a restart.
    life.born, changed = now, true
  end
  local back = life.seen - now
  if back > WOBBLE then
    life.born, life.shift, changed = life.born - back, life.shift - back, true
  end
  if changed then
    life.seen = now
    redis.call('HSET', KEYS[1], 'born', whole(life.born), 'seen', whole(now), 'shift', whole(life.shift))
  end
end

-- How many groups are kept in mind.
local function groups_in_mind()
  return redis.call('ZCOUNT', KEYS[2], '(' .. whole(now - life.shift), '+inf')
end

local function forget_some(most)
  local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', whole(now - life.shift), 'LIMIT', 0, most)
  if #over > 0 then
    redis.call('ZREM', KEYS[2], unpack(over))
  end
  return #over
end

-- When a group can be forgotten next.
local function next_to_forget()
  local soonest = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. whole(now - life.shift), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return soonest[2] and tonumber(soonest[2]) + life.shift or now
end

local FIELDS = {
  'seen', 'start', 'ended', 'gap', 'mean', 'off', 'moved', 'blocks', 'since', 'left_until', 'openings', 'forget', 'count',
}

-- The keys of the so-manieth group of the call: its lane, its flight, its leases, its line.
local function keys_of(number)
  local first = 3 + 4 * (number - 1)
  return { lane = KEYS[first], flight = KEYS[first + 1], leases = KEYS[first + 2], line = KEYS[first + 3] }
end

local function end_lost_leases(lane)
  local lost = redis.call('ZRANGEBYSCORE', lane.keys.leases, '-inf', whole(now), 'WITHSCORES')
  for number = 1, #lost, 2 do
    redis.call('ZREM', lane.keys.flight, lost[number])
    redis.call('ZREM', lane.keys.leases, lost[number])
    lane.ended = later(lane.ended, tonumber(lost[number + 1]))
  end
end

-- A clock that was set back takes the group along, so that waits stay as long as they were.
local function turn_back(lane, by)
  for _, field in ipairs({ 'start', 'ended', 'since', 'left_until' }) do
    lane[field] = lane[field] and lane[field] - by
  end
  lane.moved = lane.moved - by
  for _, key in ipairs({ lane.keys.flight, lane.keys.leases }) do
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, whole(-by), id)
    end
  end
end

-- Reads a lane as it is now: leases have ended, slots have lapsed. Nothing if there is none, or it is forgotten.
local function read_lane(keys)
  local stored = redis.call('HMGET', keys.lane, 'probe', unpack(FIELDS))
  local lane = { keys = keys, probe = stored[1] and stored[1] ~= '' and stored[1] or nil }
  for number, field in ipairs(FIELDS) do
    lane[field] = tonumber(stored[number + 1])
  end
  if not lane.seen then
    return nil
  end
  local back = lane.seen - now
  if (back > WOBBLE and lane.forget - back or lane.forget) <= now then
    redis.call('DEL', keys.lane, keys.flight, keys.leases, keys.line)
    return nil
  end
  if back > WOBBLE then
    turn_back(lane, back)
  elseif back > 0 then
    -- The lane has seen a later moment: for it, no time has passed.
    now = lane.seen
    return lane
  end
  lane.seen = now
  end_lost_leases(lane)
  redis.call('ZREMRANGEBYSCORE', keys.line, '-inf', '(' .. whole(now - policy.grace - lane.moved))
  return lane
end

local function new_lane(keys)
  return { keys = keys, seen = now, gap = 0, moved = 0, forget = now }
end

-- When the lane can be forgotten, if nothing more happens.
local function forget_at(lane)
  local last = later(lane.start, lane.ended)
  local lease = redis.call('ZRANGE', lane.keys.leases, -1, -1, 'WITHSCORES')
  last = later(last, tonumber(lease[2])) or now
  local at = last + math.max(lane.gap, policy.idle)
  if lane.blocks then
    at = math.max(at, lane.left_until + policy.grudge)
  end
  local slot = redis.call('ZRANGE', lane.keys.line, -1, -1, 'WITHSCORES')
  if slot[2] then
    at = math.max(at, tonumber(slot[2]) + lane.moved + policy.grace + 1)
  end
  return at
end

local function write_lane(lane, group)
  lane.forget = forget_at(lane)
  local keys = lane.keys
  if lane.forget <= now then
    redis.call('DEL', keys.lane, keys.flight, keys.leases, keys.line)
    redis.call('ZREM', KEYS[2], group)
    return
  end
  local fields = { 'probe', lane.probe or '' }
  for _, field in ipairs(FIELDS) do
    fields[#fields + 1] = field
    fields[#fields + 1] = lane[field] and whole(lane[field]) or ''
  end
  redis.call('HSET', keys.lane, unpack(fields))
  local rest = whole(lane.forget - now + policy.spare)
  for _, key in pairs(keys) do
    redis.call('PEXPIRE', key, rest)
  end
  redis.call('ZADD', KEYS[2], whole(lane.forget - life.shift), group)
end

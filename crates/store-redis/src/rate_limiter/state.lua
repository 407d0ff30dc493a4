-- State of the rate limiter: its epoch, its groups, and the state of one group.
--
--   life     hash    born: start of this epoch; seen: last recorded reading of the clock; shift: see read_epoch
--   groups   zset    groups by when they can be removed, less the shift
--   lane     hash    state of one group
--   flight   zset    its requests in flight, by start
--   leases   zset    the same, by the end of their leases
--   line     zset    its slots (tickets) by time, less `moved`, by which all slots were shifted

local POLICY = {
  'lease', 'grace', 'backoff_first', 'backoff_max', 'failure_threshold', 'cooldown', 'max_cooldown', 'initial_latency',
  'idle_ttl', 'failure_ttl', 'max_groups', 'max_slots', 'ttl_margin',
}
-- Maximum step back of the clock that is treated as standing still, in milliseconds.
local CLOCK_TOLERANCE = 1000
-- Maximum number of groups removed by each call: more than one, so that removals outpace additions.
local REMOVALS_PER_CALL = 16

local now = read_clock(ARGV[1])
local policy = {}
for number, name in ipairs(POLICY) do
  policy[name] = tonumber(ARGV[2 + number])
end
-- Arguments of the command itself, which follow the common ones.
local function argument(number)
  return ARGV[2 + #POLICY + number]
end

local function later(a, b)
  if a and b then
    return math.max(a, b)
  end
  return a or b
end

local epoch = {}

-- A clock that was set back shifts the scores of all groups by `shift`.
local function read_epoch()
  local stored = redis.call('HMGET', KEYS[1], 'born', 'seen', 'shift')
  epoch.born, epoch.seen, epoch.shift = tonumber(stored[1]), tonumber(stored[2]) or now, tonumber(stored[3]) or 0
  local changed = not stored[2] or now - epoch.seen >= CLOCK_TOLERANCE
  if not epoch.born then
    -- The data was deleted without a restart.
    epoch.born, changed = now, true
  end
  local back = epoch.seen - now
  if back > CLOCK_TOLERANCE then
    epoch.born, epoch.shift, changed = epoch.born - back, epoch.shift - back, true
  end
  if changed then
    epoch.seen = now
    redis.call('HSET', KEYS[1], 'born', whole(epoch.born), 'seen', whole(now), 'shift', whole(epoch.shift))
  end
end

local function tracked_groups()
  return redis.call('ZCOUNT', KEYS[2], '(' .. whole(now - epoch.shift), '+inf')
end

local function remove_idle(max)
  local idle = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', whole(now - epoch.shift), 'LIMIT', 0, max)
  if #idle > 0 then
    redis.call('ZREM', KEYS[2], unpack(idle))
  end
  return #idle
end

-- When the next group can be removed.
local function next_removal()
  local due = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. whole(now - epoch.shift), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return due[2] and tonumber(due[2]) + epoch.shift or now
end

local FIELDS = {
  'seen', 'start', 'ended', 'gap', 'mean', 'off', 'moved', 'blocks', 'since', 'left_until', 'openings', 'forget', 'count',
}

-- Keys of the nth group of the call.
local function keys_of(number)
  local first = 3 + 4 * (number - 1)
  return { lane = KEYS[first], flight = KEYS[first + 1], leases = KEYS[first + 2], line = KEYS[first + 3] }
end

local function end_expired_leases(state)
  local expired = redis.call('ZRANGEBYSCORE', state.keys.leases, '-inf', whole(now), 'WITHSCORES')
  for number = 1, #expired, 2 do
    redis.call('ZREM', state.keys.flight, expired[number])
    redis.call('ZREM', state.keys.leases, expired[number])
    state.ended = later(state.ended, tonumber(expired[number + 1]))
  end
end

-- Shifts all times of a group after the clock was set back, so that delays keep their length.
local function set_back(state, by)
  for _, field in ipairs({ 'start', 'ended', 'since', 'left_until' }) do
    state[field] = state[field] and state[field] - by
  end
  state.moved = state.moved - by
  for _, key in ipairs({ state.keys.flight, state.keys.leases }) do
    for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      redis.call('ZINCRBY', key, whole(-by), id)
    end
  end
end

-- State of a group as of now: expired leases are ended and expired slots removed. Nil for an unknown or expired group.
local function read_state(keys)
  local stored = redis.call('HMGET', keys.lane, 'probe', unpack(FIELDS))
  local state = { keys = keys, probe = stored[1] and stored[1] ~= '' and stored[1] or nil }
  for number, field in ipairs(FIELDS) do
    state[field] = tonumber(stored[number + 1])
  end
  if not state.seen then
    return nil
  end
  local back = state.seen - now
  if (back > CLOCK_TOLERANCE and state.forget - back or state.forget) <= now then
    redis.call('DEL', keys.lane, keys.flight, keys.leases, keys.line)
    return nil
  end
  if back > CLOCK_TOLERANCE then
    set_back(state, back)
  elseif back > 0 then
    -- The group has seen a later reading of the clock: no time has passed for it.
    now = state.seen
    return state
  end
  state.seen = now
  end_expired_leases(state)
  redis.call('ZREMRANGEBYSCORE', keys.line, '-inf', '(' .. whole(now - policy.grace - state.moved))
  return state
end

local function new_state(keys)
  return { keys = keys, seen = now, gap = 0, moved = 0, forget = now }
end

-- When the group can be removed if it is not used until then.
local function expires_at(state)
  local last = later(state.start, state.ended)
  local lease = redis.call('ZRANGE', state.keys.leases, -1, -1, 'WITHSCORES')
  last = later(last, tonumber(lease[2])) or now
  local at = last + math.max(state.gap, policy.idle_ttl)
  if state.blocks then
    at = math.max(at, state.left_until + policy.failure_ttl)
  end
  local slot = redis.call('ZRANGE', state.keys.line, -1, -1, 'WITHSCORES')
  if slot[2] then
    at = math.max(at, tonumber(slot[2]) + state.moved + policy.grace + 1)
  end
  return at
end

local function write_state(state, group)
  state.forget = expires_at(state)
  local keys = state.keys
  if state.forget <= now then
    redis.call('DEL', keys.lane, keys.flight, keys.leases, keys.line)
    redis.call('ZREM', KEYS[2], group)
    return
  end
  local fields = { 'probe', state.probe or '' }
  for _, field in ipairs(FIELDS) do
    fields[#fields + 1] = field
    fields[#fields + 1] = state[field] and whole(state[field]) or ''
  end
  redis.call('HSET', keys.lane, unpack(fields))
  local ttl = whole(state.forget - now + policy.ttl_margin)
  for _, key in pairs(keys) do
    redis.call('PEXPIRE', key, ttl)
  end
  redis.call('ZADD', KEYS[2], whole(state.forget - epoch.shift), group)
end

-- Commands of the rate limiter. Each call of the script runs one of them.

-- Minimum delay of new groups when the limiter is full, in milliseconds.
local FULL_DELAY = 1000

local commands = {}

-- Writes a state that was only read, since reading has ended leases and removed slots.
local function write_if_present(state, group)
  if state then
    write_state(state, group)
  end
end

local function grant(state, group, ticket, random)
  redis.call('ZREM', state.keys.line, ticket)
  local id, ends = next_id(state, random), now + policy.lease
  redis.call('ZADD', state.keys.flight, whole(now), id)
  redis.call('ZADD', state.keys.leases, whole(ends), id)
  state.start = later(state.start, now)
  if state.blocks and state.openings > 0 then
    state.probe = id
  end
  write_state(state, group)
  return { 'granted', id, whole(ends) }
end

-- Arguments: group, ticket, concurrency, minimum delay, a random integer below a million, a random number below 1
function commands.reserve()
  local group, ticket = argument(1), argument(2)
  local limits = { concurrency = tonumber(argument(3)), min_delay = tonumber(argument(4)) }
  local random, fraction = tonumber(argument(5)), tonumber(argument(6))
  remove_idle(REMOVALS_PER_CALL)
  local state = read_state(keys_of(1))
  if not state then
    if tracked_groups() >= policy.max_groups then
      local at = math.max(next_removal(), now + FULL_DELAY) + math.floor(fraction * (FULL_DELAY + 1))
      return { 'overloaded', whole(at) }
    end
    state = new_state(keys_of(1))
  end
  state.gap = math.max(state.gap, limits.min_delay)
  local free, reason = earliest(state, limits)
  local slot = slot_time(state, ticket)
  local at
  if not slot then
    at = new_slot(state, free, slot_interval(limits, latency(state)))
  else
    local _, first = slot_at(state, 0)
    at = first == ticket and free <= now and now or math.max(slot, free)
  end
  if at <= now then
    return grant(state, group, ticket, random)
  end
  if slot and slot ~= at then
    -- Slots are further apart than the mean latency requires; that reserve is used up first.
    local mean = math.min(state.mean or policy.initial_latency, policy.lease)
    postpone(state, ticket, at, slot_interval(limits, mean))
  elseif not slot and redis.call('ZCARD', state.keys.line) >= policy.max_slots then
    -- Callers without a slot are spread over the time that the existing slots take.
    at, reason = at + math.floor(fraction * (at - now + 1)), 'overloaded'
  elseif not slot then
    put(state, ticket, at)
  end
  write_state(state, group)
  return { reason, whole(at) }
end

-- Arguments: group, ticket
function commands.cancel()
  local state = read_state(keys_of(1))
  redis.call('ZREM', keys_of(1).line, argument(2))
  write_if_present(state, argument(1))
  return {}
end

-- Arguments: group, id, outcome, Retry-After or nothing, jitter in thousandths of a percent
function commands.finish()
  local group, id, outcome = argument(1), argument(2), argument(3)
  local state = read_state(keys_of(1))
  local started = state and tonumber(redis.call('ZSCORE', state.keys.flight, id))
  if not started then
    if not is_of_earlier_epoch(id) then
      write_if_present(state, group)
      return { 'fenced' }
    end
    state, started = state or new_state(keys_of(1)), started_at(id)
  end
  redis.call('ZREM', state.keys.flight, id)
  redis.call('ZREM', state.keys.leases, id)
  state.start, state.ended = later(state.start, started), later(state.ended, now)
  if outcome == 'success' then
    succeeded(state, started)
  elseif outcome == 'failure' then
    failed(state, started, tonumber(argument(4)), tonumber(argument(5)))
  end
  write_state(state, group)
  return { 'finished' }
end

-- Arguments: group, id, group, id, …
function commands.extend()
  local answers, clock = {}, now
  for number = 1, (#ARGV - 2 - #POLICY) / 2 do
    now = clock
    local group, id = argument(2 * number - 1), argument(2 * number)
    local state = read_state(keys_of(number))
    local in_flight = state and redis.call('ZSCORE', state.keys.flight, id)
    if in_flight or is_of_earlier_epoch(id) then
      state = state or new_state(keys_of(number))
      local started, ends = tonumber(in_flight or started_at(id)), now + policy.lease
      redis.call('ZADD', state.keys.flight, whole(started), id)
      redis.call('ZADD', state.keys.leases, whole(ends), id)
      state.start = later(state.start, started)
      write_state(state, group)
      answers[number] = whole(ends)
    else
      write_if_present(state, group)
      answers[number] = 'fenced'
    end
  end
  return answers
end

function commands.tracked()
  local max = 1000
  while remove_idle(max) == max do
  end
  return { whole(tracked_groups()) }
end

read_epoch()
return commands[ARGV[2]]()

-- The calls of the gate: one runs, with the lanes of the groups that it names.

-- How long newcomers wait at least when the gate is full, so that they do not ask all the time.
local CROWDED = 1000

local calls = {}

-- Reading a lane has ended leases and dropped slots, which has to be written even if nothing else is.
local function seen_only(lane, group)
  if lane then
    write_lane(lane, group)
  end
end

local function start(lane, group, ticket, random)
  redis.call('ZREM', lane.keys.line, ticket)
  local id, ends = next_id(lane, random), now + policy.lease
  redis.call('ZADD', lane.keys.flight, whole(now), id)
  redis.call('ZADD', lane.keys.leases, whole(ends), id)
  lane.start = later(lane.start, now)
  if lane.blocks and lane.openings > 0 then
    lane.probe = id
  end
  write_lane(lane, group)
  return { 'go', id, whole(ends) }
end

-- group, ticket, in flight, gap, a number below a million, a part of one
function calls.reserve()
  local group, ticket = argument(1), argument(2)
  local limits = { in_flight = tonumber(argument(3)), gap = tonumber(argument(4)) }
  local random, part = tonumber(argument(5)), tonumber(argument(6))
  forget_some(AT_ONCE)
  local lane = read_lane(keys_of(1))
  if not lane then
    if groups_in_mind() >= policy.most_groups then
      local at = math.max(next_to_forget(), now + CROWDED) + math.floor(part * (CROWDED + 1))
      return { 'crowded', whole(at) }
    end
    lane = new_lane(keys_of(1))
  end
  lane.gap = math.max(lane.gap, limits.gap)
  local free, why = earliest(lane, limits)
  local slot = slot_of(lane, ticket)
  local at
  if not slot then
    at = place_for_a_newcomer(lane, free, pace(limits, likely(lane)))
  else
    local _, first = slot_at(lane, 0)
    at = first == ticket and free <= now and now or math.max(slot, free)
  end
  if at <= now then
    return start(lane, group, ticket, random)
  end
  if slot and slot ~= at then
    -- Slots are a little further apart than requests take on average; that little is used up first.
    local mean = math.min(lane.mean or policy.first_guess, policy.lease)
    put_off(lane, ticket, at, pace(limits, mean))
  elseif not slot and redis.call('ZCARD', lane.keys.line) >= policy.longest_line then
    -- All of them come back, so they are spread over as long as the line now takes.
    at, why = at + math.floor(part * (at - now + 1)), 'crowded'
  elseif not slot then
    put(lane, ticket, at)
  end
  write_lane(lane, group)
  return { why, whole(at) }
end

-- group, ticket
function calls.leave()
  local lane = read_lane(keys_of(1))
  redis.call('ZREM', keys_of(1).line, argument(2))
  seen_only(lane, argument(1))
  return {}
end

-- group, id, outcome, retry after or nothing, jitter in thousandths of a percent
function calls.finish()
  local group, id, outcome = argument(1), argument(2), argument(3)
  local lane = read_lane(keys_of(1))
  local started = lane and tonumber(redis.call('ZSCORE', lane.keys.flight, id))
  if not started then
    if not is_of_an_earlier_life(id) then
      seen_only(lane, group)
      return { 'fenced' }
    end
    lane, started = lane or new_lane(keys_of(1)), started_at(id)
  end
  redis.call('ZREM', lane.keys.flight, id)
  redis.call('ZREM', lane.keys.leases, id)
  lane.start, lane.ended = later(lane.start, started), later(lane.ended, now)
  if outcome == 'success' then
    succeeded(lane, started)
  elseif outcome == 'failure' then
    failed(lane, started, tonumber(argument(4)), tonumber(argument(5)))
  end
  write_lane(lane, group)
  return { 'finished' }
end

-- group, id, group, id, …
function calls.extend()
  local answers, clock = {}, now
  for number = 1, (#ARGV - 2 - #POLICY) / 2 do
    now = clock
    local group, id = argument(2 * number - 1), argument(2 * number)
    local lane = read_lane(keys_of(number))
    local known = lane and redis.call('ZSCORE', lane.keys.flight, id)
    if known or is_of_an_earlier_life(id) then
      lane = lane or new_lane(keys_of(number))
      local started, ends = tonumber(known or started_at(id)), now + policy.lease
      redis.call('ZADD', lane.keys.flight, whole(started), id)
      redis.call('ZADD', lane.keys.leases, whole(ends), id)
      lane.start = later(lane.start, started)
      write_lane(lane, group)
      answers[number] = whole(ends)
    else
      seen_only(lane, group)
      answers[number] = 'fenced'
    end
  end
  return answers
end

function calls.tracked()
  local most = 1000
  while forget_some(most) == most do
  end
  return { whole(groups_in_mind()) }
end

read_life()
return calls[ARGV[2]]()

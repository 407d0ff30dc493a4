-- One group: when the next may go, and what the end of a request means for it.

-- Nobody comes back sooner than this because of a request that takes longer than thought.
local LEAST_PATIENCE = 50

local function doubled(first, times, most)
  return math.min(first * 2 ^ math.min(times - 1, 31), most)
end

-- A step towards a number, which rounds away from where it was, so that it arrives instead of stopping short.
local function moved_towards(from, to, part)
  local way = to - from
  return from + (way < 0 and -math.ceil(-way / part) or math.ceil(way / part))
end

-- How long requests take: a moving mean and how far off it lately was.
local function learn(lane, took)
  took = math.min(took, 4294967295)
  if not lane.mean then
    lane.mean, lane.off = took, math.floor(took / 2)
    return
  end
  lane.off = moved_towards(lane.off, math.abs(lane.mean - took), 4)
  lane.mean = moved_towards(lane.mean, took, 8)
end

local function likely(lane)
  return math.min(lane.mean and lane.mean + 2 * lane.off or policy.first_guess, policy.lease)
end

-- How far apart slots have to be, if requests take so long, for each to be free when its time comes.
local function pace(limits, takes)
  if limits.in_flight == 1 then
    return limits.gap + takes
  end
  return math.max(limits.gap, math.ceil(takes / limits.in_flight))
end

-- When this request will have ended, its lease at the latest. What takes longer than thought is thought to take
-- half as long again, so that who waits for it asks a few times and not all the time.
local function likely_end(lane, id, started)
  local thought = started + likely(lane)
  if thought <= now then
    thought = now + math.max(math.ceil((now - started) / 2), LEAST_PATIENCE)
  end
  return math.min(thought, tonumber(redis.call('ZSCORE', lane.keys.leases, id)))
end

-- The request that has to end before one more can start, and when it started.
local function in_the_way(lane, limits)
  local started = lane.probe and redis.call('ZSCORE', lane.keys.flight, lane.probe)
  if started then
    return lane.probe, tonumber(started)
  end
  local index = redis.call('ZCARD', lane.keys.flight) - limits.in_flight
  if index < 0 then
    return nil
  end
  local held = redis.call('ZRANGE', lane.keys.flight, index, index, 'WITHSCORES')
  return held[1], tonumber(held[2])
end

-- When one more could go if nobody waited, as far as can be foreseen, and why not now.
local function earliest(lane, limits)
  local alone = limits.in_flight == 1
  local last = math.max(alone and lane.ended or not alone and lane.start or life.born, life.born)
  local at, why = math.max(now, last + limits.gap), 'pace'
  local id, started = in_the_way(lane, limits)
  if id then
    local ends = likely_end(lane, id, started)
    at, why = math.max(at, alone and ends + limits.gap or ends), 'busy'
  end
  if lane.blocks then
    at = math.max(at, lane.left_until)
    if lane.openings > 0 then
      why = 'open'
    elseif lane.left_until > now then
      why = 'back_off'
    end
  end
  return at, why
end

-- Before the line where there is room, else behind it.
local function place_for_a_newcomer(lane, free, width)
  local first = slot_at(lane, 0)
  if not first or free + width <= first then
    return free
  end
  return math.max(free, slot_at(lane, -1) + width)
end

-- The start of its request is in an id, so that one of an earlier life is known as such.
local function next_id(lane, random)
  lane.count = ((lane.count or random) + 1) % 1000000
  return string.format('%013.0f%06.0f', now, lane.count)
end

local function started_at(id)
  return tonumber(id:sub(1, -7))
end

-- Whether this permit, which nobody knows of, may be one of an earlier life whose request is still on its way.
local function is_of_an_earlier_life(id)
  local started = started_at(id)
  return started and started < life.born and started <= now and started > now - policy.lease
end

local function is_old_news(lane, started)
  return lane.blocks > 0 and started <= lane.since
end

local function succeeded(lane, started)
  learn(lane, now - started)
  if lane.blocks and not is_old_news(lane, started) then
    lane.blocks, lane.since, lane.left_until, lane.openings, lane.probe = nil, nil, nil, nil, nil
  end
end

-- One more failure: the group is left alone, longer each time.
local function failed(lane, started, retry_after, jitter)
  if not lane.blocks then
    lane.blocks, lane.since, lane.left_until, lane.openings = 0, now, now, 0
  end
  if retry_after then
    lane.left_until = math.max(lane.left_until, now + retry_after)
  end
  if not is_old_news(lane, started) then
    lane.blocks, lane.since = lane.blocks + 1, now
    local pause = doubled(policy.first, lane.blocks, policy.most)
    pause = math.min(math.floor(pause * jitter / 100000), policy.most)
    lane.left_until = math.max(lane.left_until, now + pause)
    if policy.failures > 0 and lane.blocks >= policy.failures then
      lane.openings = lane.openings + 1
      local open = doubled(policy.cool_down, lane.openings, policy.longest_open)
      lane.left_until = math.max(lane.left_until, now + open)
    end
  end
  none_before(lane, lane.left_until)
end

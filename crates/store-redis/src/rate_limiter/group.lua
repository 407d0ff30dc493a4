-- Rules of one group: the time of the next permit, and the effect of a request's outcome.

-- Minimum remaining time assumed for a request that exceeds its latency estimate, in milliseconds.
local MIN_REMAINING = 50

local function backoff(first, failures, max)
  return math.min(first * 2 ^ math.min(failures - 1, 31), max)
end

-- Moves an average towards a value by one part in `weight`, rounded away from zero, so that it reaches the value.
local function ewma(average, value, weight)
  local difference = value - average
  return average + (difference < 0 and -math.ceil(-difference / weight) or math.ceil(difference / weight))
end

-- Latency estimate: EWMA of the latency and of its deviation.
local function update_latency(state, sample)
  sample = math.min(sample, 4294967295)
  if not state.mean then
    state.mean, state.off = sample, math.floor(sample / 2)
    return
  end
  state.off = ewma(state.off, math.abs(state.mean - sample), 4)
  state.mean = ewma(state.mean, sample, 8)
end

local function latency(state)
  return math.min(state.mean and state.mean + 2 * state.off or policy.initial_latency, policy.lease)
end

-- Interval between slots at this latency, so that each slot is free when its time comes.
local function slot_interval(limits, latency)
  if limits.concurrency == 1 then
    return limits.min_delay + latency
  end
  return math.max(limits.min_delay, math.ceil(latency / limits.concurrency))
end

-- Estimated end of a request, at most the end of its lease. A request that exceeds the latency estimate is assumed to
-- take half as long again, so that callers that wait for it ask a few times only.
local function estimated_end(state, id, started)
  local estimate = started + latency(state)
  if estimate <= now then
    estimate = now + math.max(math.ceil((now - started) / 2), MIN_REMAINING)
  end
  return math.min(estimate, tonumber(redis.call('ZSCORE', state.keys.leases, id)))
end

-- The request that has to end before one more can start, and when it started.
local function blocking_request(state, limits)
  local started = state.probe and redis.call('ZSCORE', state.keys.flight, state.probe)
  if started then
    return state.probe, tonumber(started)
  end
  local index = redis.call('ZCARD', state.keys.flight) - limits.concurrency
  if index < 0 then
    return nil
  end
  local request = redis.call('ZRANGE', state.keys.flight, index, index, 'WITHSCORES')
  return request[1], tonumber(request[2])
end

-- Estimated time of the next permit if there were no slots, and the reason for a wait.
local function earliest(state, limits)
  local sequential = limits.concurrency == 1
  local last = math.max(sequential and state.ended or not sequential and state.start or epoch.born, epoch.born)
  local at, reason = math.max(now, last + limits.min_delay), 'min_delay'
  local id, started = blocking_request(state, limits)
  if id then
    local ends = estimated_end(state, id, started)
    at, reason = math.max(at, sequential and ends + limits.min_delay or ends), 'concurrency'
  end
  if state.blocks then
    at = math.max(at, state.left_until)
    if state.openings > 0 then
      reason = 'circuit_open'
    elseif state.left_until > now then
      reason = 'backoff'
    end
  end
  return at, reason
end

-- Time of a new slot: before the existing ones if there is room, otherwise behind them.
local function new_slot(state, free, interval)
  local first = slot_at(state, 0)
  if not first or free + interval <= first then
    return free
  end
  return math.max(free, slot_at(state, -1) + interval)
end

-- Id of a permit. It contains the start of the request, so that permits of an earlier epoch can be recognised.
local function next_id(state, random)
  state.count = ((state.count or random) + 1) % 1000000
  return string.format('%013.0f%06.0f', now, state.count)
end

local function started_at(id)
  return tonumber(id:sub(1, -7))
end

-- Whether an unknown permit may be one of an earlier epoch whose request is still in flight.
local function is_of_earlier_epoch(id)
  local started = started_at(id)
  return started and started < epoch.born and started <= now and started > now - policy.lease
end

local function predates_last_failure(state, started)
  return state.blocks > 0 and started <= state.since
end

local function succeeded(state, started)
  update_latency(state, now - started)
  if state.blocks and not predates_last_failure(state, started) then
    state.blocks, state.since, state.left_until, state.openings, state.probe = nil, nil, nil, nil, nil
  end
end

-- Counts a failure: the back-off grows each time.
local function failed(state, started, retry_after, jitter)
  if not state.blocks then
    state.blocks, state.since, state.left_until, state.openings = 0, now, now, 0
  end
  if retry_after then
    state.left_until = math.max(state.left_until, now + retry_after)
  end
  if not predates_last_failure(state, started) then
    state.blocks, state.since = state.blocks + 1, now
    local delay = backoff(policy.backoff_first, state.blocks, policy.backoff_max)
    delay = math.min(math.floor(delay * jitter / 100000), policy.backoff_max)
    state.left_until = math.max(state.left_until, now + delay)
    if policy.failure_threshold > 0 and state.blocks >= policy.failure_threshold then
      state.openings = state.openings + 1
      local cooldown = backoff(policy.cooldown, state.openings, policy.max_cooldown)
      state.left_until = math.max(state.left_until, now + cooldown)
    end
  end
  delay_until(state, state.left_until)
end

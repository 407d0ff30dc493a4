-- States of groups, each swapped if it is unchanged. The rules are in the program.
--
--   life     hash     born: since when the data is valid; seen: last recorded reading of the clock; shift: by how much the
--                     clock was set back so far, below zero
--   groups   zset     groups by when their states expire, less the shift
--   state    string   version (8 bytes) and state of one group
--   places   strings  place in line of one ticket each
--
--   KEYS   life, groups, state, places …
--   ARGV   clock, command, arguments

local now, command = read_clock(ARGV[1]), ARGV[2]

-- Maximum step back of the clock that is treated as standing still, in milliseconds.
local CLOCK_TOLERANCE = 1000

local life = redis.call('HMGET', KEYS[1], 'born', 'seen', 'shift')
local born, seen, shift = tonumber(life[1]), tonumber(life[2]) or now, tonumber(life[3]) or 0
local back = math.max(0, seen - now)
if command == 'epoch' or not born then
  -- The data may be older than the last requests, or it was deleted.
  born, shift, seen = now, shift - back, nil
elseif back > CLOCK_TOLERANCE then
  born, shift, seen = born - back, shift - back, nil
end
if not seen or now - seen >= CLOCK_TOLERANCE then
  redis.call('HSET', KEYS[1], 'born', whole(born), 'seen', whole(now), 'shift', whole(shift))
end

local commands = {}

function commands.epoch()
  return {}
end

-- Swaps the state of one group, if nothing differs from what is expected, or loads it.
--
--   Arguments: group; of a swap also expected version, its expected epoch, time of the decision, its maximum age, expiry, addition
--   to the TTL, new version and state, and for each place the expected and the new one (empty: none)
--   Answers: time; of a load also the epoch, the state with its version, and the places
function commands.exchange()
  local group, version, epoch, decided, max_age, expires, margin, state = unpack(ARGV, 3, 10)
  local values = redis.call('MGET', unpack(KEYS, 3))
  for number, value in ipairs(values) do
    values[number] = value or ''
  end
  local is_same = decided and string.sub(values[1], 1, 8) == version and tonumber(epoch) == born
    and tonumber(decided) <= now and now - decided <= tonumber(max_age)
  for number = 2, #values do
    is_same = is_same and values[number] == ARGV[7 + 2 * number]
  end
  if not is_same then
    return { whole(now), whole(born), unpack(values) }
  end
  if tonumber(expires) <= now then
    redis.call('DEL', KEYS[3])
    redis.call('ZREM', KEYS[2], group)
    return { whole(now) }
  end
  local ttl = whole(expires - now + margin)
  redis.call('SET', KEYS[3], state, 'PX', ttl)
  redis.call('ZADD', KEYS[2], whole(expires - shift), group)
  for number = 2, #values do
    local place = ARGV[8 + 2 * number]
    if place ~= '' then
      redis.call('SET', KEYS[number + 2], place, 'PX', ttl)
    elseif values[number] ~= '' then
      redis.call('DEL', KEYS[number + 2])
    end
  end
  return { whole(now) }
end

-- Removes expired groups from the set and answers the number of the others.
function commands.count()
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', whole(now - shift))
  return { whole(redis.call('ZCARD', KEYS[2])) }
end

return commands[command]()

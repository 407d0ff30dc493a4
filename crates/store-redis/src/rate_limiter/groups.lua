-- States of groups: loads one, or swaps it if it is unchanged. The rules are in the program.
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

-- Answers the time, since when the data is valid, the state with its version, and the places.
function commands.load()
  local values = redis.call('MGET', unpack(KEYS, 3))
  for number, value in ipairs(values) do
    values[number] = value or ''
  end
  return { whole(now), whole(born), unpack(values) }
end

-- Arguments: group, version, time of the load, its maximum age, expiry, addition to the TTL, new state, new places (empty: none)
function commands.swap()
  local group, version, loaded, max_age = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
  local current = redis.call('GETRANGE', KEYS[3], 0, 7)
  if current ~= version or now - loaded > max_age then
    return { 'changed' }
  end
  local expires = tonumber(ARGV[7])
  if expires <= now then
    redis.call('DEL', KEYS[3])
    redis.call('ZREM', KEYS[2], group)
  else
    local ttl = whole(expires - now + ARGV[8])
    redis.call('SET', KEYS[3], ARGV[9], 'PX', ttl)
    redis.call('ZADD', KEYS[2], whole(expires - shift), group)
    for number = 4, #KEYS do
      local place = ARGV[6 + number]
      if place == '' then
        redis.call('DEL', KEYS[number])
      else
        redis.call('SET', KEYS[number], place, 'PX', ttl)
      end
    end
  end
  return { 'swapped' }
end

-- Removes expired groups from the set and answers the number of the others.
function commands.count()
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', whole(now - shift))
  return { whole(redis.call('ZCARD', KEYS[2])) }
end

return commands[command]()

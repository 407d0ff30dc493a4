-- Requests of users: each call changes one key, so that keys may be on different nodes of a cluster.

local now = read_clock(ARGV[1])
local command = ARGV[2]
local commands = {}

-- Compare-and-set of a field of a hash: the time of the change, or 0. An empty text is a missing field.
function commands.swap()
  local field, expected, value = ARGV[3], ARGV[4], ARGV[5]
  if (redis.call('HGET', KEYS[1], field) or '') ~= expected then
    return 0
  end
  if value == '' then
    redis.call('HDEL', KEYS[1], field)
  else
    redis.call('HSET', KEYS[1], field, value)
  end
  return whole(now)
end

-- Adds a member to a sorted set of due times, unless it is there.
function commands.schedule()
  return redis.call('ZADD', KEYS[1], 'NX', whole(now + tonumber(ARGV[4])), ARGV[3])
end

-- Members that have been due for a time. Each is due again after a lease, unless it is removed.
function commands.take()
  local max, lease, last = tonumber(ARGV[3]), tonumber(ARGV[4]), now - tonumber(ARGV[5])
  local due = redis.call('ZRANGE', KEYS[1], '-inf', whole(last), 'BYSCORE', 'LIMIT', 0, max)
  for _, member in ipairs(due) do
    redis.call('ZADD', KEYS[1], 'XX', whole(last + lease), member)
  end
  return due
end

return commands[command]()

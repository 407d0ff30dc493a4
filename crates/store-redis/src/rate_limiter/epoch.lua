-- A new life of the gate: what is stored may be older than the last requests, so that every group waits one gap from
-- now on. Runs when the server turns out not to know the gate's script, as it does after each of its starts.

local now = read_clock(ARGV[1])
local stored = redis.call('HMGET', KEYS[1], 'seen', 'shift')
-- Another server that took over may have another clock: what was noted by the old one is taken along.
local back = math.max(0, (tonumber(stored[1]) or now) - now)
local shift = (tonumber(stored[2]) or 0) - back
redis.call('HSET', KEYS[1], 'born', whole(now), 'seen', whole(now), 'shift', whole(shift))
return 1

-- New epoch of the rate limiter: the data may be older than the last requests, so that every group waits one minimum
-- delay from now on. Runs when the server does not know the limiter's script, as after each of its starts.

local now = read_clock(ARGV[1])
local stored = redis.call('HMGET', KEYS[1], 'seen', 'shift')
-- A server that took over may have another clock: the stored times are shifted.
local back = math.max(0, (tonumber(stored[1]) or now) - now)
local shift = (tonumber(stored[2]) or 0) - back
redis.call('HSET', KEYS[1], 'born', whole(now), 'seen', whole(now), 'shift', whole(shift))
return 1

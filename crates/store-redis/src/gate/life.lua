-- A new life of the gate: what is stored may be older than the last requests, so that every group waits one gap from
-- now on. Runs when the server turns out not to know the gate's script, as it does after each of its starts.

redis.call('HSET', KEYS[1], 'born', whole(read_clock(ARGV[1])))
return 1

-- Replaces the state of the previous version, unless its workers are alive. Answers how long ago the last of them called, in
-- milliseconds, if that is too short.
--
--   KEYS   life of the previous version
--   ARGV   clock, time after which its workers are gone, text that takes its place

local now, max_age = read_clock(ARGV[1]), tonumber(ARGV[2])
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  local seen = tonumber(redis.call('HGET', KEYS[1], 'seen')) or 0
  if math.abs(now - seen) < max_age then
    return { whole(math.abs(now - seen)) }
  end
end
redis.call('SET', KEYS[1], ARGV[3])
return {}

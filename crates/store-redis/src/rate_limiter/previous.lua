-- Takes over from the previous version, unless its workers are alive.
--
--   KEYS     life and groups of the previous version, and the prefix of the states of its groups
--   ARGV     clock, time after which its workers are gone, text that takes the place of its life (empty: read only)
--   Answers  how long ago the last worker called, in milliseconds, if that is too short. Otherwise, of a call that only reads, for
--            each group with failures: name, failures in a row, time of the last one, end of the back-off, openings of the breaker

local now, max_age = read_clock(ARGV[1]), tonumber(ARGV[2])
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  if ARGV[3] ~= '' then
    redis.call('SET', KEYS[1], ARGV[3])
  end
  return {}
end
local age = math.abs(now - (tonumber(redis.call('HGET', KEYS[1], 'seen')) or 0))
if age < max_age then
  return { whole(age) }
end
if ARGV[3] ~= '' then
  redis.call('SET', KEYS[1], ARGV[3])
  return {}
end
local answer = {}
for _, group in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  local state = redis.call('HMGET', KEYS[3] .. group, 'blocks', 'since', 'left_until', 'openings')
  if tonumber(state[1]) and (tonumber(state[3]) or 0) > now then
    table.insert(answer, group)
    for number = 1, 4 do
      table.insert(answer, whole(tonumber(state[number]) or 0))
    end
  end
end
return answer

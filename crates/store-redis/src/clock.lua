-- What time it is, in milliseconds: the server's clock, or what a test puts in its place.

-- Times and scores as whole numbers, which the usual conversion would round from 14 digits on.
local function whole(number)
  return string.format('%.0f', number)
end

-- A text of digits is the time itself, one with a sign is added to the server's, an empty one is the server's.
local function read_clock(text)
  if text:find('^%d') then
    return tonumber(text)
  end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000) + (tonumber(text) or 0)
end
